"""Whatever an agent says, wherever it is shown: no script of it runs, and nothing is asked for."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Request, expect

from tests.browser.agents.hostile.corpus import ELSEWHERE, PAYLOADS
from tests.browser.conftest import Notebooks
from tests.browser.lab import NotebookPage
from tests.browser.panes import chat_of, surface_of

_ROOT = Path(__file__).parents[2]
_AGENT = f"{sys.executable} -m tests.browser.agents.hostile"
_NAME = PAYLOADS[3].replace("/", "")
_OPEN = f"""
import piweb_jupyter as piweb
from piweb_jupyter.views import view_session
session = piweb.open({str(_ROOT)!r}, cmd={_AGENT!r}, name={_NAME!r})
view_session(session)
"""


# What must not exist below a view, whoever wrote it; returns what is there all the same.
_AUDIT = """() => {
    const never = 'script, iframe, frame, object, embed, base, meta, link, svg, math, video, audio,'
        + ' source, form[action], [srcset], [ping], [background], [style*="url"], [formaction]';
    const found = [];
    for (const root of document.querySelectorAll('.piweb-root, .piweb-static')) {
        for (const node of root.querySelectorAll('*')) {
            const says = name => found.push(`${name}: ${node.outerHTML.slice(0, 200)}`);
            if (node.matches(never)) says('element');
            for (const { name } of node.attributes) if (name.startsWith('on')) says('handler');
            const source = node.getAttribute('src');
            if (source !== null && !/^data:image\\/(png|jpeg|gif|webp);/.test(source)) says('src');
            const isLink = node instanceof HTMLAnchorElement && node.hasAttribute('href');
            if (isLink && !/^(https?|mailto):$/.test(node.protocol)) says('link');
        }
    }
    return found;
}"""


class Watch:
    """Keeps what a page asked other servers for, and every sign that a script has run."""

    def __init__(self, notebook: NotebookPage) -> None:
        self._page = notebook.page
        self._home = urlsplit(self._page.url).netloc
        self._seen: list[str] = []
        self._page.context.on("request", self._on_request)
        self._page.context.on("page", lambda page: self._seen.append(f"opened {page.url}"))
        self._page.on("dialog", lambda dialog: self._seen.append(f"said {dialog.message}"))

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self._home:
            self._seen.append(f"asked for {request.url}")

    def expect_nothing(self) -> None:
        # What a text could have started has had two frames and a turn of the event loop.
        self._page.evaluate(
            """() => new Promise(done => requestAnimationFrame(
                () => requestAnimationFrame(() => setTimeout(done))
            ))"""
        )
        assert self._page.evaluate("() => window.pwned") is None
        assert self._page.evaluate(_AUDIT) == []
        assert self._seen == []


@pytest.fixture(scope="module")
def page(shared_notebook: Notebooks) -> NotebookPage:
    page = shared_notebook([_OPEN])
    page.run(0)
    return page


@pytest.fixture(scope="module")
def watch(page: NotebookPage) -> Watch:
    return Watch(page)


def test_the_watch_sees_what_it_is_there_for(open_notebook: Notebooks) -> None:
    page = open_notebook(["1"])
    watch = Watch(page)
    page.page.evaluate(
        """elsewhere => {
            const root = document.createElement('div');
            root.className = 'piweb-root';
            root.innerHTML = `<img src=x onerror="window.pwned=1"><img src="${elsewhere}/x.png">`;
            document.body.append(root);
        }""",
        ELSEWHERE,
    )
    page.page.wait_for_function("() => window.pwned")
    assert len(page.page.evaluate(_AUDIT)) == 3
    with pytest.raises(AssertionError):
        watch.expect_nothing()


def test_a_state_and_its_commands_are_only_text(page: NotebookPage, watch: Watch) -> None:
    surface = surface_of(page)
    surface.expect_live()
    for fold in surface.tree.locator("summary").all():
        fold.evaluate("summary => { summary.parentElement.open = true; }")
    expect(surface.tree).to_contain_text(PAYLOADS[0])
    for command in ("fail", "form"):
        surface.press(command)
        expect(surface.stage(command)).to_contain_text("failed: ")
        expect(surface.stage(command)).to_contain_text(PAYLOADS[0])
    surface.press("sure")
    surface.form("sure").get_by_role("button", name="Yes").click()
    expect(surface.stage("sure")).to_contain_text("failed: ")
    watch.expect_nothing()


def test_a_conversation_is_only_text(page: NotebookPage, watch: Watch) -> None:
    chat = chat_of(page)
    chat.say("play")
    expect(chat.questions).to_have_count(5)
    chat.expect_idle()
    # What is folded is drawn when somebody opens it.
    chat.log.evaluate(
        "log => { for (const fold of log.querySelectorAll('details')) fold.open = true; }"
    )
    expect(chat.log.locator(".piweb-tool-output").last).to_contain_text(PAYLOADS[-1])
    expect(chat.log.locator(".piweb-thinking .piweb-text").last).to_contain_text(PAYLOADS[0])
    watch.expect_nothing()
    chat.say("refused")
    expect(chat.log.locator(".piweb-notice").last).to_contain_text(PAYLOADS[0])
    expect(chat.log.locator(".piweb-sending")).to_have_count(0)
    expect(chat.input).to_have_value(re.compile("^refused"))
    menu = chat.root.locator(".piweb-menu")
    menu.locator("summary").click()
    menu.get_by_role("button", name="Show the log").click()
    expect(chat.root.get_by_label("Log", exact=True)).to_contain_text(PAYLOADS[0])
    watch.expect_nothing()


def test_what_is_saved_is_only_text_for_whoever_opens_it(page: NotebookPage, watch: Watch) -> None:
    page.run(0)  # the saved picture is that of the last run
    page.save()
    page.shutdown_kernel()
    page.reload(wait_for_kernel=False)
    expect(page.output(0)).to_contain_text(PAYLOADS[0])
    watch.expect_nothing()

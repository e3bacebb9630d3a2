"""Each state of the views, light and dark, wide and narrow: nothing overflows, everything can be
read, and the pictures are in `test-artifacts/pictures` for somebody to look at."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import ARTIFACTS, Notebooks
from tests.browser.lab import NotebookPage
from tests.browser.looks import find_faults, take_pictures
from tests.browser.panes import AGENTS, EXAMPLES, chat_of, surface_of

PICTURES = ARTIFACTS / "pictures"

_CELLS = [
    f'%piweb "{EXAMPLES / "counter_agent"}"',
    f'%piweb "{AGENTS / "board"}"',
    f'%piweb "{AGENTS / "gated"}"',
    f'%piweb "{EXAMPLES / "hello_agent"}"',
    "view_surface(piweb.open(name='hello_agent'), 'demo')",
]
COUNTER, BOARD, GATED, HELLO, MISSING = range(len(_CELLS))

ANSWER = """The counter stands at **12**. What it went through:

| step | by | who |
|---|---|---|
| first | 2 | you |
| second | 10 | `increment`, called by me |

```python
s.run("increment", by=2)
s.state  # {'count': 14, ...}
```
Read on in [the guide](https://example.org/a/guide/to/counters).
"""


@pytest.fixture(scope="module")
def page(shared_notebook: Notebooks) -> Iterator[NotebookPage]:
    page = shared_notebook(_CELLS)
    page.execute("application:toggle-left-area")
    page.do(
        "%load_ext piweb_jupyter\nimport piweb_jupyter as piweb\n"
        "from piweb_jupyter.views import view_surface"
    )
    yield page
    page.set_theme("JupyterLab Light")  # the settings are the server's, and others share it


def look(page: NotebookPage, cell: int, name: str) -> None:
    faults = take_pictures(page, cell, PICTURES, name)
    assert not faults, "\n".join(faults)


def test_ready(page: NotebookPage) -> None:
    page.run(COUNTER)
    surface, chat = surface_of(page, COUNTER), chat_of(page, COUNTER)
    surface.own.get_by_label("how many").fill("2")
    surface.own.get_by_role("button", name="increment").click()
    chat.say('THINK Ten more, then.\nCALL increment {"by": 10}')
    chat.expect_answer("returned")
    chat.say(f"SAY {json.dumps(ANSWER)}")
    chat.expect_answer("Read on")
    look(page, COUNTER, "ready")


def test_streaming(page: NotebookPage) -> None:
    page.run(BOARD)
    surface, chat = surface_of(page, BOARD), chat_of(page, BOARD)
    surface.expect_live()
    chat.say('THINK It has to be held.\nCALL add {"by": 3}\nCALL hold {}')
    surface.expect_leaf("holding", "1")
    surface.press("hold")  # it waits for the model's
    chat.say("and quickly, please")
    expect(chat.queue).to_be_visible()
    expect(surface.form("hold").get_by_role("button", name="Stop waiting")).to_be_visible()
    look(page, BOARD, "streaming")
    surface.press("release")
    chat.expect_idle()
    surface.expect_leaf("holding", "1")
    surface.press("release")
    expect(surface.stage("hold")).to_have_text("done: released")


def test_question(page: NotebookPage) -> None:
    page.do("board = piweb.open(name='board').surface()")
    methods = ("select", "confirm", "input", "editor")
    for method in methods:
        page.do(f"board.submit('ask', method={method!r}, timeout=60)")
    chat = chat_of(page, BOARD)
    expect(chat.questions).to_have_count(len(methods))
    look(page, BOARD, "question")
    for _ in methods:
        chat.questions.first.get_by_role("button", name="Cancel").click()
    expect(chat.questions).to_have_count(0)


def test_error(page: NotebookPage) -> None:
    surface, chat = surface_of(page, BOARD), chat_of(page, BOARD)
    surface.press("fill")
    expect(surface.stage("fill")).to_contain_text("failed")
    surface.field("append", "text").fill("ab")
    surface.press("append")
    expect(surface.fault("append")).to_contain_text("at least 3 characters")
    expect(surface.stage("append")).to_have_text("failed: the arguments do not fit")
    surface.field("add", "by").fill("1000")
    surface.press("add")
    expect(surface.fault("add")).to_be_visible()
    surface.press("wipe")
    chat.say("CALL fill {}")
    chat.expect_idle()
    chat.say("FAIL the provider has no credit left")
    expect(chat.answers.last).to_contain_text("no credit left")
    chat.expect_idle()
    look(page, BOARD, "error")


def test_menu_and_log(page: NotebookPage) -> None:
    chat = chat_of(page, BOARD)
    chat.root.locator(".piweb-menu summary").click()
    chat.root.get_by_role("button", name="Show the log").click()
    expect(chat.root.get_by_label("Log", exact=True)).to_be_visible()
    chat.root.locator(".piweb-menu summary").click()
    look(page, BOARD, "menu")
    chat.root.locator(".piweb-menu summary").press("Escape")
    chat.root.get_by_role("button", name="Close").click()


def test_ended(page: NotebookPage) -> None:
    page.do("import os, signal\nos.kill(piweb.open(name='board').pid, signal.SIGKILL)")
    surface_of(page, BOARD).expect_label("killed by SIGKILL")
    confirm = surface_of(page, BOARD).form("wipe").get_by_role("group", name="Confirm")
    expect(confirm.get_by_role("button", name="Yes")).to_be_disabled()
    look(page, BOARD, "ended")


def test_starting(page: NotebookPage, tmp_path: Path) -> None:
    page.run(GATED)
    surface = surface_of(page, GATED)
    surface.expect_live()
    chat_of(page, GATED).say("SAY hello")
    chat_of(page, GATED).expect_answer("hello")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    page.do(f"os.environ['PIWEB_TEST_GATE'] = {str(gate)!r}\n")
    page.do("piweb.open(name='gated').restart_soon()")
    surface.expect_label("Starting")
    look(page, GATED, "starting")
    gate.write_bytes(b"")
    page.do("del os.environ['PIWEB_TEST_GATE']")
    surface.expect_live()


def test_no_surface(page: NotebookPage) -> None:
    page.run(HELLO)
    chat_of(page, HELLO).expect_live()
    expect(surface_of(page, HELLO).root).to_have_count(0)
    look(page, HELLO, "hello")
    page.run(MISSING)
    surface_of(page, MISSING).expect_label("has no surface “demo”")
    look(page, MISSING, "unavailable")


def test_kernel_gone(page: NotebookPage) -> None:
    page.run(COUNTER)
    page.restart_kernel()
    surface_of(page, COUNTER).expect_label("kernel is gone")
    look(page, COUNTER, "gone")


def test_the_look_sees_what_it_is_there_for(page: NotebookPage) -> None:
    found = page.output(COUNTER).evaluate_handle(
        """output => {
            const root = document.createElement('div');
            root.className = 'piweb-root';
            root.style.width = '200px';
            root.innerHTML = '<p style="color: #999; background: #fff">pale</p>'
                + '<p style="width: 3000px; margin: 0">wide</p>';
            output.append(root);
            return root;
        }"""
    )
    faults = " ".join(find_faults(page.output(COUNTER)))
    found.evaluate("root => root.remove()")
    assert "contrast 2.85" in faults
    assert "sticks out" in faults

"""The view tells the truth: what it says, offers and shows after everything that can happen."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Notebooks
from tests.browser.lab import NotebookPage
from tests.browser.panes import AGENTS, chat_of, show, surface_of

SHOWCASE = AGENTS / "showcase"
LOOK = "import piweb_jupyter\nsession = piweb_jupyter.open(r'{}')\n{}"


@dataclass(frozen=True)
class Truth:
    """One row of the table. `surface` and `chat` are what the labels say."""

    surface: str | re.Pattern[str]
    chat: str | re.Pattern[str]
    buttons: bool
    composer: bool
    count: int | None
    restart: bool = False


def live(count: int) -> Truth:
    """The row of a view that is as it should be."""
    return Truth(re.compile("^Live$"), re.compile("^Ready$"), True, True, count)


def check(page: NotebookPage, truth: Truth) -> None:
    surface, chat = surface_of(page), chat_of(page)
    surface.expect_label(truth.surface)
    chat.expect_label(truth.chat)
    expect(surface.button("increment")).to_be_enabled(enabled=truth.buttons)
    expect(chat.input).to_be_editable(editable=truth.composer)
    expect(chat.root.locator(".piweb-compose .piweb-primary")).to_be_enabled(enabled=truth.composer)
    for view in (surface.root, chat.root):
        restart = view.get_by_role("button", name="Restart the agent")
        expect(restart).to_be_visible(visible=truth.restart)
    if truth.count is not None:
        surface.expect_leaf("count", str(truth.count))
    expect(chat.log).to_contain_text("You said: hello")


@pytest.fixture
def shown(open_notebook: Notebooks) -> NotebookPage:
    """A counter at 2 and a chat of one turn, both live."""
    look = LOOK.format(SHOWCASE, "import os, signal\nos.kill(session.pid, signal.SIGKILL)")
    page = open_notebook([show(SHOWCASE, "--wait"), look, "%piweb stop showcase"])
    page.run(0)
    surface, chat = surface_of(page), chat_of(page)
    surface.button("bump").click()
    surface.expect_leaf("count", "1")
    surface.button("increment").click()
    surface.expect_leaf("count", "2")
    chat.say("hello")
    expect(chat.log).to_contain_text("You said: hello")
    check(page, live(2))
    return page


def test_after_a_reload_everything_is_as_it_was(shown: NotebookPage) -> None:
    shown.save()
    shown.reload()
    check(shown, live(2))
    surface = surface_of(shown)
    surface.button("bump").click()
    surface.expect_leaf("count", "3")


def test_a_second_tab_shows_the_same_and_both_follow(
    shown: NotebookPage, open_notebook: Notebooks
) -> None:
    shown.save()
    second = open_notebook.again(shown)
    check(second, live(2))
    surface_of(second).button("bump").click()
    for page in (shown, second):
        surface_of(page).expect_leaf("count", "3")
    chat_of(second).say("from the second tab")
    expect(chat_of(shown).log).to_contain_text("You said: from the second tab")


def test_after_a_kernel_restart_the_last_picture_says_so(shown: NotebookPage) -> None:
    shown.restart_kernel()
    check(shown, Truth("kernel is gone", "kernel is gone", False, False, 2))


def test_after_a_kernel_shutdown_the_last_picture_says_so(shown: NotebookPage) -> None:
    shown.shutdown_kernel()
    check(shown, Truth("kernel is gone", "kernel is gone", False, False, 2))


def test_when_the_agent_is_killed_the_picture_stays_and_a_button_brings_it_back(
    shown: NotebookPage,
) -> None:
    shown.run(1)
    killed = "agent was killed by SIGKILL"
    check(shown, Truth(killed, killed, False, True, 2, restart=True))
    surface_of(shown).root.get_by_role("button", name="Restart the agent").click()
    check(shown, live(0))


def test_after_stop_the_picture_stays_and_a_button_brings_it_back(shown: NotebookPage) -> None:
    shown.run(2)
    check(
        shown, Truth("showcase was stopped", "showcase was stopped", False, True, 2, restart=True)
    )
    chat_of(shown).root.get_by_role("button", name="Restart the agent").click()
    check(shown, live(0))


def test_reopened_without_a_kernel_the_saved_picture_can_be_read(shown: NotebookPage) -> None:
    # The picture is renewed now and then; what is saved must not be older than what was shown.
    shown.wait_text(0, "You said: hello")
    shown.wait_text(0, "<b>count</b>: <code>2</code>")
    shown.save()
    shown.shutdown_kernel()
    shown.page.route(
        "**/api/sessions*",
        lambda route: route.abort() if route.request.method == "POST" else route.fallback(),
    )
    shown.reload(wait_for_kernel=False)
    card = shown.output(0)
    expect(card).to_contain_text("run the cell again")
    expect(card).to_contain_text("rev 2, agent offline")
    expect(card).to_contain_text("You said: hello")
    expect(card.locator("button:visible")).to_have_count(0)


def test_the_saved_picture_is_not_seen_beside_a_live_view(shown: NotebookPage) -> None:
    assert any("piweb-static" in str(output) for output in shown.outputs(0))
    expect(shown.output(0).locator(".piweb-static")).to_be_hidden()

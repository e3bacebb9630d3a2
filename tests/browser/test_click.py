"""What a click does, and what it says when it does nothing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Notebooks
from tests.browser.lab import NotebookPage
from tests.browser.panes import AGENTS, Chat, Surface, chat_of, show, surface_of


@dataclass
class Desk:
    """A page with an agent, its surface and its chat."""

    page: NotebookPage
    surface: Surface
    chat: Chat


@pytest.fixture(scope="module")
def board(shared_notebook: Notebooks) -> Desk:
    page = shared_notebook([show(AGENTS / "board")])
    page.run(0)
    desk = Desk(page, surface_of(page), chat_of(page))
    desk.surface.expect_live()
    page.do("import piweb_jupyter as piweb\ns = piweb.open(name='board').surface()")
    return desk


def test_a_click_is_drawn_with_its_result(board: Desk) -> None:
    surface = board.surface
    surface.press("add")
    surface.expect_leaf("count", "1")
    expect(surface.stage("add")).to_have_text('done: {"count":1}')
    surface.field("add", "by").fill("5")
    surface.press("add")
    surface.expect_leaf("count", "6")
    assert board.page.do("print(s.state['count'])") == "6"


def test_a_wrong_argument_is_shown_at_its_field(board: Desk) -> None:
    surface = board.surface
    # The form itself sees this one ...
    surface.field("add", "by").fill("200")
    surface.press("add")
    expect(surface.fault("add")).to_have_text("must be at most 100")
    # ... and the agent that one.
    surface.field("append", "text").fill("ab")
    surface.press("append")
    expect(surface.fault("append")).to_contain_text("at least 3 characters")
    expect(surface.field("append", "text")).to_have_attribute("aria-invalid", "true")
    surface.field("append", "text").fill("third")
    expect(surface.fault("append")).to_have_count(0)
    surface.press("append")
    expect(surface.tree).to_contain_text("third")
    surface.field("add", "by").fill("1")


def test_a_command_that_fails_says_why(board: Desk) -> None:
    board.surface.press("fill")
    expect(board.surface.stage("fill")).to_have_text("failed: there is no room for more")


def test_what_asks_for_a_yes_waits_for_it(board: Desk) -> None:
    surface, page = board.surface, board.page
    rows = page.do("print(s.state['rows'])")
    surface.press("wipe")
    confirm = surface.form("wipe").get_by_role("group", name="Confirm")
    expect(confirm).to_contain_text("Remove every row?")
    confirm.get_by_role("button", name="No").click()
    expect(surface.button("wipe")).to_be_focused()
    assert page.do("print(s.state['rows'])") == rows
    surface.press("wipe")
    confirm.get_by_role("button", name="Yes").click()
    expect(surface.tree.get_by_text("rows")).to_be_visible()
    expect(surface.stage("wipe")).to_have_text("done")
    assert page.do("print(s.state['rows'])") == "[]"


def test_a_command_that_runs_can_be_cancelled(board: Desk) -> None:
    surface = board.surface
    surface.press("hold")
    surface.expect_leaf("holding", "1")
    expect(surface.stage("hold")).to_have_text("running")
    surface.form("hold").get_by_role("button", name="Cancel").click()
    expect(surface.stage("hold")).to_have_text("cancelled")
    surface.expect_leaf("holding", "0")


def test_nobody_has_to_wait_for_a_command(board: Desk) -> None:
    surface = board.surface
    surface.press("hold")
    surface.expect_leaf("holding", "1")
    surface.form("hold").get_by_role("button", name="Stop waiting").click()
    expect(surface.stage("hold")).to_contain_text("no longer waited for; it may still run")
    surface.expect_leaf("holding", "1")
    surface.press("release")
    surface.expect_leaf("holding", "0")


def test_a_click_on_what_has_changed_meanwhile_is_refused(board: Desk) -> None:
    surface, page = board.surface, board.page
    page.do("for row in ('first', 'second'): s.run('append', text=row)")
    surface.expect_leaf("count", page.do("print(s.state['count'])"))
    expect(surface.tree).to_contain_text("second")
    # In one breath: when the second one is pressed, the page cannot know what the first will do.
    surface.root.evaluate(
        """root => {
            for (const name of ['add', 'remove']) {
                root.querySelector(`[data-command=${name}] button[type=submit]`).click();
            }
        }"""
    )
    expect(surface.stage("remove")).to_contain_text("asked for at rev")
    assert page.do("print(s.state['rows'])") == "['first', 'second']"
    surface.press("remove")
    expect(surface.stage("remove")).to_have_text("done")
    assert page.do("print(s.state['rows'])") == "['second']"

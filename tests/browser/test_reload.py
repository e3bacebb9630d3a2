"""What a page shows that comes in the middle of things: after a reload, in a second tab, after the
connection was lost."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Notebooks
from tests.browser.lab import NotebookPage
from tests.browser.panes import AGENTS, Chat, chat_of, show, surface_of

# Goes on until it is stopped; no test waits for its end.
ENDLESS = "SLOW 20000 5"


@pytest.fixture(scope="module")
def page(shared_notebook: Notebooks) -> NotebookPage:
    page = shared_notebook([show(AGENTS / "board")])
    page.run(0)
    surface_of(page).expect_live()
    page.do(
        "import piweb_jupyter as piweb\nsession = piweb.open(name='board')\ns = session.surface()"
    )
    page.save()  # what is not in the file is gone after a reload
    return page


@pytest.fixture(scope="module")
def second(page: NotebookPage, shared_notebook: Notebooks) -> NotebookPage:
    second = shared_notebook.again(page)
    chat_of(second).expect_live()
    return second


def text_of(answer: Locator) -> str:
    # Not `inner_text`: that is empty while JupyterLab's `content-visibility` skips the cell.
    return answer.locator(".piweb-markdown").text_content() or ""


def expect_growth(answer: Locator) -> None:
    """The answer goes on from what it holds now."""
    before = text_of(answer)
    expect(answer).not_to_have_text(before)
    assert text_of(answer).startswith(before[: len(before) // 2])


def expect_same(chats: list[Chat], page: NotebookPage) -> None:
    """Every page has ended up with what the kernel holds: each message once, each text whole."""
    roles = eval(page.do("print([m['role'] for m in session.transcript.messages])"))
    said = page.do("print(session.transcript.messages[-1]['parts'][0]['text'])").replace("`", "")
    for chat in chats:
        expect(chat.messages).to_have_count(len(roles))
        expect(chat.answers.last.locator(".piweb-markdown")).to_have_text(said)


def test_a_reload_and_a_second_tab_take_up_an_answer_in_its_middle(
    page: NotebookPage, shared_notebook: Notebooks
) -> None:
    chat = chat_of(page)
    chat.say(ENDLESS)
    expect(chat.answers.last).to_contain_text("word")
    so_far = text_of(chat.answers.last)
    page.reload()
    chat = chat_of(page)
    chat.expect_busy()
    expect(chat.answers).to_have_count(1)
    expect(chat.answers.last).to_contain_text(so_far)
    expect(chat.answers.last.get_by_text(so_far)).to_have_count(1)
    expect_growth(chat.answers.last)
    second = shared_notebook.again(page)
    other = chat_of(second)
    expect(other.answers.last).to_contain_text(so_far)
    expect_growth(other.answers.last)
    other.stop.click()
    for each in (chat, other):
        each.expect_idle()
        expect(each.answers.last).to_have_attribute("data-status", "aborted")
    expect_same([chat, other], page)


def test_a_tool_that_runs_is_running_after_a_reload_and_ends_in_both_tabs(
    page: NotebookPage, second: NotebookPage
) -> None:
    chat = chat_of(page)
    chat.say("CALL hold {}")
    expect(chat.tools.last).to_have_attribute("data-status", "running")
    page.reload()
    for each in (page, second):
        expect(chat_of(each).tools.last).to_have_attribute("data-status", "running")
        surface_of(each).expect_leaf("holding", "1")
    surface_of(page).press("release")
    for each in (page, second):
        expect(chat_of(each).tools.last).to_have_attribute("data-status", "done")
        chat_of(each).expect_answer("returned")
    expect_same([chat_of(page), chat_of(second)], page)


def test_an_open_question_is_still_asked_after_a_reload(page: NotebookPage) -> None:
    page.do("asked = s.submit('ask', method='input', timeout=60)")
    expect(chat_of(page).question("Your name?")).to_be_visible()
    page.reload()
    field = chat_of(page).question("Your name?").get_by_role("textbox")
    field.fill("Ada")
    field.press("Enter")
    assert page.do("print(asked.result(20))") == "'Ada'"
    expect(chat_of(page).questions).to_have_count(0)
    page.reload()
    chat_of(page).expect_idle()
    expect(chat_of(page).questions).to_have_count(0)  # and is not asked again


def test_a_lost_connection_costs_nothing_of_the_answer(page: NotebookPage) -> None:
    chat, surface = chat_of(page), surface_of(page)
    chat.say(ENDLESS)
    surface.press("stream")
    expect(chat.answers.last).to_contain_text("word")
    page.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.reconnect()"
    )
    chat.expect_live()
    expect_growth(chat.answers.last)
    chat.stop.click()
    surface.press("calm")
    chat.expect_idle()
    expect_same([chat], page)
    surface.expect_leaf("count", page.do("print(s.state['count'])"))

"""A conversation in the chat, beside the surface that its tools change."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Notebooks
from tests.browser.lab import NotebookPage
from tests.browser.panes import AGENTS, EXAMPLES, Chat, chat_of, show, surface_of

# Words for so long that whatever a test does happens in the middle of them; none hears the end.
ENDLESS = "SLOW 5000 40"
_DOT = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
_MARKDOWN = f"""# Title

Some **bold** text, [the docs](https://example.org/docs) and ![dot](data:image/gif;base64,{_DOT})

```py
x = 1
```

|a|b|
|-|-|
|1|2|
"""


@pytest.fixture(scope="module")
def page(shared_notebook: Notebooks) -> NotebookPage:
    page = shared_notebook([show(EXAMPLES / "counter_agent"), show(AGENTS / "board")])
    page.run(0)
    surface_of(page).expect_live()
    page.do(
        "import piweb_jupyter as piweb\n"
        "session = piweb.open(name='counter_agent')\ns = session.surface()"
    )
    return page


@pytest.fixture
def chat(page: NotebookPage) -> Chat:
    return chat_of(page)


@pytest.fixture
def count(page: NotebookPage) -> Locator:
    """The count in the agent's own view."""
    return surface_of(page).own.get_by_label("count", exact=True)


def test_the_own_view_sends_clicks_and_says_what_was_wrong(
    page: NotebookPage, count: Locator
) -> None:
    own = surface_of(page).own
    own.get_by_role("button", name="increment").click()
    expect(count).to_have_text("1")
    own.get_by_label("how many").fill("0")
    own.get_by_role("button", name="increment").click()
    expect(own.get_by_role("alert")).to_contain_text("greater than or equal to 1")
    own.get_by_label("how many").fill("4")
    own.get_by_role("button", name="increment").click()
    expect(count).to_have_text("5")
    expect(own.get_by_role("alert")).to_have_count(0)


def test_the_generic_view_is_one_button_away(page: NotebookPage, count: Locator) -> None:
    surface = surface_of(page)
    surface.show_generic()
    surface.field("increment", "by").fill("2")
    surface.press("increment")
    surface.expect_leaf("count", "7")
    surface.show_own()
    expect(count).to_have_text("7")


def test_an_answer_streams_into_the_chat(page: NotebookPage, chat: Chat) -> None:
    chat.say("SLOW 400 10")
    expect(chat.messages.first).to_contain_text("SLOW 400 10")
    chat.expect_busy()
    page.page.wait_for_function(
        """log => {
            // It grows while it is not done.
            const sizes = (window.seenSizes ??= new Set());
            sizes.add(log.textContent.length);
            return sizes.size > 5;
        }""",
        arg=chat.log.element_handle(),
    )
    chat.expect_idle()
    said = page.do("print(session.transcript.messages[-1]['parts'][0]['text'])")
    expect(chat.answers.last.locator(".piweb-markdown")).to_have_text(said)


def test_markdown_is_drawn(chat: Chat) -> None:
    chat.say(f"SAY {json.dumps(_MARKDOWN)}")
    chat.expect_answer("Some bold text")
    answer = chat.answers.last
    expect(answer.locator("h1")).to_have_text("Title")
    expect(answer.locator("strong")).to_have_text("bold")
    expect(answer.locator("pre code")).to_have_text("x = 1\n")
    expect(answer.locator("td")).to_have_text(["1", "2"])
    expect(answer.get_by_alt_text("dot")).to_be_visible()
    # A link says where it leads.
    link = answer.get_by_role("link")
    expect(link).to_have_text("the docs (https://example.org/docs)")
    expect(link).to_have_attribute("rel", "noopener noreferrer")


def test_the_model_and_a_cell_turn_the_same_counter(
    page: NotebookPage, chat: Chat, count: Locator
) -> None:
    before = int(page.do("print(s.state['count'])"))
    chat.say('CALL increment {"by": 10}')
    expect(count).to_have_text(str(before + 10))
    chat.expect_answer("returned")
    card = chat.tools.last
    expect(card).to_have_attribute("data-status", "done")
    expect(card).to_contain_text("increment")
    expect(card.locator(".piweb-tool-brief")).to_have_text("by: 10")
    expect(surface_of(page).own).to_contain_text("+10 by llm")
    page.do("s.run('increment', by=3)")
    expect(count).to_have_text(str(before + 13))
    expect(surface_of(page).own).to_contain_text("+3 by cell")


def test_a_tool_that_fails_says_so_on_its_card(chat: Chat) -> None:
    chat.say('CALL increment {"by": 1000}')
    chat.expect_idle()
    expect(chat.tools.last).to_have_attribute("data-status", "error")
    expect(chat.tools.last).to_contain_text("failed")
    chat.say("FAIL no more credit")
    expect(chat.answers.last).to_have_attribute("data-status", "error")
    expect(chat.answers.last).to_contain_text("no more credit")
    chat.expect_idle()


def test_a_running_answer_can_be_steered_and_stopped(page: NotebookPage, chat: Chat) -> None:
    chat.say(ENDLESS)
    expect(chat.stop).to_be_visible()
    expect(chat.root.get_by_role("button", name="Steer")).to_be_visible()
    chat.say("not so fast")
    expect(chat.queue).to_contain_text("not so fast")
    chat.input.fill("then this")
    chat.input.press("Alt+Enter")
    expect(chat.queue).to_contain_text("then this")
    chat.stop.click()
    chat.expect_idle()
    # What was not said comes back to be said again, in front of what is being typed.
    expect(chat.input).to_have_value("not so fast\nthen this")
    expect(chat.queue).to_be_hidden()
    expect(chat.answers.last).to_have_attribute("data-status", "aborted")
    expect(chat.answers.last).to_contain_text("Stopped")
    chat.say("SAY still there")
    chat.expect_answer("still there")
    assert page.do("print(session.transcript.meta['queue'])") == str(
        {"steering": [], "followUp": []}
    )


def test_what_is_queued_can_be_taken_back_while_the_answer_goes_on(chat: Chat) -> None:
    chat.say(ENDLESS)
    expect(chat.stop).to_be_visible()
    chat.say("a second thought")
    expect(chat.queue).to_contain_text("a second thought")
    chat.input.fill("half a word")
    chat.queue.get_by_role("button", name="Take back").click()
    expect(chat.input).to_have_value("a second thought\nhalf a word")
    expect(chat.queue).to_be_hidden()
    chat.expect_busy()
    chat.input.fill("")
    chat.input.press("Escape")
    chat.expect_idle()


def test_a_steered_answer_goes_on_with_what_it_was_told(chat: Chat) -> None:
    chat.say("SLOW 30 40")
    expect(chat.stop).to_be_visible()
    chat.say("SAY as you wish")
    chat.expect_answer("as you wish")
    expect(chat.queue).to_be_hidden()


def test_the_menu_shows_the_log_stops_and_restarts(page: NotebookPage, chat: Chat) -> None:
    menu = chat.root.locator(".piweb-menu")
    menu.locator("summary").click()
    menu.get_by_role("button", name="Show the log").click()
    expect(chat.root.get_by_label("Log", exact=True)).to_be_visible()
    chat.root.get_by_role("button", name="Close").click()
    menu.locator("summary").click()
    menu.get_by_role("button", name="Stop the agent").click()
    chat.expect_label("stopped")
    surface_of(page).expect_label("stopped")
    menu.locator("summary").click()
    menu.get_by_role("button", name="Restart the agent").click()
    chat.expect_live()
    surface_of(page).expect_live()


# ---------------------------------------------------------------- questions


class Asking:
    """The board's agent in two tabs, and what it was answered."""

    def __init__(self, page: NotebookPage, second: NotebookPage) -> None:
        self.page = page
        self.chats = (chat_of(page, 1), chat_of(second, 1))

    def ask(self, method: str) -> None:
        self.page.do(f"asked = board.submit('ask', method={method!r}, timeout=60)")

    def expect_answer(self, answer: object) -> None:
        """The agent went on with this answer, and neither tab asks any more."""
        assert self.page.do("print(asked.result(20))") == repr(answer)
        for chat in self.chats:
            expect(chat.questions).to_have_count(0)

    def count_answers(self) -> int:
        return int(self.page.do("print(len(board.state['answers']))"))


@pytest.fixture(scope="module")
def asking(page: NotebookPage, shared_notebook: Notebooks) -> Asking:
    page.run(1)
    page.do("board = piweb.open(name='board').surface()")
    page.save()
    second = shared_notebook.again(page)
    surface_of(second, 1).expect_live()
    return Asking(page, second)


def test_a_choice_is_made_in_the_second_tab_and_closed_in_the_first(asking: Asking) -> None:
    asking.ask("select")
    first, second = (chat.question("Which colour?") for chat in asking.chats)
    expect(first).to_be_visible()
    second.get_by_role("button", name="green").click()
    asking.expect_answer("green")


def test_a_question_is_answered_once_however_often_it_is_clicked(asking: Asking) -> None:
    before = asking.count_answers()
    asking.ask("confirm")
    yes = [chat.question("Go on?").get_by_role("button", name="Yes") for chat in asking.chats]
    # Handles: the second tab may have learned of the first's answer, and taken the card away,
    # before it is clicked there.
    for button in [each.element_handle() for each in yes]:
        button.evaluate("button => { button.click(); button.click(); }")
    asking.expect_answer(True)
    assert asking.count_answers() == before + 1


def test_a_line_and_a_longer_text_are_typed_into_the_card(asking: Asking) -> None:
    chat = asking.chats[0]
    asking.ask("input")
    field = chat.question("Your name?").get_by_role("textbox")
    expect(field).to_have_attribute("placeholder", "first and last")
    field.fill("Ada")
    field.press("Enter")
    asking.expect_answer("Ada")
    asking.ask("editor")
    card = chat.question("Your text?")
    expect(card.get_by_role("textbox")).to_have_value("a first draft")
    card.get_by_role("textbox").fill("one\ntwo")
    card.get_by_role("button", name="Answer").click()
    asking.expect_answer("one\ntwo")


def test_a_question_need_not_be_answered(asking: Asking) -> None:
    for method, none in (("select", None), ("confirm", False), ("input", None)):
        asking.ask(method)
        asking.chats[1].questions.get_by_role("button", name="Cancel").click()
        asking.expect_answer(none)


def test_an_answer_from_a_cell_closes_the_cards(asking: Asking) -> None:
    asking.ask("input")
    for chat in asking.chats:
        expect(chat.question("Your name?")).to_be_visible()
    asking.page.do(
        "session = piweb.open(name='board')\n"
        "(question,) = session.questions.open\nsession.answer(question.id, 'Grace')"
    )
    asking.expect_answer("Grace")

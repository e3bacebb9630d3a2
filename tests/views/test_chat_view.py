from __future__ import annotations

from typing import Any

from piweb_jupyter.views import view_chat
from tests.host.opening import Open
from tests.views.comms import Comms
from tests.views.page import Page


def present(page: Page) -> dict[str, Any]:
    page.hello()
    page.send("resync")
    return page.wait_message("present")


def ask(page: Page, text: str, mode: str = "prompt", id_: str = "page.1") -> None:
    page.send("prompt", id=id_, text=text, mode=mode)


def messages(page: Page) -> list[list[Any]]:
    return page.items("message")


def test_a_page_asks_once_and_receives_the_whole_conversation(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    session.prompt("hello").wait(20)
    page = Page(comms, view_chat(session))
    body = present(page)["body"]
    roles = [message["role"] for message in body["chat"]["messages"]]
    assert roles == ["user", "assistant"]
    assert body["questions"] == []
    assert not [sent for sent in page.updates() if "hello" in str(sent.data)]


def test_what_a_person_writes_is_asked_once_and_its_answer_streams(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    page = Page(comms, view_chat(session))
    present(page)
    ask(page, "hi")
    ask(page, "hi")  # sent again, because the page heard nothing
    comms.wait(lambda: any(m[2]["role"] == "assistant" for m in messages(page)))
    comms.wait(lambda: page.items("meta")[-1:] == [["meta", {"busy": False}]])
    assert page.items("received") == [["received", "page.1"], ["received", "page.1"]]
    assert [m["role"] for m in session.transcript.messages] == ["user", "assistant"]


def test_a_prompt_that_meets_an_agent_at_work_steers_it(open_: Open, comms: Comms) -> None:
    """The page that sent it had not heard yet."""
    session = open_("counter")
    page = Page(comms, view_chat(session))
    present(page)
    ask(page, "wait")
    ask(page, "and this", id_="page.2")
    comms.wait(lambda: page.items("queued") == [["queued", "page.2"]])
    comms.wait(lambda: session.transcript.meta["queue"]["steering"] == ["and this"])
    assert page.items("refused") == []


def test_steering_that_comes_when_the_run_has_just_ended_begins_the_next(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    page = Page(comms, view_chat(session))
    present(page)
    ask(page, "hello", mode="steer")
    comms.wait(lambda: any(m[2]["role"] == "assistant" for m in messages(page)))
    assert [m["role"] for m in session.transcript.messages] == ["user", "assistant"]
    assert session.transcript.meta["queue"] == {"steering": [], "followUp": []}


def test_a_prompt_that_cannot_be_asked_comes_back_with_the_reason(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    page = Page(comms, view_chat(session))
    present(page)
    session.stop()
    ask(page, "steer nobody", mode="steer")
    [refused] = comms.wait(lambda: page.items("refused"))
    assert refused[1] == "page.1"
    assert "stopped" in refused[2]["message"]


def test_a_prompt_that_the_agent_does_not_take_comes_back_and_is_no_longer_on_its_way(
    open_: Open, comms: Comms
) -> None:
    page = Page(comms, view_chat(open_("counter")))
    present(page)
    ask(page, "refuse")
    comms.wait(lambda: page.items("settled"))
    assert page.items("settled") == [["settled", "page.1"]]
    assert page.items("returned") == [["returned", "page", ["refuse"]]]
    ask(page, "hi", id_="page.2")
    comms.wait(lambda: page.items("settled")[1:])
    assert page.items("returned")[1:] == []


def test_steering_and_the_way_back_of_what_was_queued(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    page = Page(comms, view_chat(session))
    present(page)
    ask(page, "wait")
    comms.wait(lambda: session.busy)
    ask(page, "more to the left", mode="steer", id_="page.2")
    comms.wait(lambda: session.transcript.meta["queue"]["steering"] == ["more to the left"])
    page.send("queue")
    [returned] = comms.wait(lambda: page.items("returned"))
    assert returned == ["returned", "page", ["more to the left"]]
    page.send("abort")
    comms.wait(lambda: not session.busy)


def test_a_question_is_answered_by_a_click_exactly_once(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    page = Page(comms, view_chat(session))
    present(page)
    session.surface("demo").run("ask", id="q1")
    comms.wait(lambda: any(item[1] for item in page.items("questions")))
    page.send("answer", question="q1", value="maybe")
    [refused] = comms.wait(lambda: page.items("refused"))
    assert refused[1] == "q1"
    page.send("answer", question="q1", value=True)
    page.send("answer", question="q1", value=False)
    comms.wait(lambda: len(page.items("questions")) >= 3)
    assert page.items("questions")[-1] == ["questions", []]
    comms.wait(lambda: session.state.get("answer"))
    assert session.state["answer"]["confirmed"] is True


def test_a_question_is_part_of_the_present_until_it_is_answered(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    session.surface("demo").run("ask", id="q1")
    page = Page(comms, view_chat(session))
    [question] = present(page)["body"]["questions"]
    assert (question["id"], question["method"], question["title"]) == ("q1", "confirm", "Sure?")


def test_the_log_is_one_message_away(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    page = Page(comms, view_chat(session))
    page.hello()
    session.surface("demo").submit("crash")
    comms.wait(lambda: view_chat(session).info["lifecycle"] == "ended")
    page.send("logs")
    assert "boom" in page.wait_message("logs")["lines"]


def test_the_chat_leaves_a_readable_picture_that_is_always_the_same(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    session.prompt("hello <b>").wait(20)
    view = view_chat(session)
    data, _ = view._repr_mimebundle_()
    assert repr(view) == data["text/plain"] == "<ChatView of counter>"
    assert "<dt>user</dt><dd>hello &lt;b&gt;</dd>" in data["text/html"]
    assert data["text/html"] == view._repr_mimebundle_()[0]["text/html"]


def test_a_prompt_to_an_agent_that_has_ended_starts_it_again(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    page = Page(comms, view_chat(session))
    present(page)
    session.stop()
    ask(page, "are you there")
    comms.wait(lambda: session.epoch == 2 and session.lifecycle == "ready")
    comms.wait(lambda: page.items("meta")[-1:] == [["meta", {"busy": False}]])

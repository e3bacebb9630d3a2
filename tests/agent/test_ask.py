"""Questions to the person: asked in pi's form, answered once, never left hanging."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from piweb_jupyter.agent import define_agent, ui
from piweb_jupyter.errors import PiwebError
from piweb_jupyter.runner.chat import text_of as message_text
from tests.agent.talk import PATIENCE, Talk, messages


@pytest.fixture
def talk() -> Iterator[Talk]:
    with Talk() as talk:
        yield talk


def begin(talk: Talk, question: Coroutine[Any, Any, Any]) -> tuple[Future[Any], dict[str, Any]]:
    """Ask on the agent's loop; the question as the host sees it."""
    start = len(talk.lines.all())
    future = talk.runtime.loop.run(question)
    return future, talk.lines.wait(lambda line: line["type"] == "extension_ui_request", start)


def fields(request: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key not in ("type", "id")}


def test_questions_have_pis_fields(talk: Talk) -> None:
    asked = talk.runtime.ask
    seen = [
        fields(begin(talk, question)[1])
        for question in (
            asked.select("Which?", ["a", "b"], timeout=60),
            asked.confirm("Sure?", "It cannot be undone."),
            asked.input("Name?", "Ada"),
            asked.input("Name?"),
            asked.editor("Text?", "so far"),
        )
    ]
    assert all(question.pop("withdraws") for question in seen)  # ours
    assert seen == [
        {"method": "select", "title": "Which?", "options": ["a", "b"], "timeout": 60_000},
        {"method": "confirm", "title": "Sure?", "message": "It cannot be undone."},
        {"method": "input", "title": "Name?", "placeholder": "Ada"},
        {"method": "input", "title": "Name?"},
        {"method": "editor", "title": "Text?", "prefill": "so far"},
    ]


def test_a_question_that_nobody_waits_for_is_withdrawn_and_an_answered_one_is_not(
    talk: Talk,
) -> None:
    asked = talk.runtime.ask
    start = len(talk.lines.all())
    answered, request = begin(talk, asked.input("Name?"))
    talk.answer(request["id"], value="Ada")
    assert answered.result(PATIENCE) == "Ada"
    cancelled, request = begin(talk, asked.confirm("Sure?"))
    cancelled.cancel()
    late, last = begin(talk, asked.select("Which?", ["a"], timeout=0.01))
    assert late.result(PATIENCE) is None
    talk.lines.wait(lambda line: line == withdrawn(last), start)
    told = [line for line in talk.lines.all()[start:] if line["type"] == withdrawn(last)["type"]]
    assert told == [withdrawn(request), withdrawn(last)]


def withdrawn(request: dict[str, Any]) -> dict[str, Any]:
    return {"type": "piweb_question_withdrawn", "id": request["id"]}


def test_answers_come_back_as_python_values(talk: Talk) -> None:
    asked = talk.runtime.ask
    future, request = begin(talk, asked.select("Which?", ["a", "b"]))
    talk.answer(request["id"], value="b")
    assert future.result(PATIENCE) == "b"
    future, request = begin(talk, asked.confirm("Sure?"))
    talk.answer(request["id"], confirmed=True)
    assert future.result(PATIENCE) is True
    future, request = begin(talk, asked.input("Name?"))
    talk.answer(request["id"], value="")
    assert future.result(PATIENCE) == ""
    future, request = begin(talk, asked.editor("Text?"))
    talk.answer(request["id"], value="")
    assert future.result(PATIENCE) is None


def test_cancelled_is_none_and_no(talk: Talk) -> None:
    asked = talk.runtime.ask
    future, request = begin(talk, asked.select("Which?", ["a"]))
    talk.answer(request["id"], cancelled=True)
    assert future.result(PATIENCE) is None
    future, request = begin(talk, asked.confirm("Sure?"))
    talk.answer(request["id"], cancelled=True)
    assert future.result(PATIENCE) is False
    future, request = begin(talk, asked.confirm("Sure?"))
    talk.answer(request["id"], value="yes")  # not a confirmation
    assert future.result(PATIENCE) is False


def test_wrong_ids_and_second_answers_are_passed_over(talk: Talk) -> None:
    future, request = begin(talk, talk.runtime.ask.input("Name?"))
    talk.answer("nobody", value="x")
    assert not future.done()
    talk.answer(request["id"], value="first")
    talk.answer(request["id"], value="second")
    assert future.result(PATIENCE) == "first"
    talk.answer(request["id"], value="third")


def test_several_questions_are_answered_in_any_order(talk: Talk) -> None:
    asked = talk.runtime.ask
    first, one = begin(talk, asked.input("One?"))
    second, two = begin(talk, asked.input("Two?"))
    assert one["id"] != two["id"]
    talk.answer(two["id"], value="2")
    assert second.result(PATIENCE) == "2"
    assert not first.done()
    talk.answer(one["id"], value="1")
    assert first.result(PATIENCE) == "1"


def test_a_question_that_times_out_answers_itself(talk: Talk) -> None:
    future, request = begin(talk, talk.runtime.ask.confirm("Sure?", timeout=0.01))
    assert future.result(PATIENCE) is False
    talk.answer(request["id"], confirmed=True)


def test_what_only_tells_has_pis_fields_and_needs_no_loop(talk: Talk) -> None:
    asked = talk.runtime.ask
    asked.notify("hi")
    asked.notify("careful", "warning")
    asked.set_status("s", "busy")
    asked.set_status("s", None)
    asked.set_widget("w", ["a", "b"], "belowEditor")
    asked.set_widget("w", None)
    asked.set_title("A title")
    asked.set_editor_text("draft")
    assert [fields(line) for line in talk.lines.all()] == [
        {"method": "notify", "message": "hi"},
        {"method": "notify", "message": "careful", "notifyType": "warning"},
        {"method": "setStatus", "statusKey": "s", "statusText": "busy"},
        {"method": "setStatus", "statusKey": "s"},
        {
            "method": "setWidget",
            "widgetKey": "w",
            "widgetLines": ["a", "b"],
            "widgetPlacement": "belowEditor",
        },
        {"method": "setWidget", "widgetKey": "w"},
        {"method": "setTitle", "title": "A title"},
        {"method": "set_editor_text", "text": "draft"},
    ]
    assert len({line["id"] for line in talk.lines.all()}) == 8


def test_a_tool_asks_through_its_context_and_the_model_hears_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = define_agent(model="stub")

    @agent.tool
    async def greet(ctx: Any) -> str:
        name = await ctx.ui.input("Who are you?")
        ctx.ui.notify(f"hello {name}")
        return f"greeted {name}"

    with Talk(agent) as talk:
        monkeypatch.setattr(ui, "_installed", [talk.runtime.ask])
        talk.send("prompt", message="CALL greet")
        request = talk.wait("ui input")
        # Commands are answered meanwhile, and the agent is at work.
        assert talk.data("get_state")["isStreaming"] is True
        talk.answer(request["id"], value="Ada")
        assert talk.wait("ui notify")["message"] == "hello Ada"
        talk.wait("agent_settled")
        (result,) = messages(talk.lines.all(), "toolResult")
    assert message_text(result) == "greeted Ada"


def test_an_abort_cancels_the_tool_that_waits_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = define_agent(model="stub")
    ended = threading.Event()

    @agent.tool
    async def wait(ctx: Any) -> None:
        try:
            await ctx.ui.confirm("Sure?")
        finally:
            ended.set()

    with Talk(agent) as talk:
        monkeypatch.setattr(ui, "_installed", [talk.runtime.ask])
        talk.send("prompt", message="CALL wait")
        request = talk.wait("ui confirm")
        assert talk.ask("abort")["success"] is True
        assert ended.is_set()
        talk.answer(request["id"], confirmed=True)
        talk.prompt("SAY next")


def test_outside_an_agent_there_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui, "_installed", [])
    with pytest.raises(PiwebError, match="no agent is running"):
        ui.notify("hi")

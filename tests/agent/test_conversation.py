"""The conversation loop: pi's order of events, whatever models, tools and people do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from piweb_jupyter.agent import Agent, SurfaceCommandError, create_surface, define_agent
from piweb_jupyter.runner import conversation, llm
from piweb_jupyter.runner.backend import ModelEvent, ModelRequest, ModelStop, ModelUsage
from piweb_jupyter.runner.chat import text_of as message_text
from piweb_jupyter.runner.model import ModelError, ModelRef, describe_model
from piweb_jupyter.wire.events import ContentDelta, ContentEnd, ContentStart
from tests.agent.talk import PATIENCE, Talk, TalkingChild, messages, order, summary, text_of

RESPONSE = ["message_start assistant", "text_start 0", "text_delta 0", "text_end 0"]
USER = ["message_start user", "message_end user"]

Script = Callable[[ModelRequest], AsyncGenerator[ModelEvent, None]]


class Scripted:
    """A model that answers as a test says."""

    def __init__(self, script: Script) -> None:
        self.info = describe_model(ModelRef("scripted", "one"))
        self.requests: list[ModelRequest] = []
        self._script = script

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        return self._script(request)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], Scripted]:
    """Puts a script where the model `scripted:one` would be opened."""

    def put(script: Script) -> Scripted:
        model = Scripted(script)

        async def open_backend(ref: ModelRef) -> Scripted:
            assert str(ref) == "scripted:one"
            return model

        monkeypatch.setattr(llm, "open_backend", open_backend)
        return model

    return put


def say(text: str) -> list[ModelEvent]:
    return [ContentStart("text", 0), ContentDelta("text", 0, text), ModelStop("stop")]


def call(*calls: tuple[str, str]) -> list[ModelEvent]:
    events: list[ModelEvent] = []
    for index, (name, arguments) in enumerate(calls):
        events.append(ContentStart("toolcall", index, f"c{index}", name))
        events.append(ContentDelta("toolcall", index, arguments))
    return [*events, ModelStop("toolUse")]


def scripted_agent() -> Agent:
    return define_agent(model="scripted:one")


# ---------------------------------------------------------------- the order


def test_a_prompt_is_answered_in_pis_order() -> None:
    with Talk() as talk:
        lines = talk.prompt("SAY hello world")
    assert lines[0] == {
        "id": "r1",
        "type": "response",
        "command": "prompt",
        "success": True,
        "data": {"disposition": "started"},
    }
    assert order(lines) == [
        "response prompt",
        "agent_start",
        "turn_start",
        *USER,
        *RESPONSE,
        "message_end assistant",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]
    (message,) = messages(lines, "assistant")
    assert message["content"] == [{"type": "text", "text": "hello world"}]
    assert (message["stopReason"], message["provider"], message["model"]) == (
        "stop",
        "stub",
        "stub",
    )
    assert lines[-3]["message"] == message
    assert lines[-3]["toolResults"] == []
    assert [m["role"] for m in lines[-2]["messages"]] == ["user", "assistant"]
    assert lines[-1] == {"type": "agent_settled", "aborted": False}


def test_the_message_is_pending_and_empty_when_it_starts() -> None:
    with Talk() as talk:
        lines = talk.prompt("SAY hello")
    start = next(line for line in lines if summary(line) == "message_start assistant")
    assert start["message"]["stopReason"] == "pending"
    assert start["message"]["content"] == []


def test_tools_start_in_call_order_end_as_they_finish_and_are_told_in_call_order() -> None:
    agent = define_agent(model="stub")
    second_is_done = threading.Event()

    @agent.tool
    def slow(ctx: Any) -> str:
        ctx.progress("waiting")
        assert second_is_done.wait(PATIENCE)
        return "slow result"

    @agent.tool
    async def fast() -> str:
        second_is_done.set()
        return "fast result"

    with Talk(agent) as talk:
        lines = talk.prompt("CALL slow\nCALL fast")
    found = order(lines)
    begin = found.index("tool_execution_start slow")
    assert found[begin : begin + 2] == ["tool_execution_start slow", "tool_execution_start fast"]
    assert sorted(found[begin + 2 : begin + 4]) == [
        "tool_execution_end fast",
        "tool_execution_update slow",
    ]
    assert found[begin + 4 : begin + 12] == [
        "tool_execution_end slow",
        "message_start toolResult",
        "message_end toolResult",
        "message_start toolResult",
        "message_end toolResult",
        "turn_end",
        "turn_start",
        "message_start assistant",
    ]
    results = list(messages(lines, "toolResult"))
    assert [r["toolName"] for r in results] == ["slow", "fast"]
    assert [r["toolCallId"] for r in results] == ["call_m1_0", "call_m1_1"]
    assert [message_text(r) for r in results] == ["slow result", "fast result"]
    turn_end = next(line for line in lines if line["type"] == "turn_end")
    assert turn_end["toolResults"] == results
    assert text_of(lines).endswith("`slow` returned: slow result\n`fast` returned: fast result")


def test_a_blocking_tool_holds_up_neither_the_loop_nor_the_commands() -> None:
    agent = define_agent(model="stub")
    release = threading.Event()

    @agent.tool
    def block() -> str:
        assert release.wait(PATIENCE)
        return "free"

    with Talk(agent) as talk:
        talk.send("prompt", message="CALL block")
        talk.wait("tool_execution_start block")
        assert talk.data("get_state")["isStreaming"] is True

        async def answer() -> str:
            return "the loop lives"

        assert talk.runtime.loop.run(answer()).result(PATIENCE) == "the loop lives"
        release.set()
        talk.wait("agent_settled")


# ---------------------------------------------------------------- tools


def tool_agent() -> Agent:
    agent = define_agent(model="stub")

    @agent.tool
    def give(what: str) -> Any:
        values: dict[str, Any] = {
            "none": None,
            "dict": {"a": [1, 2]},
            "nan": float("nan"),
            "object": object(),
            "png": b"\x89PNG....",
            "bytes": b"what",
            "odd": {"content": [{"type": "image"}]},
            "surrogate": "caf\udce9",
            "pi": {
                "content": [{"type": "text", "text": "seen"}],
                "details": {"chips": 3},
                "isError": True,
            },
        }
        return values[what]

    @agent.tool
    def refuse() -> None:
        raise SurfaceCommandError("too_many", "there are 3 already", details={"who": agent})

    @agent.tool
    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    return agent


@pytest.mark.parametrize(
    ("arguments", "text", "is_error"),
    [
        ('give {"what": "none"}', "done", False),
        ('give {"what": "dict"}', '{"a":[1,2]}', False),
        ('give {"what": "pi"}', "seen", True),
        (
            'give {"what": "nan"}',
            "StateValueError: the result of tool `give`: nan is not JSON; use None or a string",
            True,
        ),
        (
            'give {"what": "object"}',
            "StateValueError: the result of tool `give`: object is not JSON",
            True,
        ),
        (
            'give {"what": "bytes"}',
            "TypeError: the result of tool `give`: bytes must be a PNG, JPEG, GIF or WebP image",
            True,
        ),
        ('give {"what": "gone"}', "KeyError: 'gone'", True),
        ("refuse", "too_many: there are 3 already", True),
        ("give {}", "invalid_args: what: is required", True),
        (
            'give {"what": "none", "extra": 1}',
            "invalid_args: extra: is no argument of it; it takes what",
            True,
        ),
        ('give {"what": "odd"}', '{"content":[{"type":"image"}]}', False),
        ("cancel_itself", "The tool cancelled itself", True),
        ('give {"what": "surrogate"}', "caf\ufffd", False),
        ("give {oops", "Invalid arguments: the arguments are not JSON: {oops", True),
        ("give [1]", "Invalid arguments: the arguments must be an object: [1]", True),
        ("nothing {}", "Tool nothing not found. Tools: cancel_itself, give, refuse.", True),
        ("__class__ {}", "Tool __class__ not found. Tools: cancel_itself, give, refuse.", True),
    ],
)
def test_what_a_tool_gives_or_refuses_becomes_its_result(
    arguments: str, text: str, is_error: bool
) -> None:
    with Talk(tool_agent()) as talk:
        lines = talk.prompt(f"CALL {arguments}")
    (result,) = messages(lines, "toolResult")
    assert message_text(result) == text
    assert result["isError"] is is_error
    end = next(line for line in lines if line["type"] == "tool_execution_end")
    assert end["isError"] is is_error
    assert end["result"]["content"] == result["content"]
    # The model is told, and the run goes on to its end.
    assert text in text_of(lines)
    assert lines[-1] == {"type": "agent_settled", "aborted": False}


def test_progress_is_told_at_a_bounded_rate_and_the_newest_is_never_left_out() -> None:
    agent = define_agent(model="stub")
    release = threading.Event()

    @agent.tool
    def count(ctx: Any) -> str:
        for number in range(5001):
            ctx.progress(f"step {number}", {"step": number})
        assert release.wait(PATIENCE)
        return "counted"

    with Talk(agent) as talk:
        talk.send("prompt", message="CALL count")
        talk.lines.wait(lambda line: "step 5000" in str(line))
        release.set()
        talk.wait("agent_settled")
        updates = [line for line in talk.lines.all() if line["type"] == "tool_execution_update"]
    assert len(updates) < 500
    assert updates[0]["partialResult"]["details"] == {"step": 0}
    assert updates[-1]["partialResult"] == {
        "content": [{"type": "text", "text": "step 5000"}],
        "details": {"step": 5000},
    }


def test_bytes_that_are_an_image_go_to_the_model_as_one() -> None:
    with Talk(tool_agent()) as talk:
        (result,) = messages(talk.prompt('CALL give {"what": "png"}'), "toolResult")
    assert result["content"] == [{"type": "image", "data": "iVBORy4uLi4=", "mimeType": "image/png"}]


def test_a_tool_whose_arguments_say_no_json_refuses_the_prompt_and_is_named() -> None:
    agent = define_agent(model="stub")

    @agent.tool
    def odd(what: threading.Thread) -> None: ...

    with Talk(agent) as talk:
        error = talk.error("prompt", message="x")
        assert error.startswith("tool `odd` (test_conversation.py:")
        assert talk.data("get_state")["isStreaming"] is False


def test_two_tools_of_one_name_are_refused_when_they_are_defined() -> None:
    agent = tool_agent()
    with pytest.raises(Exception, match="tool `give`"):
        agent.tool(name="give")(lambda: None)


# ---------------------------------------------------------------- steering and follow-ups


def test_steering_is_taken_one_per_turn_and_follow_ups_after_it() -> None:
    agent = define_agent(model="stub")
    queued = threading.Event()

    @agent.tool
    def wait() -> str:
        assert queued.wait(PATIENCE)
        return "waited"

    with Talk(agent) as talk:
        talk.send("prompt", message="CALL wait")
        talk.wait("tool_execution_start wait")
        assert talk.error("prompt", message="x").startswith("Agent is already processing. Specify")
        talk.data("follow_up", message="SAY follow")
        talk.data("steer", message="SAY steer one")
        assert talk.data("prompt", message="SAY steer two", streamingBehavior="steer") == {
            "disposition": "queued"
        }
        start = len(talk.lines.all())
        queued.set()
        talk.wait("agent_settled")
        lines = talk.lines.all()[start:]
    found = order(lines)
    begin = found.index("turn_end")
    turn = ["turn_start", "queue_update", *USER, *RESPONSE, "message_end assistant", "turn_end"]
    assert found[begin + 1 :] == [*turn, *turn, *turn, "agent_end", "agent_settled"]
    users = [message_text(m) for m in messages(lines, "user")]
    assert users == ["SAY steer one", "SAY steer two", "SAY follow"]
    updates = [(x["steering"], x["followUp"]) for x in lines if x["type"] == "queue_update"]
    assert updates == [
        (["SAY steer two"], ["SAY follow"]),
        ([], ["SAY follow"]),
        ([], []),
    ]


def test_mode_all_takes_everything_that_waits_at_once() -> None:
    with Talk() as talk:
        talk.data("set_steering_mode", mode="all")
        talk.data("set_follow_up_mode", mode="all")
        for text in ("a", "b"):
            talk.data("steer", message=f"SAY steer {text}")
            talk.data("follow_up", message=f"SAY follow {text}")
        lines = talk.prompt("SAY first")
    assert [message_text(m) for m in messages(lines, "user")] == [
        "SAY first",
        "SAY steer a",
        "SAY steer b",
        "SAY follow a",
        "SAY follow b",
    ]
    assert [message_text(m) for m in messages(lines, "assistant")] == ["steer b", "follow b"]


def test_what_was_queued_while_idle_rides_along_with_the_next_prompt() -> None:
    with Talk() as talk:
        talk.data("steer", message="SAY steered")
        lines = talk.prompt("SAY prompted")
    assert order(lines)[:9] == [
        "response prompt",
        "agent_start",
        "turn_start",
        *USER,
        "queue_update",
        *USER,
        "message_start assistant",
    ]
    assert text_of(lines) == "steered"


def test_a_message_queued_at_the_very_end_of_a_run_is_not_left_behind() -> None:
    with Talk() as talk:
        take, late = talk.rpc.chat.take_follow_up, ["SAY late"]

        def take_and_be_late() -> Any:
            taken = take()
            if late:
                talk.send("follow_up", message=late.pop())
            return taken

        talk.rpc.chat.take_follow_up = take_and_be_late  # type: ignore[method-assign]
        lines = talk.prompt("SAY first")
    assert [message_text(m) for m in messages(lines, "assistant")] == ["first", "late"]


def test_images_travel_with_a_prompt_and_with_what_is_queued() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    with Talk() as talk:
        talk.data("steer", message="look", images=[image])
        lines = talk.prompt("SAY x", images=[image])
    assert [m["content"][1:] for m in messages(lines, "user")] == [[image], [image]]


# ---------------------------------------------------------------- abort


def test_abort_in_mid_stream_keeps_the_partial_text_and_answers_when_all_is_over() -> None:
    with Talk() as talk:
        talk.send("prompt", message="SLOW 1000 20")
        talk.wait("text_delta 0")
        id_ = talk.send("abort")
        talk.response(id_)
        lines = talk.lines.all()
    assert order(lines)[-7:] == [
        "text_delta 0",
        "text_end 0",
        "message_end assistant",
        "turn_end",
        "agent_end",
        "agent_settled",
        "response abort",
    ]
    (message,) = messages(lines, "assistant")
    assert message["stopReason"] == "aborted"
    assert message["errorMessage"] == "Request was aborted"
    assert message["content"][0]["text"].startswith("word1 ")
    assert lines[-2] == {"type": "agent_settled", "aborted": True}


def test_abort_in_a_tool_tells_its_end_and_then_the_abort_as_pi_does() -> None:
    agent = define_agent(model="stub")
    cancelled = threading.Event()

    @agent.tool
    async def forever(ctx: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with Talk(agent) as talk:
        talk.send("prompt", message="CALL forever")
        talk.wait("tool_execution_start forever")
        talk.ask("abort")
        assert cancelled.is_set()
        lines = talk.lines.all()
        assert talk.data("get_state")["isStreaming"] is False
    assert order(lines)[-12:] == [
        "tool_execution_start forever",
        "tool_execution_end forever",
        "message_start toolResult",
        "message_end toolResult",
        "turn_end",
        "turn_start",
        "message_start assistant",
        "message_end assistant",
        "turn_end",
        "agent_end",
        "agent_settled",
        "response abort",
    ]
    (result,) = messages(lines, "toolResult")
    assert (message_text(result), result["isError"]) == ("Command aborted", True)
    assert list(messages(lines, "assistant"))[-1]["content"] == []


def test_abort_does_not_wait_for_a_thread_that_does_not_listen() -> None:
    agent = define_agent(model="stub")
    release, saw = threading.Event(), threading.Event()

    @agent.tool
    def deaf(ctx: Any) -> str:
        assert release.wait(PATIENCE)
        if ctx.cancelled:
            saw.set()
        ctx.progress("too late")
        return "too late"

    with Talk(agent) as talk:
        talk.send("prompt", message="CALL deaf")
        talk.wait("tool_execution_start deaf")
        talk.ask("abort")
        before = len(talk.lines.all())
        release.set()
        assert saw.wait(PATIENCE)
        assert text_of(talk.prompt("SAY next")) == "next"
        after = talk.lines.all()[before:]
    assert "too late" not in str(after)


def test_abort_ends_within_its_time_when_a_coroutine_swallows_its_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversation, "CANCEL_TIMEOUT", 0.05)
    agent = define_agent(model="stub")
    release = asyncio.Event()

    @agent.tool
    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    with Talk(agent) as talk:
        talk.send("prompt", message="CALL stubborn")
        talk.wait("tool_execution_start stubborn")
        talk.ask("abort")
        talk.runtime.loop.call(release.set)
        assert text_of(talk.prompt("SAY next")) == "next"
        assert "too late" not in str(talk.lines.all())


def test_abort_ends_within_its_time_when_a_model_swallows_its_cancellation(
    monkeypatch: pytest.MonkeyPatch, scripted: Callable[[Script], Scripted]
) -> None:
    monkeypatch.setattr(conversation, "CANCEL_TIMEOUT", 0.05)
    release, ended = asyncio.Event(), threading.Event()

    async def stubborn(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)
        yield ContentDelta("text", 0, "before")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        yield ContentDelta("text", 0, "after")
        ended.set()
        yield ModelStop("stop")

    scripted(stubborn)
    with Talk(scripted_agent()) as talk:
        talk.send("prompt", message="x")
        talk.wait("text_delta 0")
        talk.ask("abort")
        before = len(talk.lines.all())
        talk.runtime.loop.call(release.set)
        assert ended.wait(PATIENCE)
        assert len(talk.lines.all()) == before


def test_an_engine_that_makes_an_error_of_its_cancellation_is_aborted_all_the_same(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def sulk(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ModelError("Connection error.") from None

    scripted(sulk)
    with Talk(scripted_agent()) as talk:
        talk.send("prompt", message="x")
        talk.wait("text_start 0")
        talk.ask("abort")
        (message,) = messages(talk.lines.all(), "assistant")
    assert (message["stopReason"], message["errorMessage"]) == ("aborted", "Request was aborted")


def test_abort_when_idle_is_answered_at_once_and_changes_nothing() -> None:
    with Talk() as talk:
        assert talk.ask("abort")["success"] is True
        assert text_of(talk.prompt("SAY x")) == "x"
        assert talk.ask("abort")["success"] is True
        assert text_of(talk.prompt("SAY y")) == "y"


def test_abort_right_behind_a_prompt_ends_it() -> None:
    with Talk() as talk:
        talk.send("prompt", message="SLOW 1000 20")
        talk.ask("abort")
        assert talk.data("get_state")["isStreaming"] is False
        assert order(talk.lines.all())[-3:] == [
            "agent_settled",
            "response abort",
            "response get_state",
        ]


def test_an_abort_leaves_the_queue_for_the_next_prompt() -> None:
    with Talk() as talk:
        talk.send("prompt", message="SLOW 1000 20")
        talk.wait("text_delta 0")
        talk.data("follow_up", message="SAY follow")
        talk.data("steer", message="SAY steer")
        talk.ask("abort")
        assert talk.data("get_state")["pendingMessageCount"] == 2
        lines = talk.prompt("SAY next")
    assert [message_text(m) for m in messages(lines, "user")] == [
        "SAY next",
        "SAY steer",
        "SAY follow",
    ]


def test_a_new_session_ends_the_run_first() -> None:
    with Talk() as talk:
        talk.send("prompt", message="SLOW 1000 20")
        talk.wait("text_delta 0")
        assert talk.data("new_session") == {"cancelled": False}
        assert order(talk.lines.all())[-2:] == ["agent_settled", "response new_session"]
        assert talk.data("get_messages") == {"messages": []}


def test_the_end_of_the_agent_drops_a_run_without_another_word() -> None:
    agent = define_agent(model="stub")
    release, ended = threading.Event(), threading.Event()

    @agent.tool
    def block() -> None:
        release.wait(PATIENCE)

    @agent.tool
    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with Talk(agent) as talk:
        talk.send("prompt", message="CALL block\nCALL forever")
        talk.wait("tool_execution_start forever")
        before = len(talk.lines.all())
        talk.end()
        assert ended.is_set()
        assert len(talk.lines.all()) == before
        release.set()


# ---------------------------------------------------------------- models


def test_an_engine_that_fails_ends_the_turn_with_its_error(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def fail(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)
        yield ContentDelta("text", 0, "half")
        raise RuntimeError("no such luck")

    scripted(fail)
    with Talk(scripted_agent()) as talk:
        talk.data("follow_up", message="stays queued")
        lines = talk.prompt("x")
        assert talk.data("get_state")["pendingMessageCount"] == 1
    (message,) = messages(lines, "assistant")
    assert (message["stopReason"], message["errorMessage"]) == ("error", "no such luck")
    assert message["content"] == [{"type": "text", "text": "half"}]
    assert order(lines)[-4:] == ["message_end assistant", "turn_end", "agent_end", "agent_settled"]
    assert lines[-1]["aborted"] is False


def test_a_stream_that_ends_without_a_stop_is_an_error(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def stop_short(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)

    scripted(stop_short)
    with Talk(scripted_agent()) as talk:
        (message,) = messages(talk.prompt("x"), "assistant")
    assert message["errorMessage"] == "The model's stream ended too early."


def test_a_model_that_calls_tools_for_ever_is_stopped(
    monkeypatch: pytest.MonkeyPatch, scripted: Callable[[Script], Scripted]
) -> None:
    monkeypatch.setattr(conversation, "MAX_RESPONSES", 3)

    async def circle(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in call(("nothing", "{}")):
            yield event

    model = scripted(circle)
    with Talk(scripted_agent()) as talk:
        lines = talk.prompt("x")
    assert len(model.requests) == 3
    last = list(messages(lines, "assistant"))[-1]
    assert last["stopReason"] == "error"
    assert "the model keeps calling tools" in last["errorMessage"]


def test_a_model_that_cannot_be_opened_refuses_the_prompt_and_the_agent_is_idle_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def open_backend(ref: ModelRef) -> Scripted:
        raise ModelError(f"{ref} is not for you: use another")

    monkeypatch.setattr(llm, "open_backend", open_backend)
    with Talk(scripted_agent()) as talk:
        error = talk.error("prompt", message="x")
        assert error == "scripted:one is not for you: use another"
        assert talk.data("get_state")["isStreaming"] is False
        told = talk.error("set_model", provider="scripted", modelId="two")
        assert told.startswith("Model not found: scripted/two: ")
        assert talk.data("get_state")["model"]["id"] == "one"
        # The stub is always there to go on with.
        talk.data("set_model", provider="stub", modelId="stub")
        assert text_of(talk.prompt("SAY x")) == "x"


def test_an_abort_while_the_engine_is_being_opened_ends_the_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opening = threading.Event()

    async def open_backend(ref: ModelRef) -> Scripted:
        opening.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(llm, "open_backend", open_backend)
    with Talk(scripted_agent()) as talk:
        id_ = talk.send("prompt", message="x")
        assert opening.wait(PATIENCE)
        assert talk.ask("abort")["success"] is True
        assert talk.response(id_)["error"] == "The prompt was aborted before it started."
        assert [summary(line) for line in talk.lines.all()] == ["response prompt", "response abort"]


def test_the_request_holds_the_whole_conversation_tools_prompt_and_level(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def answer(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in call(("add", '{"a": 1}')) if len(request.entries) == 1 else say("done"):
            yield event

    model = scripted(answer)
    agent = define_agent(system_prompt="Be brief.", model="scripted:one", thinking="low")

    @agent.tool
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    with Talk(agent) as talk:
        talk.prompt("go")
    first, second = model.requests
    assert (first.system_prompt, first.thinking) == ("Be brief.", "low")
    (tool,) = first.tools
    assert (tool.name, tool.description) == ("add", "Add one.")
    assert tool.parameters["properties"] == {"a": {"type": "integer"}}
    assert [e.message["role"] for e in second.entries] == ["user", "assistant", "toolResult"]


def test_what_a_response_used_is_in_its_message_and_in_the_stats(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def answer(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ModelUsage(input=100, output=7, cache_read=20, cache_write=3, cost=0.5)
        for event in say("x"):
            yield event

    scripted(answer)
    with Talk(scripted_agent()) as talk:
        (message,) = messages(talk.prompt("x"), "assistant")
        talk.prompt("y")
        stats = talk.data("get_session_stats")
    usage = message["usage"]
    assert (usage["input"], usage["cacheRead"], usage["totalTokens"]) == (100, 20, 130)
    assert usage["cost"]["total"] == 0.5
    assert stats["tokens"] == {
        "input": 200,
        "output": 14,
        "cacheRead": 40,
        "cacheWrite": 6,
        "total": 260,
    }
    assert stats["cost"] == 1.0


# ---------------------------------------------------------------- deltas


def test_a_fast_model_gets_few_updates_that_hold_all_of_its_text(
    scripted: Callable[[Script], Scripted],
) -> None:
    words = [f"w{n} " for n in range(20_000)]

    async def flood(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)
        for word in words:
            yield ContentDelta("text", 0, word)
        yield ModelStop("stop")

    scripted(flood)
    with Talk(scripted_agent()) as talk:
        lines = talk.prompt("x")
    assert text_of(lines) == "".join(words)
    (message,) = messages(lines, "assistant")
    assert message["content"][0]["text"] == "".join(words)
    assert sum(summary(line) == "text_delta 0" for line in lines) < len(words) / 20


def test_joined_deltas_never_cross_from_one_block_into_another(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def mixed(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("thinking", 0)
        for part in ("a", "b"):
            yield ContentDelta("thinking", 0, part)
        yield ContentStart("text", 1)
        for part in ("c", "d"):
            yield ContentDelta("text", 1, part)
        # Late for the first block, as some providers are.
        yield ContentDelta("thinking", 0, "e")
        yield ContentEnd("text", 1)
        yield ContentDelta("text", 5, "a block that was never begun")
        yield ModelStop("length")

    scripted(mixed)
    with Talk(scripted_agent()) as talk:
        lines = talk.prompt("x")
    (message,) = messages(lines, "assistant")
    assert message["content"] == [
        {"type": "thinking", "thinking": "abe"},
        {"type": "text", "text": "cd"},
        {"type": "text", "text": "a block that was never begun"},
    ]
    assert message["stopReason"] == "length"
    assert text_of(lines, "thinking_delta") == "abe"
    ends = [line for line in order(lines) if "_end " in line and "message" not in line]
    assert ends == ["text_end 1", "thinking_end 0", "text_end 2"]


def test_a_character_that_a_provider_cuts_in_two_is_whole_in_the_message(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def cut(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)
        for part in ("a ", "\ud83d", "\ude00", " b", "\ud83d"):
            yield ContentDelta("text", 0, part)
        yield ModelStop("stop")

    scripted(cut)
    with Talk(scripted_agent()) as talk:
        (message,) = messages(talk.prompt("x"), "assistant")
        assert talk.data("get_last_assistant_text") == {"text": "a \U0001f600 b\ufffd"}
    assert message["content"][0]["text"] == "a \U0001f600 b\ufffd"


def test_a_flood_can_be_aborted(scripted: Callable[[Script], Scripted]) -> None:
    async def endless(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)
        while True:
            yield ContentDelta("text", 0, "again and again ")

    scripted(endless)
    with Talk(scripted_agent()) as talk:
        talk.send("prompt", message="x")
        talk.wait("text_delta 0")
        talk.ask("abort")
        assert talk.lines.all()[-2]["aborted"] is True


# ---------------------------------------------------------------- surfaces as tools


def counter_agent() -> Agent:
    counter = create_surface("demo", {"count": 0}, title="Counter")
    other = create_surface("other", {"count": 0})

    @counter.command
    def increment(ctx: Any, by: int = 1) -> dict[str, int]:
        """Add to the counter."""
        state = ctx.set_state(lambda s: {"count": s["count"] + by})
        return {"count": state["count"]}

    @counter.command
    async def wait(ctx: Any) -> None:
        await asyncio.Event().wait()

    @counter.command(llm=False)
    def reset(ctx: Any) -> None:
        ctx.set_state({"count": 0})

    @counter.command
    def who(ctx: Any) -> str:
        return str(ctx.actor)

    @other.command(name="refuse")
    def refuse(ctx: Any) -> None:
        raise SurfaceCommandError("full", "there is no more room", details={"room": 0})

    return define_agent(model="stub", surfaces=[counter, other])


def test_every_surface_command_is_a_tool_unless_it_says_otherwise(
    scripted: Callable[[Script], Scripted],
) -> None:
    async def answer(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in say("x"):
            yield event

    model = scripted(answer)
    agent = counter_agent()
    agent.model = "scripted:one"
    with Talk(agent) as talk:
        talk.prompt("x")
    tools = {tool.name: tool for tool in model.requests[0].tools}
    assert list(tools) == ["increment", "wait", "who", "refuse"]
    assert tools["increment"].description == "Add to the counter."
    assert tools["increment"].parameters == {
        "type": "object",
        "properties": {"by": {"type": "integer", "default": 1}},
        "additionalProperties": False,
    }


def test_the_model_changes_the_same_state_as_a_click_and_is_named_as_the_cause() -> None:
    with Talk(counter_agent()) as talk:
        lines = talk.prompt('CALL increment {"by": 2}\nCALL increment\nCALL who')
    states = [line for line in lines if line["type"] == "piweb_state"]
    assert [(s["key"], s["value"], s["rev"]) for s in states] == [
        ("surface:demo", {"count": 2}, 1),
        ("surface:demo", {"count": 3}, 2),
    ]
    assert states[0]["cause"] == {
        "correlationId": "call_m1_0",
        "action": "increment",
        "actor": "llm",
    }
    results = list(messages(lines, "toolResult"))
    # Calls of one response run in their order.
    assert [message_text(r) for r in results] == ['{"count":2}', '{"count":3}', "llm"]
    assert results[0]["details"] == {"domain": "demo", "action": "increment"}
    # No frame for a command that the host did not send.
    assert not [line for line in lines if line["type"] == "ui_rpc_response"]


def test_a_refused_surface_command_is_a_failed_tool() -> None:
    with Talk(counter_agent()) as talk:
        lines = talk.prompt('CALL refuse\nCALL increment {"by": "many"}\nCALL reset')
    refused, invalid, hidden = messages(lines, "toolResult")
    assert message_text(refused) == "full: there is no more room"
    assert refused["details"] == {"domain": "other", "action": "refuse", "code": "full", "room": 0}
    assert message_text(invalid).startswith("invalid_args: by: ")
    assert message_text(hidden).startswith("Tool reset not found.")
    assert all(r["isError"] for r in (refused, invalid, hidden))


def test_an_abort_cancels_the_surface_command_and_the_surface_goes_on() -> None:
    with Talk(counter_agent()) as talk:
        talk.send("prompt", message="CALL wait\nCALL increment")
        talk.wait("tool_execution_start increment")
        assert talk.ask("abort")["success"] is True
        lines = talk.prompt("CALL increment")
        assert text_of(lines).startswith("I will call")
        last = [line for line in talk.lines.all() if line["type"] == "piweb_state"][-1]
    assert last["value"]["count"] >= 1
    (result,) = messages(lines, "toolResult")
    assert result["isError"] is False


# ---------------------------------------------------------------- through real pipes

CHILD = """
import asyncio
import sys
import threading
from piweb_jupyter.agent import create_surface, define_agent

demo = create_surface("demo", {"count": 0})

@demo.command
def increment(ctx, by: int = 1) -> dict:
    return ctx.set_state(lambda s: {"count": s["count"] + by})

agent = define_agent(model="stub", surfaces=[demo])

@agent.tool
async def ask(ctx) -> bool:
    print("this goes to the log")
    return await ctx.ui.confirm("Sure?")

@agent.tool
def block() -> None:
    threading.Event().wait()

@agent.tool
async def stubborn() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@agent.tool
def leave() -> None:
    sys.exit(3)
"""


@pytest.fixture
def child_agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent.py"
    path.write_text(CHILD, encoding="utf-8")
    return path


def test_a_turn_with_tools_a_question_and_a_click_through_real_pipes(child_agent: Path) -> None:
    with TalkingChild(child_agent) as child:
        start = len(child.lines.all())
        child.send("prompt", message='CALL increment {"by": 2}\nCALL ask')
        question = child.wait("ui confirm")
        # A click in the middle of the turn, for the same field.
        child.write(
            b'{"type":"ui_rpc","request":{"correlationId":"k1","point":"command","action":"execute",'
            b'"payload":{"domain":"demo","action":"increment"},"protocolVersion":"0.1.0"}}'
        )
        result = child.wait("ui_rpc_response")["response"]["result"]
        assert result == {
            "domain": "demo",
            "action": "increment",
            "ok": True,
            "data": {"count": 3},
        }
        child.answer(question["id"], confirmed=True)
        child.wait("agent_settled")
        lines = child.lines.all()[start:]
        assert text_of(lines).endswith('`increment` returned: {"count":2}\n`ask` returned: true')
        revs = [line["rev"] for line in lines if line["type"] == "piweb_state"]
        assert revs == [1, 2]
    assert child.stderr == b"this goes to the log\n"


@pytest.mark.parametrize("prompt", ["SLOW 1000 20", "CALL ask", "CALL block", "CALL stubborn"])
def test_the_agent_ends_when_its_host_is_gone_whatever_the_turn_is_at(
    child_agent: Path, prompt: str
) -> None:
    with TalkingChild(child_agent) as child:
        child.send("prompt", message=prompt)
        child.wait("text_delta 0" if prompt.startswith("SLOW") else "turn_start")
        if prompt.startswith("CALL"):
            child.lines.wait(lambda line: line["type"] == "tool_execution_start")
        assert child.end() == 0
        assert "agent_settled" not in order(child.lines.all())


def test_a_tool_that_exits_is_a_failed_tool_and_the_agent_goes_on(child_agent: Path) -> None:
    with TalkingChild(child_agent) as child:
        (result,) = messages(child.prompt("CALL leave"), "toolResult")
        assert message_text(result) == "SystemExit: 3"
        assert text_of(child.prompt("SAY on")) == "on"


def test_clicks_and_tool_calls_on_one_field_a_thousand_times_lose_nothing() -> None:
    with Talk(counter_agent()) as talk:
        for number in range(20):
            talk.send("prompt", message="SLOW 0 0\n" + "CALL increment\n" * 20)
            for click in range(30):
                talk.write(
                    b'{"type":"ui_rpc","request":{"correlationId":"k%d.%d","point":"command",'
                    b'"action":"execute","payload":{"domain":"demo","action":"increment"},'
                    b'"protocolVersion":"0.1.0"}}' % (number, click)
                )
            settled = number + 1
            talk.lines.wait_count(lambda line: line["type"] == "agent_settled", settled)
        talk.lines.wait_count(lambda line: line["type"] == "ui_rpc_response", 600)
        lines = talk.lines.all()
    states = [line for line in lines if line["type"] == "piweb_state"][2:]
    assert [s["rev"] for s in states] == list(range(1, 1001))
    assert [s["value"]["count"] for s in states] == list(range(1, 1001))
    actors = [s["cause"]["actor"] for s in states]
    assert (actors.count("llm"), actors.count("user")) == (400, 600)
    results = [
        *(m["content"][0]["text"] for m in messages(lines, "toolResult")),
        *(
            f'{{"count":{line["response"]["result"]["data"]["count"]}}}'
            for line in lines
            if line["type"] == "ui_rpc_response"
        ),
    ]
    # Each of them saw a count of its own.
    assert len(set(results)) == 1000

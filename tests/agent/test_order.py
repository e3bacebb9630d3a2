"""One conversation with our agent and with pi, whose side is recorded: the same order of lines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from piweb_jupyter.agent import define_agent
from piweb_jupyter.runner import llm
from piweb_jupyter.runner.backend import ModelEvent, ModelRequest, ModelStop
from piweb_jupyter.runner.chat import text_of as message_text
from piweb_jupyter.runner.model import ModelRef, describe_model
from piweb_jupyter.wire.events import ContentDelta, ContentStart
from piweb_jupyter.wire.json import loads
from tests.agent.talk import PATIENCE, Talk, messages, order

RECORDED = Path(__file__).parents[1] / "wire" / "recorded" / "pi"

Lines = list[dict[str, Any]]


def recorded(name: str) -> Lines:
    """What pi said up to its first `agent_settled`, and the answer to an abort behind it.

    Left out: its system message, which it alone shows, and what was asked of it otherwise.
    """
    said: Lines = []
    for text in (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = loads(text)
        if record["dir"] != "out":
            continue
        line = record["line"]
        if said and said[-1]["type"] == "agent_settled":
            return [*said, line] if line.get("command") == "abort" else said
        if line.get("message", {}).get("role") != "system" and line.get("command") != "get_state":
            said.append(line)
    return said


def events(lines: Lines) -> list[str]:
    """The order of all but the answers to commands."""
    return [text for text in plain(lines) if not text.startswith("response ")]


def plain(lines: Lines) -> list[str]:
    """The order without what is a matter of time or of the provider.

    How often a tool reports, and whether blocks end one by one or (openai-completions) all at the
    end of the message, says nothing about the loop.
    """
    return [
        text
        for text in order(lines)
        if not text.startswith(("tool_execution_update", "text_", "thinking_", "toolcall_"))
    ]


def shapes(lines: Lines) -> dict[str, set[str]]:
    """Which fields each kind of line has."""
    found: dict[str, set[str]] = {}
    for line in lines:
        kind = line.get("assistantMessageEvent", line)
        found.setdefault(kind["type"], set()).update(kind)
    return found


def test_a_plain_prompt() -> None:
    with Talk() as talk:
        lines = talk.prompt("SAY hello from here")
    pi = recorded("02-prompt-text")
    assert order(lines) == order(pi)
    assert shapes(lines) == {kind: fields - {"usage"} for kind, fields in shapes(pi).items()}
    (message,), (theirs,) = messages(lines, "assistant"), messages(pi, "assistant")
    # What pi says beyond: the provider's own ids and words, which our engines do not tell.
    extra = {"responseId", "rawStopReason", "durationMs", "thinkingLevel"}
    assert set(message) == set(theirs) - extra
    assert set(message["usage"]) <= set(theirs["usage"])
    assert set(next(messages(lines, "user"))) == set(next(messages(pi, "user")))


def test_thinking() -> None:
    with Talk() as talk:
        lines = talk.prompt("THINK it over\nSAY done")
    begun = [text for text in order(lines) if "_start " in text]
    assert begun == [
        "message_start user",
        "message_start assistant",
        "thinking_start 0",
        "text_start 1",
    ]
    pi = [text for text in order(recorded("03-thinking")) if "_start " in text]
    assert begun == [text for text in pi if "thinking_level" not in text]


def test_three_tools_at_once() -> None:
    agent = define_agent(model="stub")
    ended = [threading.Event() for _ in range(3)]

    @agent.tool
    def bash(number: int) -> str:
        # They end in the order C, B, A, as the recorded ones do.
        if number < 2:
            assert ended[number + 1].wait(PATIENCE)
        ended[number].set()
        return "ABC"[number]

    with Talk(agent) as talk:
        lines = talk.prompt("\n".join(f'CALL bash {{"number": {n}}}' for n in range(3)))
    pi = recorded("05-parallel-tools")
    assert plain(lines) == plain(pi)
    mine, theirs = shapes(lines), shapes(pi)
    for kind in ("tool_execution_start", "tool_execution_end", "toolcall_start", "toolcall_end"):
        assert mine[kind] == theirs[kind]
    (result, *_), (their_result, *_) = messages(lines, "toolResult"), messages(pi, "toolResult")
    assert set(result) == set(their_result)


class Waiting:
    """A model whose first answer ends when it is let go, as the recorded slow one ends in time."""

    def __init__(self) -> None:
        self.info = describe_model(ModelRef("fake", "fake-1"))
        self.let_go = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield ContentStart("text", 0)
        yield ContentDelta("text", 0, "word0 ")
        await self.let_go.wait()
        yield ContentDelta("text", 0, "word1 ")
        yield ModelStop("stop")


def test_steering_and_follow_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Waiting()

    async def open_backend(ref: ModelRef) -> Waiting:
        return model

    monkeypatch.setattr(llm, "open_backend", open_backend)
    with Talk(define_agent(model="fake:fake-1")) as talk:
        talk.send("prompt", message="SLOW 30 50")
        talk.wait("text_delta 0")
        talk.error("prompt", message="no behaviour")
        for type_, message, fields in (
            ("steer", "ECHO steered one", {}),
            ("steer", "ECHO steered two", {}),
            ("follow_up", "ECHO follow one", {}),
            ("prompt", "ECHO via prompt steer", {"streamingBehavior": "steer"}),
            ("prompt", "ECHO via prompt fu", {"streamingBehavior": "followUp"}),
        ):
            talk.data(type_, message=message, **fields)
        talk.runtime.loop.call(model.let_go.set)
        talk.wait("agent_settled")
        lines = talk.lines.all()
    pi = recorded("06-steer")
    # pi answers commands that come together in any order; ours come one by one.
    assert events(lines) == events(pi)
    queues = [(x["steering"], x["followUp"]) for x in lines if x["type"] == "queue_update"]
    assert queues == [(x["steering"], x["followUp"]) for x in pi if x["type"] == "queue_update"]
    said = [message_text(m) for m in messages(lines, "user")]
    assert said == [message_text(m) for m in messages(pi, "user")]
    errors = [line["error"] for line in lines if line.get("success") is False]
    assert errors == [line["error"] for line in pi if line.get("success") is False]


def test_steering_in_the_middle_of_a_tool() -> None:
    agent = define_agent(model="stub")
    queued = threading.Event()

    @agent.tool
    def bash() -> str:
        assert queued.wait(PATIENCE)
        return "hi"

    with Talk(agent) as talk:
        start = len(talk.lines.all())
        talk.send("prompt", message="CALL bash")
        talk.wait("tool_execution_start bash")
        talk.data("steer", message="SAY steered mid tool")
        queued.set()
        talk.wait("agent_settled")
        lines = talk.lines.all()[start:]
    assert plain(lines) == plain(recorded("07-steer-during-tools"))


def test_an_abort_in_mid_stream() -> None:
    with Talk() as talk:
        talk.send("prompt", message="SLOW 1000000 20")
        talk.wait("text_delta 0")
        talk.ask("abort")
        lines = talk.lines.all()
    pi = recorded("08-abort-stream")
    assert order(lines) == order(pi)
    assert lines[-2] == pi[-2] == {"type": "agent_settled", "aborted": True}
    (message,), (theirs,) = messages(lines, "assistant"), messages(pi, "assistant")
    assert message["errorMessage"] == theirs["errorMessage"]


def test_an_abort_while_one_tool_runs_and_another_has_ended() -> None:
    agent = define_agent(model="stub")

    @agent.tool
    async def bash(wait: bool) -> str:
        if wait:
            await asyncio.Event().wait()
        return "fast"

    with Talk(agent) as talk:
        talk.send("prompt", message='CALL bash {"wait": true}\nCALL bash {"wait": false}')
        talk.wait("tool_execution_end bash")
        talk.ask("abort")
        lines = talk.lines.all()
    pi = recorded("09-abort-tool")
    assert plain(lines) == plain(pi)
    last, theirs = list(messages(lines, "assistant"))[-1], list(messages(pi, "assistant"))[-1]
    assert (last["content"], last["stopReason"]) == (theirs["content"], theirs["stopReason"])

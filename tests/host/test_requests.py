from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from piweb_jupyter.errors import AgentExitedError, RequestError
from piweb_jupyter.host.requests import LANE_PATIENCE, Request, Requests
from piweb_jupyter.wire.rpc import Response

GONE = AgentExitedError(7)


class Pipe:
    """Where the commands go, and the timers that they set."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.broken = False
        self.requests = Requests(self.write, lambda delay, fn: self.timers.append((delay, fn)))

    def write(self, line: bytes) -> None:
        if self.broken:
            raise GONE
        self.lines.append(orjson.loads(line))

    @property
    def sent(self) -> list[str]:
        return [line["type"] for line in self.lines]

    def answer(self, command: str, **fields: Any) -> bool:
        line = next(line for line in self.lines if line["type"] == command)
        self.lines.remove(line)
        return self.requests.settle(Response(line["id"], command, True, **fields))


def test_one_state_changing_command_is_in_flight_at_a_time() -> None:
    pipe = Pipe()
    for command in ("prompt", "steer", "abort"):
        pipe.requests.send(command, {})
    assert pipe.sent == ["prompt"]
    pipe.answer("prompt")
    assert pipe.sent == ["steer"]
    pipe.answer("steer")
    assert pipe.sent == ["abort"]


def test_reads_and_long_commands_go_beside() -> None:
    pipe = Pipe()
    for command in ("prompt", "get_state", "bash", "compact", "steer", "abort_bash"):
        pipe.requests.send(command, {})
    assert pipe.sent == ["prompt", "get_state", "bash", "compact", "abort_bash"]


def test_answers_are_paired_by_id_in_any_order() -> None:
    pipe = Pipe()
    first, second = (pipe.requests.send(name, {}) for name in ("get_state", "get_commands"))
    pipe.answer("get_commands", data=2)
    pipe.answer("get_state", data=1)
    assert (first.wait(0), second.wait(0)) == (1, 2)
    assert not pipe.requests.settle(Response("r99", "get_state", True))
    assert not pipe.requests.settle(Response({"a": 1}, "get_state", True))
    assert not pipe.requests.settle(Response(None, "ui_rpc", False, None, "Unknown command"))


def test_a_command_that_is_not_answered_holds_the_lane_only_so_long() -> None:
    pipe = Pipe()
    slow = pipe.requests.send("prompt", {"message": "/ask"})
    pipe.requests.send("abort", {})
    [(delay, release)] = pipe.timers
    assert delay == LANE_PATIENCE
    release()
    release()
    assert pipe.sent == ["prompt", "abort"]
    pipe.answer("prompt", data="late")
    assert slow.wait(0) == "late"
    assert pipe.sent == ["abort"]


def test_a_refusal_is_raised_with_the_agents_words_and_silence_with_ours() -> None:
    pipe = Pipe()
    refused = pipe.requests.send("compact", {})
    pipe.requests.settle(Response("r1", "compact", False, None, "Nothing to compact"))
    with pytest.raises(RequestError, match="Nothing to compact"):
        refused.wait(0)
    silent = pipe.requests.send("get_state", {})
    with pytest.raises(RequestError, match="did not answer `get_state` within 0"):
        silent.wait(0)


def test_an_agent_that_is_gone_fails_what_waits_and_what_comes() -> None:
    pipe = Pipe()
    done: list[Request] = []
    waiting = [pipe.requests.send(name, {}, done.append) for name in ("prompt", "steer")]
    pipe.requests.fail(GONE)
    later = pipe.requests.send("prompt", {}, done.append)
    for request in (*waiting, later):
        with pytest.raises(AgentExitedError):
            request.wait(0)
    assert done == [*waiting, later]
    assert pipe.sent == ["prompt"]


def test_a_write_that_fails_fails_its_command_and_those_behind_it() -> None:
    pipe = Pipe()
    pipe.broken = True
    first, second = (pipe.requests.send(name, {}) for name in ("prompt", "steer"))
    for request in (first, second):
        with pytest.raises(AgentExitedError):
            request.wait(0)

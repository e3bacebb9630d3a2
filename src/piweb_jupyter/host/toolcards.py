"""Tool calls and `bash` runs in a transcript: one card each, from the call to its result."""

from __future__ import annotations

from collections.abc import Callable

from ..wire.json import JSON, Fields, dumps
from ..wire.rpc import Response
from .content import CUT, OUTPUT_LIMIT, Part, cut, set_args, set_result, tool_part
from .messages import ENDED, Messages, Op, Stream

__all__ = ["BashRuns", "ToolCards", "stored_bash"]

_OPEN = ("pending", "running")


class ToolCards:
    """The tool calls of the conversation, by id.

    `home` gives the message that a call belongs to whose announcement was never seen, and the
    operations it took to make it.
    """

    def __init__(self, messages: Messages, home: Callable[[], tuple[list[Op], int]]) -> None:
        self._messages = messages
        self._home = home
        self._places: dict[str, tuple[int, int]] = {}

    def enroll(self, n: int) -> None:
        """Note where the cards of message `n` are, after its parts were changed."""
        self._places = {id_: place for id_, place in self._places.items() if place[0] != n}
        for p, part in enumerate(self._messages[n]["parts"]):
            if part["type"] == "tool" and part["id"]:
                self._places[part["id"]] = (n, p)

    def forget_ended(self) -> None:
        """A run begins: calls of earlier ones that have ended are not heard of again."""
        self._places = {id_: place for id_, place in self._places.items() if self._open(place)}

    def forget(self) -> None:
        self._places.clear()

    def start(self, id_: str, name: str, args: JSON) -> list[Op]:
        """The call begins to run.

        Providers may give every call of a session the same id (`call_0`), so a card under it that
        has ended is another call's.
        """
        ops: list[Op] = []
        place = self._find(id_)
        if place is None or not self._open(place):
            ops, n = self._home()
            place = n, self._messages.add_part(n, tool_part(id_, name))
            self._places[id_] = place
        with self._messages.editing(*place) as part:
            part["status"] = "running"
            part["name"] = name or part["name"]
            if args is not None:
                set_args(part, args)
        return [*ops, self._messages.tell_part(*place)]

    def update(self, id_: str, name: str, args: JSON, partial: JSON) -> list[Op]:
        """Its output so far, whole."""
        ops: list[Op] = []
        place = self._find(id_)
        if place is None:
            ops = self.start(id_, name, args)
            place = self._places[id_]
        if not self._open(place):
            return ops
        with self._messages.editing(*place) as part:
            before = dict(part)
            part["status"] = "running"
            set_result(part, partial)
        return ops + self._tell_output(place, before)

    def end(
        self, id_: str, name: str, result: JSON, is_error: bool, duration: JSON = None
    ) -> list[Op]:
        ops: list[Op] = []
        place = self._find(id_)
        if place is None:
            ops, n = self._home()
            place = n, self._messages.add_part(n, tool_part(id_, name))
            self._places[id_] = place
        with self._messages.editing(*place) as part:
            part["status"] = "error" if is_error else "done"
            part.pop("argsText", None)
            set_result(part, result)
            if is_error and not part["output"]:
                part["output"] = "Tool error"
            if isinstance(duration, int | float):
                part["durationMs"] = duration
        return [*ops, self._messages.tell_part(*place)]

    def take_message(self, message: Fields) -> list[Op]:
        """A `toolResult` message says once more how a call ended, or it is all that says so."""
        id_, name = message.get("toolCallId"), message.get("toolName")
        id_ = id_ if isinstance(id_, str) else ""
        place = self._find(id_)
        if place is not None and not self._open(place):
            return []
        name = name if isinstance(name, str) else ""
        is_error = message.get("isError") is True
        return self.end(id_, name, message, is_error, message.get("durationMs"))

    def close(self, start: int, status: str, reason: str = "") -> list[Op]:
        """Of the calls since message `start` that are open, nothing will be heard any more."""
        ops: list[Op] = []
        for n, p in self._since(start):
            if self._open((n, p)):
                with self._messages.editing(n, p) as part:
                    part["status"] = status
                    part.pop("argsText", None)
                    part["output"] = part["output"] or reason
                ops.append(self._messages.tell_part(n, p))
        return ops

    def mark_aborted(self, start: int) -> list[Op]:
        """The run was aborted: a call that it killed ended as failed, `…Command aborted`."""
        ops: list[Op] = []
        for n, p in self._since(start):
            part = self._messages[n]["parts"][p]
            if part["status"] == "error" and "aborted" in part["output"][-200:].lower():
                part["status"] = "aborted"
                ops.append(self._messages.tell_part(n, p))
        return ops

    def _since(self, start: int) -> list[tuple[int, int]]:
        """Where cards are; all of them, also those whose id another call has taken since."""
        return [
            (n, p)
            for n in range(max(start, self._messages.first), self._messages.end)
            if self._messages[n]["role"] == "assistant"
            for p, part in enumerate(self._messages[n]["parts"])
            if part["type"] == "tool"
        ]

    def _find(self, id_: str) -> tuple[int, int] | None:
        place = self._places.get(id_)
        return place if place is not None and place[0] in self._messages else None

    def _open(self, place: tuple[int, int]) -> bool:
        n, p = place
        return n in self._messages and self._messages[n]["parts"][p]["status"] not in ENDED

    def _tell_output(self, place: tuple[int, int], before: Part) -> list[Op]:
        """The least that says how the output has changed: mostly it has only grown."""
        n, p = place
        part = self._messages[n]["parts"][p]
        if part == before:
            return []
        old, new = before["output"], part["output"]
        if {**before, "output": new} == part and new.startswith(old):
            return [self._messages.tell_growth(n, p, "output", new[len(old) :])]
        return [self._messages.tell_part(n, p)]


class BashRuns:
    """The `bash` commands that the user runs in the agent's shell, each a message of its own."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._streams: dict[str, Stream] = {}

    def start(self, id_: JSON, command: str) -> list[Op]:
        known = self._streams.get(_key(id_))
        if known is not None and known.n in self._messages:
            # Its first output was faster than the news that it was sent.
            with self._messages.editing(known.n, 0) as part:
                part["args"] = {"command": cut(command, OUTPUT_LIMIT)}
            return [self._messages.tell_part(known.n, 0)]
        part = tool_part(_key(id_), "bash")
        part.update(args={"command": cut(command, OUTPUT_LIMIT)}, status="running")
        n = self._messages.add("bash", [part], "streaming")
        stream = Stream(n, 0, "bash", "output", OUTPUT_LIMIT)
        self._streams[_key(id_)] = self._messages.open_stream(stream)
        return [self._messages.tell(n)]

    def update(self, id_: JSON, delta: str) -> list[Op]:
        ops = [] if _key(id_) in self._streams else self.start(id_, "")
        stream = self._streams[_key(id_)]
        return ops + (self._messages.grow(stream, delta) if stream.n in self._messages else [])

    def end(self, response: Response) -> list[Op]:
        """The answer to the command holds the whole output, or its tail."""
        stream = self._streams.pop(_key(response.id), None)
        if stream is None or stream.n not in self._messages:
            return []
        if not response.success:
            return self._close(stream, "error", response.error)
        data = response.data if isinstance(response.data, dict) else {}
        with self._messages.editing(stream.n, 0) as part:
            status = _set_bash_result(part, data)
        return self._close(stream, status)

    def end_all(self, status: str, reason: str) -> list[Op]:
        ops: list[Op] = []
        for stream in self._streams.values():
            if stream.n in self._messages:
                ops += self._close(stream, status, reason if status == "error" else "")
        self._streams.clear()
        return ops

    def _close(self, stream: Stream, status: str, error: str = "") -> list[Op]:
        self._messages.close_streams(stream.n)
        message = self._messages[stream.n]
        message["status"] = message["parts"][0]["status"] = status
        if error:
            message["error"] = error
        return [self._messages.tell(stream.n)]


def stored_bash(message: Fields) -> tuple[Part, str]:
    """The card and the status of a `bashExecution` message of a stored session."""
    part = tool_part("", "bash")
    command = message.get("command")
    part["args"] = {"command": cut(command, OUTPUT_LIMIT) if isinstance(command, str) else ""}
    part["status"] = status = _set_bash_result(part, message)
    return part, status


def _set_bash_result(part: Part, data: Fields) -> str:
    output = data.get("output")
    part["output"] = cut(output, OUTPUT_LIMIT) if isinstance(output, str) else part["output"]
    if data.get("truncated") is True:
        part["cut"] = True
        part["output"] = f"{CUT}: the beginning\n{part['output']}"
    if isinstance(data.get("exitCode"), int):
        part["details"] = {"exitCode": data["exitCode"]}
    if data.get("cancelled") is True:
        return "aborted"
    return "error" if data.get("exitCode") else "done"


def _key(id_: JSON) -> str:
    return id_ if isinstance(id_, str) else dumps(id_).decode()

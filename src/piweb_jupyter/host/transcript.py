"""Transcript: folds the agent's events into messages, parts, tool calls and notices.

`apply` and its kin return what they changed as *operations*, which the chat view applies verbatim
to its copy, in order:

    ("message", i, message)         set or append message i
    ("part", i, p, part)            set or append part p of message i
    ("append", i, p, field, text)   append to a text field of that part
    ("meta", {field: value, …})     merge into the meta fields
    ("clear",)                      drop all messages

A message is `{"id", "role", "parts", "status", "error"?, "model"?, "usage"?, "time"?}` with role
`user | assistant | bash | custom | summary | notice` and status `streaming | done | error |
aborted`; `content.py` makes the parts.
"""

from __future__ import annotations

import dataclasses
import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ..wire import rpc
from ..wire.json import JSON, dumps, loads
from .content import (
    CUT,
    OUTPUT_LIMIT,
    TEXT_LIMIT,
    Part,
    compact_usage,
    cut,
    image_part,
    notice_part,
    parts_of,
    set_args,
    set_result,
    shed,
    text_part,
    thinking_part,
    tool_part,
    weight,
)

__all__ = ["MESSAGE_LIMIT", "TOTAL_LIMIT", "Message", "Op", "RunSummary", "ToolCall", "Transcript"]

Op: TypeAlias = tuple[JSON, ...]
Message: TypeAlias = dict[str, JSON]

# Characters kept in all; when there are more, the oldest messages are cut to stubs.
TOTAL_LIMIT = 20 * 1024 * 1024

# Messages kept; when there are more, the oldest fifth is dropped.
MESSAGE_LIMIT = 5000

# Status lines and widgets kept, each.
_AMBIENT_LIMIT = 100

_ENDED = ("done", "error", "aborted")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a turn. `status` is `pending`, `running`, `done`, `error` or `aborted`."""

    name: str
    args: JSON
    status: str
    output: str


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to: the assistant's last text, the tools on the way, cost and outcome."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: dict[str, float] | None = None
    error: str | None = None
    aborted: bool = False


@dataclass(slots=True)
class _Stream:
    """A text that is still growing. Its pieces are joined only when somebody looks: appending to
    the part itself would copy the whole text at every delta."""

    i: int
    p: int
    kind: str
    field: str
    room: int
    pieces: list[str] = dataclasses.field(default_factory=list)


class Transcript:
    """The conversation as a chat shows it. One thread changes it; any thread may read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._born: list[int] = []  # the sequence number at which each message came to be
        self._count = 0
        self._seq = 0
        self._weight = 0
        self._shed_to = 0  # messages before this one are stubs already
        self._current: int | None = None  # the message that is being written
        self._streams: dict[int, _Stream] = {}  # of the current message, by content index
        self._cards: dict[str, tuple[int, int]] = {}  # tool calls, by id: message and part
        self._bash: dict[str, _Stream] = {}  # rpc `bash` runs, by command id
        self._run_start = 0
        self._retry: int | None = None  # the notice that stands for a failed attempt
        self._settles = False  # the agent says `agent_settled` (pi >= 0.80.4)
        self._ambient: dict[tuple[str, str], int] = {}
        self._meta: dict[str, JSON] = _fresh_meta()

    def __repr__(self) -> str:
        count = len(self._messages)
        state = "busy" if self._meta["busy"] else "idle"
        return f"<Transcript {count} message{'s' * (count != 1)}, {state}>"

    def __len__(self) -> int:
        return len(self._messages)

    # ------------------------------------------------------------ reading

    @property
    def messages(self) -> list[Message]:
        """The messages as they are now; changing what you got changes nothing."""
        messages: list[Message] = self.to_json()["messages"]
        return messages

    @property
    def meta(self) -> dict[str, JSON]:
        """What is beside the messages: `busy`, `model`, `thinkingLevel`, `queue`, `usage`,
        `title`, `status`, `widgets`, `editorText`, `compacting`, `stats`."""
        meta: dict[str, JSON] = loads(dumps(self._meta))
        return meta

    @property
    def busy(self) -> bool:
        """Whether a run is going on.

        pi says `agent_settled` when it is idle; for older ones a run ends with its `agent_end`.
        """
        return self._meta["busy"] is True

    @property
    def seq(self) -> int:
        """How many operations there have been. `present` names the same number, so whoever holds
        operations in a queue knows which of them a present already contains."""
        return self._seq

    def mark(self) -> int:
        """A point in time, for `run_summary` and `clear`."""
        return self._seq

    def present(self) -> bytes:
        """All of it as JSON: `{"seq", "messages", "meta"}`. Safe from any thread."""
        with self._lock:
            self._join()
            return dumps({"seq": self._seq, "messages": self._messages, "meta": self._meta})

    def to_json(self) -> dict[str, JSON]:
        """`present`, decoded afresh."""
        present: dict[str, JSON] = loads(self.present())
        return present

    def run_summary(self, since: int = 0) -> RunSummary:
        """What happened since a `mark`, so far. Safe from any thread."""
        with self._lock:
            self._join()
            return _summarise(self._messages[bisect_left(self._born, since) :])

    # ------------------------------------------------------------ changing

    def apply(self, event: rpc.Event) -> list[Op]:
        """Fold one event in. Unknown ones change nothing."""
        with self._lock:
            if type(event) is rpc.ContentDelta:
                stream = self._streams.get(event.index)
                if stream is not None and stream.kind == event.kind:
                    return self._append(stream, event.delta)
            return self._told(self._fold(event))

    def apply_response(self, response: rpc.Response) -> list[Op]:
        """Fold in what answers tell and events do not: model, level, statistics, `bash`."""
        with self._lock:
            return self._told(self._fold_response(response))

    def apply_ui(self, request: rpc.UiRequest) -> list[Op]:
        """Fold in a UI request that only tells something (`rpc.TELL_METHODS`)."""
        with self._lock:
            return self._told(self._fold_ui(request))

    def note(self, level: str, text: str) -> list[Op]:
        """Add a notice: `info`, `warning` or `error`."""
        with self._lock:
            return self._told(self._note(level, text))

    def start_bash(self, id_: JSON, command: str) -> list[Op]:
        """The host has asked for an rpc `bash` run; its output and end come by themselves."""
        with self._lock:
            return self._told([self._open_bash(_key(id_), command)])

    def load(self, messages: list[JSON]) -> list[Op]:
        """Start over with the messages of a stored session (`get_messages`)."""
        with self._lock:
            self._reset()
            for message in messages:
                if isinstance(message, dict):
                    self._load(message)
            self._close_cards(0, "aborted")
            ops = self._trim()
            retold = [self._message_op(i) for i in range(len(self._messages))]
            return self._told([("clear",), *(op for op in ops if op[0] == "meta"), *retold])

    def clear(self, since: int | None = None) -> list[Op]:
        """Drop the conversation, its queue, statuses and widgets.

        A new session's first notices and statuses come before the answer to `new_session`; what
        came since the mark `since` stays, if it is a notice, a status or a widget.
        """
        with self._lock:
            mark = self._seq if since is None else since
            kept = [
                message
                for born, message in zip(self._born, self._messages, strict=True)
                if born >= mark and message["role"] == "notice"
            ]
            self._reset()
            for message in kept:
                self._born.append(self._seq)
                self._messages.append(message)
                self._weight += sum(map(weight, message["parts"]))
            ops: list[Op] = [("clear",), *(self._message_op(i) for i in range(len(kept)))]
            stale = [key for key, set_at in self._ambient.items() if set_at < mark]
            changed: dict[str, JSON] = {"queue": _no_queue(), "usage": None, "stats": None}
            for kind, name in stale:
                del self._ambient[kind, name]
                changed[kind] = {k: v for k, v in self._meta[kind].items() if k != name}
                self._meta[kind] = changed[kind]
            if ("title", "") not in self._ambient:
                changed["title"] = ""
            return self._told(ops + self._set_meta(busy=False, compacting=None, **changed))

    def end(self, reason: str, level: str = "error") -> list[Op]:
        """The agent is gone: streaming ends, open tool calls fail, the queue is lost."""
        with self._lock:
            ops: list[Op] = []
            was_busy = self._meta["busy"]
            told = False
            if self._current is not None:
                message = self._messages[self._current]
                message["status"], message["error"] = "error", reason
                ops.append(self._close_current())
                told = True
            ops += self._close_cards(0, "error", reason)
            for stream in list(self._bash.values()):
                ops.append(self._close_bash(stream, "error"))
            self._bash.clear()
            ops += self._note(level, reason, error=reason if was_busy and not told else None)
            for kind in ("status", "widgets"):
                ops += self._set_meta(**{kind: {}})
            self._ambient.clear()
            return self._told(ops + self._set_meta(busy=False, compacting=None, queue=_no_queue()))

    # ------------------------------------------------------------ events

    def _fold(self, event: rpc.Event) -> list[Op]:
        match event:
            case rpc.ContentStart():
                return self._start_content(event)
            case rpc.ContentDelta(kind, index, delta):
                ops = self._start_content(rpc.ContentStart(kind, index))
                return ops + self._append(self._streams[index], delta, count=False)
            case rpc.ContentEnd():
                return self._end_content(event)
            case rpc.ContentError(reason, error):
                return self._break_off(reason, error)
            case rpc.MessageStart(message):
                return self._start_message(message)
            case rpc.MessageEnd(message):
                return self._end_message(message)
            case rpc.ToolStart(id_, name, args):
                return self._start_tool(id_, name, args)
            case rpc.ToolUpdate(id_, name, args, partial):
                return self._update_tool(id_, name, args, partial)
            case rpc.ToolEnd(id_, name, result, is_error, duration):
                return self._end_tool(id_, name, result, is_error, duration)
            case rpc.AgentStart():
                if self._retry is None:
                    self._run_start = len(self._messages)
                return self._set_meta(busy=True)
            case rpc.AgentEnd(messages, will_retry):
                return self._end_run(messages, will_retry)
            case rpc.AgentSettled(aborted):
                self._settles = True
                return self._settle(aborted)
            case rpc.QueueUpdate(steering, follow_up):
                return self._set_meta(queue={"steering": steering, "followUp": follow_up})
            case rpc.RetryStart(attempt, most, _, error):
                return self._start_retry(attempt, most, error)
            case rpc.RetryEnd(success, attempt, error):
                return self._end_retry(success, attempt, error)
            case rpc.CompactionStart(reason):
                return self._set_meta(compacting=reason or "manual")
            case rpc.CompactionEnd():
                return self._end_compaction(event)
            case rpc.BashUpdate(id_, delta):
                return self._update_bash(_key(id_), delta)
            case rpc.SessionInfoChanged(name):
                return self._set_title(name)
            case rpc.ThinkingLevelChanged(level):
                return self._set_meta(thinkingLevel=level)
            case rpc.ExtensionError(path, about, error):
                where = f"{path} ({about})" if about else path
                return self._note("error", f"An extension failed: {where}: {error}")
            case rpc.OtherEvent("summarization_retry_scheduled", fields):
                trial = f"{fields.get('attempt')} of {fields.get('maxAttempts')}"
                why = fields.get("errorMessage")
                return self._note("warning", f"Summarizing failed: {why}. Retry {trial}.")
        return []

    def _start_message(self, message: rpc.Fields) -> list[Op]:
        role = message.get("role")
        if role not in ("user", "assistant", "custom"):
            return []
        if role == "custom" and message.get("display") is False:
            return []
        ops = [] if self._current is None else [self._close_current()]
        content = message.get("content")
        if role == "assistant":
            i = self._add("assistant", [], "streaming", message)
            self._fill(i, content)
        else:
            i = self._add(role, parts_of(content), "done", message)
        self._current = i
        return [*ops, self._message_op(i)]

    def _end_message(self, message: rpc.Fields) -> list[Op]:
        role = message.get("role")
        if role == "toolResult":
            return self._take_tool_result(message)
        if role == "assistant":
            return self._end_assistant(message)
        if role not in ("user", "custom") or (role == "custom" and message.get("display") is False):
            return []
        parts = parts_of(message.get("content"))
        current, self._current = self._current, None
        if current is not None and self._messages[current]["role"] == role:
            if self._messages[current]["parts"] == parts:
                return []
            self._replace_parts(current, parts)
            return [self._message_op(current)]
        ops = [] if current is None else [self._close_current(current)]
        return [*ops, self._message_op(self._add(role, parts, "done", message))]

    def _end_assistant(self, message: rpc.Fields) -> list[Op]:
        ops: list[Op] = []
        i = self._current
        if i is None or self._messages[i]["role"] != "assistant":
            ops += [] if i is None else [self._close_current()]
            i = self._add("assistant", [], "streaming", message)
        usage = self._finish_assistant(i, message)
        self._current = None
        self._streams.clear()
        return [*ops, self._message_op(i), *self._count_usage(message, usage)]

    def _finish_assistant(self, i: int, message: rpc.Fields) -> dict[str, float] | None:
        """Give an assistant's message its final form; what it used is returned."""
        target = self._messages[i]
        content = message.get("content")
        if isinstance(content, str | list):
            self._fill(i, content)
        reason = message.get("stopReason")
        target["status"] = reason if reason in ("error", "aborted") else "done"
        if reason == "error":
            target["error"] = _text(message.get("errorMessage")) or "the model failed"
        if reason == "length":
            part = notice_part("warning", "The answer was cut off: the model's length limit.")
            target["parts"].append(part)
        if isinstance(message.get("model"), str):
            target["model"] = message["model"]
        usage = compact_usage(message.get("usage"))
        if usage:
            target["usage"] = usage
        return usage

    def _count_usage(self, message: rpc.Fields, usage: dict[str, float] | None) -> list[Op]:
        changed: dict[str, JSON] = {}
        if name := _model_name(message.get("provider"), message.get("model")):
            changed["model"] = name
        if usage:
            before = self._meta["usage"] or {}
            total = {key: before.get(key, 0) + value for key, value in usage.items()}
            changed["usage"] = {**before, **total, "context": usage.get("totalTokens", 0)}
        return self._set_meta(**changed)

    def _fill(self, i: int, content: JSON) -> None:
        """Make the parts of an assistant's message from its content, keeping its tool cards."""
        message = self._messages[i]
        cards = {part["id"]: part for part in message["parts"] if part["type"] == "tool"}
        parts: list[Part] = []
        for item in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match item:
                case {"type": "text", "text": str(text)} if text:
                    parts.append(text_part(text))
                case {"type": "thinking", "thinking": str(text)} if text:
                    parts.append(thinking_part(text, done=True))
                case {"type": "toolCall", "id": str(id_), "name": str(name)}:
                    part = cards.pop(id_, None) or tool_part(id_, name)
                    part["name"] = name
                    set_args(part, item.get("arguments"))
                    parts.append(part)
                case {"type": "image"}:
                    parts.append(image_part(item))
        self._replace_parts(i, parts + list(cards.values()))

    def _close_current(self, i: int | None = None) -> Op:
        """End the message that is being written as it stands; its end was never told."""
        i = self._current if i is None else i
        assert i is not None
        message = self._messages[i]
        self._join()
        if message["status"] == "streaming":
            message["status"] = "done"
        for part in message["parts"]:
            if part["type"] == "thinking":
                part["done"] = True
        self._current = None
        self._streams.clear()
        return self._message_op(i)

    # ------------------------------------------------------------ content

    def _start_content(self, event: rpc.ContentStart) -> list[Op]:
        stream = self._streams.get(event.index)
        if stream is not None and stream.kind == event.kind:
            return []
        ops: list[Op] = []
        i = self._current
        if i is None or self._messages[i]["role"] != "assistant":
            ops += [] if i is None else [self._close_current()]
            i = self._current = self._add("assistant", [], "streaming", {})
            ops.append(self._message_op(i))
        if event.kind != "thinking":
            ops += self._collapse_thinking(i)
        match event.kind:
            case "text":
                part, name, room = text_part(), "text", TEXT_LIMIT
            case "thinking":
                part, name, room = thinking_part(), "text", TEXT_LIMIT
            case _:
                part, name, room = tool_part(event.id, event.name), "argsText", OUTPUT_LIMIT
                part["argsText"] = ""
        p = self._add_part(i, part)
        self._streams[event.index] = _Stream(i, p, event.kind, name, room)
        return [*ops, self._part_op(i, p)]

    def _collapse_thinking(self, i: int) -> list[Op]:
        """Thinking is over when something else begins: with some providers its own end is told
        only after the answer."""
        ops: list[Op] = []
        for p, part in enumerate(self._messages[i]["parts"]):
            if part["type"] == "thinking" and not part["done"]:
                self._join()
                part["done"] = True
                ops.append(self._part_op(i, p))
        return ops

    def _append(self, stream: _Stream, delta: str, *, count: bool = True) -> list[Op]:
        size = len(delta)
        if size >= stream.room:
            if stream.room <= 0:
                return []
            delta = f"{delta[: stream.room]}\n{CUT}"
            stream.room = 0
            self._messages[stream.i]["parts"][stream.p]["cut"] = True
        else:
            stream.room -= size
        stream.pieces.append(delta)
        self._weight += size
        op = ("append", stream.i, stream.p, stream.field, delta)
        if not count:
            return [op]
        if self._weight > TOTAL_LIMIT:
            return self._told([op])
        self._seq += 1
        return [op]

    def _end_content(self, event: rpc.ContentEnd) -> list[Op]:
        ops: list[Op] = []
        stream = self._streams.get(event.index)
        if stream is None or stream.kind != event.kind:
            if self._current is None:
                return []
            ops = self._start_content(rpc.ContentStart(event.kind, event.index))
            stream = self._streams[event.index]
        i, p = stream.i, stream.p
        self._join()
        part = self._messages[i]["parts"][p]
        before = dict(part)
        self._weight -= weight(part)
        if event.kind == "toolcall":
            call = event.tool_call or {}
            part["id"] = _text(call.get("id")) or part["id"]
            part["name"] = _text(call.get("name")) or part["name"]
            set_args(part, call.get("arguments"))
            self._cards[part["id"]] = (i, p)
        else:
            if event.content and event.content != part["text"] and "cut" not in part:
                part["text"] = cut(event.content, TEXT_LIMIT)
            if event.kind == "thinking":
                part["done"] = True
        self._weight += weight(part)
        return ops if part == before else [*ops, self._part_op(i, p)]

    def _break_off(self, reason: str, error: str) -> list[Op]:
        if self._current is None or self._messages[self._current]["role"] != "assistant":
            return []
        message = self._messages[self._current]
        if reason == "aborted":
            message["status"] = "aborted"
        else:
            message["status"], message["error"] = "error", error or "the model failed"
        # It stays current: pi tells its end, too.
        self._join()
        return [self._message_op(self._current)]

    # ------------------------------------------------------------ tools

    def _start_tool(self, id_: str, name: str, args: JSON) -> list[Op]:
        ops, i, p = self._card(id_, name)
        part = self._messages[i]["parts"][p]
        self._weight -= weight(part)
        part["status"] = "running"
        part["name"] = name or part["name"]
        if args is not None:
            set_args(part, args)
        self._weight += weight(part)
        return [*ops, self._part_op(i, p)]

    def _update_tool(self, id_: str, name: str, args: JSON, partial: JSON) -> list[Op]:
        ops: list[Op] = []
        where = self._cards.get(id_)
        if where is None:
            ops = self._start_tool(id_, name, args)
            where = self._cards[id_]
        i, p = where
        part = self._messages[i]["parts"][p]
        if part["status"] in _ENDED:
            return ops
        before = dict(part)
        self._weight -= weight(part)
        part["status"] = "running"
        set_result(part, partial)
        self._weight += weight(part)
        return ops + self._output_ops(i, p, before)

    def _output_ops(self, i: int, p: int, before: Part) -> list[Op]:
        """The least that says how a card's output has changed: mostly it has only grown."""
        part = self._messages[i]["parts"][p]
        if part == before:
            return []
        old, new = before["output"], part["output"]
        if {**before, "output": new} == part and new.startswith(old):
            return [("append", i, p, "output", new[len(old) :])]
        return [self._part_op(i, p)]

    def _end_tool(
        self, id_: str, name: str, result: JSON, is_error: bool, duration: float | None
    ) -> list[Op]:
        ops: list[Op] = []
        where = self._cards.get(id_)
        if where is None:
            ops, *where_ = self._card(id_, name)
            where = (where_[0], where_[1])
        i, p = where
        part = self._messages[i]["parts"][p]
        self._weight -= weight(part)
        part["status"] = "error" if is_error else "done"
        set_result(part, result)
        if is_error and not part["output"]:
            part["output"] = "Tool error"
        if duration is not None:
            part["durationMs"] = duration
        self._weight += weight(part)
        return [*ops, self._part_op(i, p)]

    def _take_tool_result(self, message: rpc.Fields) -> list[Op]:
        """A `toolResult` message says once more how a call ended, or it is all that says so."""
        id_ = _text(message.get("toolCallId"))
        where = self._cards.get(id_)
        if where is not None and self._messages[where[0]]["parts"][where[1]]["status"] in _ENDED:
            return []
        duration = message.get("durationMs")
        return self._end_tool(
            id_,
            _text(message.get("toolName")),
            message,
            message.get("isError") is True,
            duration if isinstance(duration, int | float) else None,
        )

    def _card(self, id_: str, name: str) -> tuple[list[Op], int, int]:
        """The card of a tool call that is about to run; made if its call was never streamed.

        Providers may give every call of a session the same id (`call_0`), so a card that has
        ended is another call's.
        """
        where = self._cards.get(id_)
        if where is not None and self._messages[where[0]]["parts"][where[1]]["status"] == "pending":
            return [], *where
        ops: list[Op] = []
        i = self._last_assistant()
        if i is None:
            i = self._add("assistant", [], "done", {})
            ops.append(self._message_op(i))
        p = self._add_part(i, tool_part(id_, name))
        return ops, i, p

    def _last_assistant(self) -> int | None:
        """The message that a call belongs to: this run's last, if it is the assistant's."""
        for i in range(len(self._messages) - 1, self._run_start - 1, -1):
            role = self._messages[i]["role"]
            if role == "assistant":
                return i
            if role == "user":
                return None
        return None

    def _close_cards(self, start: int, status: str, reason: str = "") -> list[Op]:
        """Nothing will be heard of open tool calls any more."""
        ops: list[Op] = []
        for i, p in sorted(set(self._cards.values())):
            part = self._messages[i]["parts"][p]
            if i >= start and part["status"] in ("pending", "running"):
                part["status"] = status
                part.pop("argsText", None)
                if reason and not part["output"]:
                    part["output"] = reason
                ops.append(self._part_op(i, p))
        return ops

    # ------------------------------------------------------------ runs

    def _end_run(self, messages: list[JSON], will_retry: bool) -> list[Op]:
        ops: list[Op] = []
        if self._current is not None:
            last = next((m for m in reversed(messages) if _role(m) == "assistant"), None)
            if last is not None and self._messages[self._current]["role"] == "assistant":
                ops += self._end_assistant(last)
            else:
                ops.append(self._close_current())
        if will_retry:
            return ops + self._excuse("")
        ops += self._close_run()
        return ops if self._settles else ops + self._set_meta(busy=False)

    def _settle(self, aborted: bool) -> list[Op]:
        ops = [] if self._current is None else [self._close_current()]
        return ops + self._close_run(aborted=aborted) + self._set_meta(busy=False)

    def _close_run(self, *, aborted: bool = False) -> list[Op]:
        self._retry = None
        last = self._last_assistant()
        aborted = aborted or (last is not None and self._messages[last]["status"] == "aborted")
        ops = self._close_cards(self._run_start, "aborted")
        if aborted:
            # pi reports a call that it killed as one that failed ("…Command aborted").
            for i, p in sorted(set(self._cards.values())):
                part = self._messages[i]["parts"][p]
                stopped = part["status"] == "error" and "aborted" in part["output"][-200:].lower()
                if i >= self._run_start and stopped:
                    part["status"] = "aborted"
                    ops.append(self._part_op(i, p))
        return ops

    def _excuse(self, outlook: str) -> list[Op]:
        """Turn the attempt that failed and will be made again into a notice."""
        i = self._last_assistant()
        if i is None or self._messages[i]["status"] != "error":
            return []
        message = self._messages[i]
        text = f"The answer failed: {message.pop('error')}. {outlook}".strip()
        message.pop("usage", None)
        message.update(role="notice", status="done")
        self._replace_parts(i, [notice_part("warning", text)])
        self._retry = i
        return [self._message_op(i)]

    def _start_retry(self, attempt: int, most: int, error: str) -> list[Op]:
        text = f"The answer failed: {error}. Retry {attempt} of {most}."
        ops = self._excuse("")
        if self._retry is None:
            ops = self._note("warning", text)
            self._retry = len(self._messages) - 1
            return ops
        self._replace_parts(self._retry, [notice_part("warning", text)])
        return [self._message_op(self._retry)]

    def _end_retry(self, success: bool, attempt: int, error: str) -> list[Op]:
        self._retry = None
        last = self._last_assistant()
        if success or (last is not None and self._messages[last]["status"] == "error"):
            return []
        text = f"Gave up after attempt {attempt}: {error or 'the model failed'}"
        return self._note("error", text, error=error or text)

    def _end_compaction(self, event: rpc.CompactionEnd) -> list[Op]:
        ops = self._set_meta(compacting=None)
        result = event.result if isinstance(event.result, dict) else {}
        if event.will_retry:
            ops += self._excuse("The conversation was summarized to make room.")
        if summary := _text(result.get("summary")):
            return [*ops, self._message_op(self._add("summary", [text_part(summary)], "done", {}))]
        if event.aborted:
            return ops + self._note("info", "Compaction was cancelled.")
        if event.error:
            return ops + self._note("error", event.error)
        return ops

    # ------------------------------------------------------------ answers, bash, UI

    def _fold_response(self, response: rpc.Response) -> list[Op]:
        data = response.data if isinstance(response.data, dict) else {}
        if response.command == "bash":
            return self._end_bash(_key(response.id), response)
        if not response.success:
            return []
        match response.command:
            case "prompt":
                self._settles = self._settles or "disposition" in data
            case "get_state":
                changed = _model_meta(data)
                if name := _text(data.get("sessionName")):
                    return self._set_meta(**changed) + self._set_title(name)
                return self._set_meta(**changed)
            case "set_model":
                return self._set_meta(**_model_meta({"model": data}))
            case "cycle_model":
                return self._set_meta(**_model_meta(data))
            case "cycle_thinking_level":
                return self._set_meta(**_model_meta({"thinkingLevel": data.get("level")}))
            case "get_session_stats":
                keys = ("contextUsage", "tokens", "cost")
                return self._set_meta(stats={key: data[key] for key in keys if key in data})
        return []

    def _open_bash(self, key: str, command: str) -> Op:
        part = tool_part(key, "bash")
        part.update(args={"command": cut(command, OUTPUT_LIMIT)}, status="running")
        i = self._add("bash", [part], "streaming", {})
        self._bash[key] = _Stream(i, 0, "bash", "output", OUTPUT_LIMIT)
        return self._message_op(i)

    def _update_bash(self, key: str, delta: str) -> list[Op]:
        ops = [] if key in self._bash else [self._open_bash(key, "")]
        return ops + self._append(self._bash[key], delta, count=False)

    def _end_bash(self, key: str, response: rpc.Response) -> list[Op]:
        stream = self._bash.pop(key, None)
        if stream is None:
            return []
        if not response.success:
            self._messages[stream.i]["error"] = response.error
            return [self._close_bash(stream, "error")]
        data = response.data if isinstance(response.data, dict) else {}
        return [self._close_bash(stream, _bash_status(data), data)]

    def _close_bash(self, stream: _Stream, status: str, data: rpc.Fields | None = None) -> Op:
        self._join_stream(stream)
        message = self._messages[stream.i]
        part = message["parts"][stream.p]
        if data is not None:
            self._weight -= weight(part)
            _set_bash_result(part, data)
            self._weight += weight(part)
        message["status"] = part["status"] = status
        return self._message_op(stream.i)

    def _fold_ui(self, request: rpc.UiRequest) -> list[Op]:
        fields = request.fields
        match request.method:
            case "notify":
                level = fields.get("notifyType")
                level = level if level in ("info", "warning", "error") else "info"
                return self._note(level, _text(fields.get("message")))
            case "setStatus":
                text = fields.get("statusText")
                return self._set_ambient("status", _text(fields.get("statusKey")), text or None)
            case "setWidget":
                lines = fields.get("widgetLines")
                widget = {
                    "lines": [str(line) for line in lines] if isinstance(lines, list) else [],
                    "placement": _text(fields.get("widgetPlacement")) or "aboveEditor",
                }
                value = widget if isinstance(lines, list) else None
                return self._set_ambient("widgets", _text(fields.get("widgetKey")), value)
            case "setTitle":
                return self._set_title(_text(fields.get("title")))
            case "set_editor_text":
                times = (self._meta["editorText"] or {}).get("n", 0) + 1
                text = cut(_text(fields.get("text")), OUTPUT_LIMIT)
                return self._set_meta(editorText={"n": times, "text": text})
        return []

    def _set_ambient(self, kind: str, name: str, value: JSON) -> list[Op]:
        entries = {key: entry for key, entry in self._meta[kind].items() if key != name}
        self._ambient.pop((kind, name), None)
        if value is not None:
            entries[name] = value
            self._ambient[kind, name] = self._seq
        while len(entries) > _AMBIENT_LIMIT:
            oldest = next(iter(entries))
            del entries[oldest], self._ambient[kind, oldest]
        return self._set_meta(**{kind: entries})

    def _set_title(self, title: str) -> list[Op]:
        self._ambient["title", ""] = self._seq
        return self._set_meta(title=cut(title, 1000))

    def _note(self, level: str, text: str, error: str | None = None) -> list[Op]:
        part = notice_part(level, text)
        last = self._messages[-1] if self._messages else None
        if last is not None and last["role"] == "notice" and error is None:
            # An agent that says the same in a loop gets one line with a count.
            [before] = last["parts"]
            if (before["level"], before["text"]) == (level, part["text"]):
                before["count"] = before.get("count", 1) + 1
                return [self._part_op(len(self._messages) - 1, 0)]
        i = self._add("notice", [part], "done", {})
        if error is not None:
            self._messages[i]["error"] = error
        return [self._message_op(i)]

    # ------------------------------------------------------------ stored sessions

    def _load(self, message: rpc.Fields) -> None:
        match message.get("role"):
            case "user" | "custom" as role:
                if message.get("display") is not False:
                    self._add(role, parts_of(message.get("content")), "done", message)
            case "assistant":
                i = self._add("assistant", [], "done", message)
                usage = self._finish_assistant(i, message)
                self._count_usage(message, usage)
            case "toolResult":
                self._take_tool_result(message)
            case "bashExecution":
                part = tool_part("", "bash")
                status = _bash_status(message)
                part.update(args={"command": _text(message.get("command"))}, status=status)
                _set_bash_result(part, message)
                self._add("bash", [part], status, message)
            case "compactionSummary" | "branchSummary":
                self._add("summary", [text_part(_text(message.get("summary")))], "done", message)

    def _reset(self) -> None:
        self._messages, self._born = [], []
        self._weight = self._shed_to = self._run_start = 0
        self._current = self._retry = None
        self._streams.clear()
        self._cards.clear()
        self._bash.clear()
        self._meta["usage"] = None

    # ------------------------------------------------------------ keeping the books

    def _told(self, ops: list[Op]) -> list[Op]:
        """Count what is about to be told, after keeping the whole in bounds."""
        if self._weight > TOTAL_LIMIT:
            ops += self._relieve()
        if len(self._messages) > MESSAGE_LIMIT:
            ops += self._trim()
        self._seq += len(ops)
        return ops

    def _add(self, role: str, parts: list[Part], status: str, source: rpc.Fields) -> int:
        self._count += 1
        message: Message = {"id": f"m{self._count}", "role": role, "parts": [], "status": status}
        if role == "custom" and isinstance(source.get("customType"), str):
            message["customType"] = source["customType"]
        when = source.get("timestamp")
        if isinstance(when, int | float) and when > 0:
            message["time"] = when
        self._messages.append(message)
        self._born.append(self._seq)
        self._replace_parts(len(self._messages) - 1, parts)
        return len(self._messages) - 1

    def _add_part(self, i: int, part: Part) -> int:
        parts = self._messages[i]["parts"]
        parts.append(part)
        self._weight += weight(part)
        if part["type"] == "tool" and part["id"]:
            self._cards[part["id"]] = (i, len(parts) - 1)
        return len(parts) - 1

    def _replace_parts(self, i: int, parts: list[Part]) -> None:
        message = self._messages[i]
        self._weight -= sum(map(weight, message["parts"]))
        if i == self._current:
            self._weight -= sum(len(piece) for s in self._streams.values() for piece in s.pieces)
            self._streams.clear()
        message["parts"] = parts
        for p, part in enumerate(parts):
            self._weight += weight(part)
            if part["type"] == "tool" and part["id"] and message["role"] == "assistant":
                self._cards[part["id"]] = (i, p)

    def _join(self) -> None:
        for stream in self._streams.values():
            self._join_stream(stream)
        for stream in self._bash.values():
            self._join_stream(stream)

    def _join_stream(self, stream: _Stream) -> None:
        if stream.pieces:
            part = self._messages[stream.i]["parts"][stream.p]
            part[stream.field] = part[stream.field] + "".join(stream.pieces)
            stream.pieces.clear()

    def _message_op(self, i: int) -> Op:
        message = self._messages[i]
        return ("message", i, {**message, "parts": [dict(part) for part in message["parts"]]})

    def _part_op(self, i: int, p: int) -> Op:
        return ("part", i, p, dict(self._messages[i]["parts"][p]))

    def _set_meta(self, **fields: JSON) -> list[Op]:
        changed = {key: value for key, value in fields.items() if self._meta.get(key) != value}
        self._meta.update(changed)
        return [("meta", changed)] if changed else []

    def _relieve(self) -> list[Op]:
        """Cut the oldest messages to stubs until a quarter of the room is free again."""
        ops: list[Op] = []
        busy = {self._current, *(stream.i for stream in self._bash.values())}
        while self._weight > TOTAL_LIMIT * 3 // 4 and self._shed_to < len(self._messages) - 1:
            i = self._shed_to
            self._shed_to += 1
            if i in busy:
                continue
            for p, part in enumerate(self._messages[i]["parts"]):
                before = weight(part)
                if part.get("status") not in ("pending", "running") and shed(part):
                    self._weight += weight(part) - before
                    ops.append(self._part_op(i, p))
        return ops

    def _trim(self) -> list[Op]:
        """Drop the oldest messages if there are too many, and tell the rest anew."""
        if len(self._messages) <= MESSAGE_LIMIT:
            return []
        self._join()
        n = len(self._messages) - MESSAGE_LIMIT * 4 // 5
        for message in self._messages[:n]:
            self._weight -= sum(map(weight, message["parts"]))
        del self._messages[:n], self._born[:n]
        self._cards = {id_: (i - n, p) for id_, (i, p) in self._cards.items() if i >= n}
        self._bash = {key: stream for key, stream in self._bash.items() if stream.i >= n}
        for stream in (*self._streams.values(), *self._bash.values()):
            stream.i -= n
        self._shed_to = max(0, self._shed_to - n)
        self._run_start = max(0, self._run_start - n)
        self._current = None if self._current is None else self._current - n
        self._retry = None if self._retry is None or self._retry < n else self._retry - n
        return [("clear",), *(self._message_op(i) for i in range(len(self._messages)))]


def _fresh_meta() -> dict[str, JSON]:
    return {
        "busy": False,
        "model": "",
        "thinkingLevel": "",
        "queue": _no_queue(),
        "usage": None,
        "stats": None,
        "title": "",
        "status": {},
        "widgets": {},
        "editorText": None,
        "compacting": None,
    }


def _no_queue() -> dict[str, JSON]:
    return {"steering": [], "followUp": []}


def _summarise(messages: Iterable[Message]) -> RunSummary:
    text = ""
    calls: list[ToolCall] = []
    usage: dict[str, float] = {}
    error: str | None = None
    aborted = False
    for message in messages:
        if message["role"] == "notice" and message.get("error"):
            error = message["error"]
        if message["role"] != "assistant":
            continue
        error = message.get("error")
        aborted = message["status"] == "aborted"
        texts = [part["text"] for part in message["parts"] if part["type"] == "text"]
        text = "".join(texts) or text
        calls += [
            ToolCall(part["name"], part["args"], part["status"], part["output"])
            for part in message["parts"]
            if part["type"] == "tool"
        ]
        for key, value in (message.get("usage") or {}).items():
            usage[key] = usage.get(key, 0) + value
    return RunSummary(text, tuple(calls), usage or None, error, aborted)


def _set_bash_result(part: Part, data: rpc.Fields) -> None:
    output = _text(data.get("output"))
    part["output"] = cut(output, OUTPUT_LIMIT)
    if data.get("truncated") is True:
        part["cut"] = True
        part["output"] = f"{CUT}: the beginning\n{part['output']}"
    if isinstance(data.get("exitCode"), int):
        part["details"] = {"exitCode": data["exitCode"]}


def _bash_status(data: rpc.Fields) -> str:
    if data.get("cancelled") is True:
        return "aborted"
    return "error" if data.get("exitCode") else "done"


def _model_meta(data: rpc.Fields) -> dict[str, JSON]:
    """The meta fields that a state tells. pi's placeholder for "no model" is an empty name."""
    out: dict[str, JSON] = {}
    model = data.get("model")
    if isinstance(model, dict):
        out["model"] = _model_name(model.get("provider"), model.get("id"))
    elif isinstance(model, str):
        out["model"] = model
    if isinstance(data.get("thinkingLevel"), str):
        out["thinkingLevel"] = data["thinkingLevel"]
    return out


def _model_name(provider: JSON, model: JSON) -> str:
    if not isinstance(model, str) or (provider == model == "unknown"):
        return ""
    return (
        model if not isinstance(provider, str) or provider in ("", model) else f"{provider}/{model}"
    )


def _key(id_: JSON) -> str:
    return id_ if isinstance(id_, str) else dumps(id_).decode()


def _role(message: JSON) -> JSON:
    return message.get("role") if isinstance(message, dict) else None


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

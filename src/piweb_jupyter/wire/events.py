"""pi's events: what happens in its conversation, as it happens.

Facts from driving `pi --mode rpc` 1.6.0 and pi-web's runner. `decode_event` and `encode_event` are
each other's inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from ..errors import ProtocolError
from .json import JSON, Fields, dumps
from .record import Record, field

__all__ = [
    "AgentEnd",
    "AgentSettled",
    "AgentStart",
    "BashUpdate",
    "CompactionEnd",
    "CompactionStart",
    "ContentDelta",
    "ContentEnd",
    "ContentError",
    "ContentKind",
    "ContentStart",
    "Event",
    "ExtensionError",
    "MessageEnd",
    "MessageStart",
    "OtherEvent",
    "QueueUpdate",
    "RetryEnd",
    "RetryStart",
    "SessionInfoChanged",
    "ThinkingLevelChanged",
    "ToolEnd",
    "ToolStart",
    "ToolUpdate",
    "TurnEnd",
    "TurnStart",
    "decode_event",
    "encode_event",
]

ContentKind: TypeAlias = Literal["text", "thinking", "toolcall"]


class AgentStart(Record):
    """A run begins; the agent is busy from here."""


class AgentEnd(Record):
    """A run ends; `will_retry` says that another one follows at once."""

    messages: list[JSON] = field(default_factory=list)
    will_retry: bool = False


class AgentSettled(Record):
    """Nothing more will happen by itself: pi's only "idle now" (since 0.80.4)."""

    aborted: bool = False


class TurnStart(Record):
    """One model request and its tools begin."""


class TurnEnd(Record):
    message: Fields
    tool_results: list[JSON] = field(default_factory=list)


class MessageStart(Record):
    """A message begins. `message["role"]`: system, user, assistant, toolResult, custom, …"""

    message: Fields


class MessageEnd(Record):
    """A message is complete; this is its final form."""

    message: Fields


class ContentStart(Record):
    """A block of the assistant's message begins. `id` and `name` belong to tool calls."""

    kind: ContentKind
    index: int
    id: str = ""
    name: str = ""


class ContentDelta(Record):
    kind: ContentKind
    index: int
    delta: str


class ContentEnd(Record):
    """A block is complete: its whole text, or its tool call `{id, name, arguments}`."""

    kind: ContentKind
    index: int
    content: str | None = None
    tool_call: Fields | None = None


class ContentError(Record):
    """The stream of the message broke off. `reason`: `error` or `aborted`."""

    reason: str
    error: str


class ToolStart(Record):
    id: str
    name: str
    args: JSON = None


class ToolUpdate(Record):
    """The tool's output so far: it replaces what came before."""

    id: str
    name: str
    args: JSON
    partial: JSON


class ToolEnd(Record):
    """`result` is `{content: [...], details?}`. `duration_ms` is absent when the tool never ran."""

    id: str
    name: str
    result: JSON
    is_error: bool
    duration_ms: float | None = None


class QueueUpdate(Record):
    """Both queues, whole."""

    steering: list[str]
    follow_up: list[str]


class RetryStart(Record):
    attempt: int
    max_attempts: int
    delay_ms: float
    error: str


class RetryEnd(Record):
    success: bool
    attempt: int
    final_error: str = ""


class CompactionStart(Record):
    reason: str


class CompactionEnd(Record):
    reason: str
    result: JSON = None
    aborted: bool = False
    will_retry: bool = False
    error: str = ""


class BashUpdate(Record):
    """Output of an rpc `bash` command; it is appended."""

    id: JSON
    delta: str


class SessionInfoChanged(Record):
    name: str


class ThinkingLevelChanged(Record):
    level: str


class ExtensionError(Record):
    path: str
    event: str
    error: str


class OtherEvent(Record):
    """An event of a type this version does not know; it is passed on, never an error."""

    type: str
    fields: Fields


Event: TypeAlias = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageEnd
    | ContentStart
    | ContentDelta
    | ContentEnd
    | ContentError
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | QueueUpdate
    | RetryStart
    | RetryEnd
    | CompactionStart
    | CompactionEnd
    | BashUpdate
    | SessionInfoChanged
    | ThinkingLevelChanged
    | ExtensionError
    | OtherEvent
)


def decode_event(fields: Fields, line: bytes) -> Event:
    """Read one event record.

    Raises:
        ProtocolError: If a known event lacks a field or has it in the wrong type.
    """
    kind = fields["type"]
    decoder = _EVENTS.get(kind)
    if decoder is None:
        return OtherEvent(kind, fields)
    try:
        return decoder(fields)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ProtocolError(f"a malformed `{kind}` event", line) from None


def _dict(value: JSON) -> Fields:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _str(value: JSON) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _opt_str(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _strings(value: JSON) -> list[str]:
    return [item for item in _list(value) if isinstance(item, str)]


def _number(value: JSON) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


_CONTENT: dict[str, tuple[ContentKind, str]] = {
    f"{kind}_{edge}": (kind, edge)
    for kind in ("text", "thinking", "toolcall")
    for edge in ("start", "delta", "end")
}


def _message_update(fields: Fields) -> Event:
    update = _dict(fields["assistantMessageEvent"])
    name = _str(update["type"])
    found = _CONTENT.get(name)
    if found is None:
        if name == "error":
            return ContentError(_opt_str(update.get("reason")) or "error", _error_text(update))
        return OtherEvent(f"message_update:{name}", fields)
    kind, edge = found
    index = update["contentIndex"]
    if type(index) is not int or index < 0:
        raise TypeError
    if edge == "delta":
        return ContentDelta(kind, index, _str(update["delta"]))
    if edge == "start":
        if kind != "toolcall":
            return ContentStart(kind, index)
        # pi 1.6 names the call here; pi 0.80 only inside `partial`, the message so far.
        call = _partial_block(update, index)
        return ContentStart(
            kind,
            index,
            _opt_str(update.get("id")) or _opt_str(call.get("id")),
            _opt_str(update.get("toolName")) or _opt_str(call.get("name")),
        )
    if kind == "toolcall":
        return ContentEnd(kind, index, tool_call=_dict(update["toolCall"]))
    return ContentEnd(kind, index, content=_opt_str(update.get("content")))


def _partial_block(update: Fields, index: int) -> Fields:
    partial = update.get("partial")
    content = partial.get("content") if isinstance(partial, dict) else None
    if isinstance(content, list) and index < len(content) and isinstance(content[index], dict):
        block: Fields = content[index]
        return block
    return {}


def _error_text(update: Fields) -> str:
    error = update.get("error")
    if isinstance(error, dict):
        error = error.get("errorMessage") or error.get("message")
    return error if isinstance(error, str) else ""


_EVENTS: dict[str, Callable[[Fields], Event]] = {
    "message_update": _message_update,
    "agent_start": lambda f: AgentStart(),
    "agent_end": lambda f: AgentEnd(_list(f.get("messages")), f.get("willRetry") is True),
    "agent_settled": lambda f: AgentSettled(f.get("aborted") is True),
    "turn_start": lambda f: TurnStart(),
    "turn_end": lambda f: TurnEnd(_dict(f.get("message") or {}), _list(f.get("toolResults"))),
    "message_start": lambda f: MessageStart(_dict(f["message"])),
    "message_end": lambda f: MessageEnd(_dict(f["message"])),
    "tool_execution_start": lambda f: ToolStart(
        _str(f["toolCallId"]), _str(f["toolName"]), f.get("args")
    ),
    "tool_execution_update": lambda f: ToolUpdate(
        _str(f["toolCallId"]), _opt_str(f.get("toolName")), f.get("args"), f.get("partialResult")
    ),
    "tool_execution_end": lambda f: ToolEnd(
        _str(f["toolCallId"]),
        _opt_str(f.get("toolName")),
        f.get("result"),
        f.get("isError") is True,
        f["durationMs"] if isinstance(f.get("durationMs"), int | float) else None,
    ),
    "queue_update": lambda f: QueueUpdate(_strings(f.get("steering")), _strings(f.get("followUp"))),
    "auto_retry_start": lambda f: RetryStart(
        int(_number(f.get("attempt"))),
        int(_number(f.get("maxAttempts"))),
        _number(f.get("delayMs")),
        _opt_str(f.get("errorMessage")),
    ),
    "auto_retry_end": lambda f: RetryEnd(
        f.get("success") is True, int(_number(f.get("attempt"))), _opt_str(f.get("finalError"))
    ),
    "compaction_start": lambda f: CompactionStart(_opt_str(f.get("reason"))),
    "compaction_end": lambda f: CompactionEnd(
        _opt_str(f.get("reason")),
        f.get("result"),
        f.get("aborted") is True,
        f.get("willRetry") is True,
        _opt_str(f.get("errorMessage")),
    ),
    "bash_execution_update": lambda f: BashUpdate(f.get("id"), _str(f["delta"])),
    "session_info_changed": lambda f: SessionInfoChanged(_opt_str(f.get("name"))),
    "thinking_level_changed": lambda f: ThinkingLevelChanged(_str(f["level"])),
    "extension_error": lambda f: ExtensionError(
        _opt_str(f.get("extensionPath")), _opt_str(f.get("event")), _opt_str(f.get("error"))
    ),
}


def encode_event(event: Event) -> bytes:
    """One event as a line, in pi 1.6's form."""
    return dumps(_event_fields(event)) + b"\n"


def _event_fields(event: Event) -> Fields:
    match event:
        case ContentDelta(kind, index, delta):
            return _update({"type": f"{kind}_delta", "contentIndex": index, "delta": delta})
        case ContentStart("toolcall", index, id_, name):
            return _update(
                {"type": "toolcall_start", "contentIndex": index, "id": id_, "toolName": name}
            )
        case ContentStart(kind, index):
            return _update({"type": f"{kind}_start", "contentIndex": index})
        case ContentEnd("toolcall", index, _, call):
            return _update({"type": "toolcall_end", "contentIndex": index, "toolCall": call})
        case ContentEnd(kind, index, content):
            return _update({"type": f"{kind}_end", "contentIndex": index, "content": content or ""})
        case ContentError(reason, error):
            return _update({"type": "error", "reason": reason, "error": {"errorMessage": error}})
        case AgentStart():
            return {"type": "agent_start"}
        case AgentEnd(messages, will_retry):
            return {"type": "agent_end", "messages": messages, "willRetry": will_retry}
        case AgentSettled(aborted):
            return {"type": "agent_settled", "aborted": aborted}
        case TurnStart():
            return {"type": "turn_start"}
        case TurnEnd(message, results):
            return {"type": "turn_end", "message": message, "toolResults": results}
        case MessageStart(message):
            return {"type": "message_start", "message": message}
        case MessageEnd(message):
            return {"type": "message_end", "message": message}
        case ToolStart(id_, name, args):
            return {
                "type": "tool_execution_start",
                "toolCallId": id_,
                "toolName": name,
                "args": args,
            }
        case ToolUpdate(id_, name, args, partial):
            return {
                "type": "tool_execution_update",
                "toolCallId": id_,
                "toolName": name,
                "args": args,
                "partialResult": partial,
            }
        case ToolEnd(id_, name, result, is_error, duration):
            out: Fields = {
                "type": "tool_execution_end",
                "toolCallId": id_,
                "toolName": name,
                "result": result,
                "isError": is_error,
            }
            return out if duration is None else {**out, "durationMs": duration}
        case QueueUpdate(steering, follow_up):
            return {"type": "queue_update", "steering": steering, "followUp": follow_up}
        case RetryStart(attempt, most, delay, error):
            return {
                "type": "auto_retry_start",
                "attempt": attempt,
                "maxAttempts": most,
                "delayMs": delay,
                "errorMessage": error,
            }
        case RetryEnd(success, attempt, error):
            out = {"type": "auto_retry_end", "success": success, "attempt": attempt}
            return {**out, "finalError": error} if error else out
        case CompactionStart(reason):
            return {"type": "compaction_start", "reason": reason}
        case CompactionEnd(reason, result, aborted, will_retry, error):
            out = {
                "type": "compaction_end",
                "reason": reason,
                "aborted": aborted,
                "willRetry": will_retry,
            }
            if result is not None:
                out["result"] = result
            return {**out, "errorMessage": error} if error else out
        case BashUpdate(id_, delta):
            out = {"type": "bash_execution_update", "delta": delta}
            return out if id_ is None else {"id": id_, **out}
        case SessionInfoChanged(name):
            return {"type": "session_info_changed", "name": name}
        case ThinkingLevelChanged(level):
            return {"type": "thinking_level_changed", "level": level}
        case ExtensionError(path, about, error):
            return {
                "type": "extension_error",
                "extensionPath": path,
                "event": about,
                "error": error,
            }
        case OtherEvent(kind, fields):
            return {**fields, "type": kind}
    raise TypeError(f"no event: {event!r}")


def _update(event: Fields) -> Fields:
    return {"type": "message_update", "assistantMessageEvent": event}

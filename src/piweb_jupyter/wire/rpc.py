"""pi's own protocol, but for its events: commands up; responses and extension-UI requests down.

Facts from driving `pi --mode rpc` 1.6.0 and pi-web's runner. Records are typed here, once, for both
ends.
"""

from __future__ import annotations

from ..errors import ProtocolError
from .json import JSON, Fields, dumps
from .record import Record

__all__ = [
    "CHOICE_METHODS",
    "QUESTION_METHODS",
    "READ_COMMANDS",
    "TELL_METHODS",
    "Response",
    "RpcCommand",
    "UiAnswer",
    "UiRequest",
    "decode_response",
    "decode_ui_answer",
    "decode_ui_request",
    "encode_response",
    "encode_rpc_command",
    "encode_ui_answer",
    "encode_ui_request",
]


# Commands that change nothing: they may be sent at any time, beside others.
READ_COMMANDS = frozenset(
    {
        "get_state",
        "get_messages",
        "get_commands",
        "get_available_models",
        "get_available_thinking_levels",
        "get_session_stats",
        "get_fork_messages",
        "get_last_assistant_text",
        "get_entries",
        "get_tree",
    }
)

# Extension-UI methods that wait for an answer, and those that only tell something.
QUESTION_METHODS = frozenset({"select", "confirm", "input", "editor"})
TELL_METHODS = frozenset({"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"})
CHOICE_METHODS = frozenset({"select"})


# ---------------------------------------------------------------- commands and responses


class RpcCommand(Record):
    """A conversation command, as the agent receives it. `id` is any JSON value or absent (None)."""

    type: JSON
    id: JSON
    fields: Fields


class Response(Record):
    """The answer to a conversation command."""

    id: JSON
    command: JSON
    success: bool
    data: JSON = None
    error: str = ""


def encode_rpc_command(id_: str, command: str, fields: Fields) -> bytes:
    """One command as a line. `id` and `type` come first, as pi's own clients send them."""
    return dumps({"id": id_, "type": command, **fields}) + b"\n"


def encode_response(response: Response) -> bytes:
    """One response as a line; absent fields are left out, as pi does."""
    out: Fields = {}
    if response.id is not None:
        out["id"] = response.id
    out["type"] = "response"
    if response.command is not None:
        out["command"] = response.command
    out["success"] = response.success
    if response.success:
        if response.data is not None:
            out["data"] = response.data
    else:
        out["error"] = response.error
    return dumps(out) + b"\n"


def decode_response(fields: Fields, line: bytes) -> Response:
    success = fields.get("success")
    if type(success) is not bool:
        raise ProtocolError("a response without `success`", line)
    error = fields.get("error")
    return Response(
        fields.get("id"),
        fields.get("command"),
        success,
        fields.get("data"),
        error if isinstance(error, str) else "" if error is None else dumps(error).decode(),
    )


# ---------------------------------------------------------------- extension UI


class UiRequest(Record):
    """An extension asks (`select`, `confirm`, `input`, `editor`) or tells (`notify`, …)."""

    id: str
    method: str
    fields: Fields


class UiAnswer(Record):
    """The answer to a `UiRequest`: a text, a yes or no, or that it was cancelled."""

    id: str
    value: str | None = None
    confirmed: bool | None = None
    cancelled: bool = False


def decode_ui_request(fields: Fields, line: bytes) -> UiRequest:
    id_, method = fields.get("id"), fields.get("method")
    if not isinstance(id_, str) or not isinstance(method, str):
        raise ProtocolError("an extension UI request without id or method", line)
    rest = {key: value for key, value in fields.items() if key not in ("type", "id", "method")}
    return UiRequest(id_, method, rest)


def encode_ui_request(request: UiRequest) -> bytes:
    head = {"type": "extension_ui_request", "id": request.id, "method": request.method}
    return dumps({**head, **request.fields}) + b"\n"


def decode_ui_answer(fields: Fields, line: bytes) -> UiAnswer:
    id_ = fields.get("id")
    if not isinstance(id_, str):
        raise ProtocolError("an extension UI response without id", line)
    value, confirmed = fields.get("value"), fields.get("confirmed")
    return UiAnswer(
        id_,
        value=value if isinstance(value, str) else None,
        confirmed=confirmed if isinstance(confirmed, bool) else None,
        cancelled=fields.get("cancelled") is True,
    )


def encode_ui_answer(answer: UiAnswer) -> bytes:
    """Exactly the object that pi expects; a wrapper of any kind leaves the dialog hanging."""
    out: Fields = {"type": "extension_ui_response", "id": answer.id}
    if answer.cancelled:
        out["cancelled"] = True
    elif answer.confirmed is not None:
        out["confirmed"] = answer.confirmed
    else:
        out["value"] = answer.value if answer.value is not None else ""
    return dumps(out) + b"\n"

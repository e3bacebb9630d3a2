"""What the agent writes: pi-web's frames and ours, and `decode_frame`, with which the host reads.

What the host writes is in `host_frames`. Checks on the hot path are plain `type(...) is` tests: a
small state line takes twice as long as orjson alone, and with a pydantic model 3.7 times; one of
60 KB 1.0 and 2.4 times (`benchmarks/codec.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import orjson

from ..errors import ProtocolError
from .events import Event, decode_event
from .json import JSON, Fields, dumps, reread
from .record import Record
from .rpc import Response, UiRequest, decode_response, decode_ui_request
from .surface import Actor, SurfaceSpec

__all__ = [
    "Cause",
    "ClearQueueResult",
    "CommandFinished",
    "CommandResult",
    "CommandStarted",
    "Declaration",
    "Frame",
    "HostRequest",
    "QuestionWithdrawn",
    "RouteResult",
    "RunnerReady",
    "StateFrame",
    "SurfaceDeclared",
    "cause_template",
    "decode_frame",
    "encode_cause",
    "encode_clear_queue_result",
    "encode_command_finished",
    "encode_command_result",
    "encode_command_started",
    "encode_declaration",
    "encode_host_request",
    "encode_question_withdrawn",
    "encode_ready",
    "encode_route_result",
    "encode_state",
    "encode_surface_spec",
    "read_cause",
    "read_name",
    "result_template",
    "state_template",
]

_NEWLINE = orjson.OPT_APPEND_NEWLINE
_ACTORS = ("user", "llm", "cell")


class Cause(Record):
    """Which command made a state what it is."""

    correlation_id: str = ""
    action: str = ""
    actor: str = ""


class StateFrame(Record):
    """The authoritative value of one key, as of `rev`. `line` is the frame as it came, clean."""

    key: str
    rev: int
    value: JSON
    deleted: bool
    told_cause: JSON
    line: bytes

    @property
    def cause(self) -> Cause | None:
        """Which command made it what it is, as far as its sender says. Read when it is asked for:
        hosts take in states far more often than they wonder."""
        return read_cause(self.told_cause)


class CommandStarted(Record):
    """The agent has begun to run a command."""

    correlation_id: str


class CommandResult(Record):
    """What a command did. Never what the state now is: that is a `StateFrame`."""

    correlation_id: str
    ok: bool
    data: JSON = None
    code: str = ""
    message: str = ""
    details: Fields | None = None


class RunnerReady(Record):
    """The agent takes commands from now on."""


class SurfaceDeclared(Record):
    spec: SurfaceSpec


class Declaration(Record):
    """An assembly frame: slash completions, routes, attachment profile or catalogue."""

    type: str
    fields: Fields


class ClearQueueResult(Record):
    id: str
    steering: list[str]
    follow_up: list[str]


class RouteResult(Record):
    id: str
    ok: bool
    result: JSON = None
    code: str = ""
    message: str = ""


class CommandFinished(Record):
    """A command that somebody in the agent's process has run (the model, as a tool) has finished.

    An addition of ours: so that the host's journal has what everybody did.
    """

    domain: str
    action: str
    args: JSON
    actor: Actor
    code: str
    rev_before: int
    rev_after: int


class QuestionWithdrawn(Record):
    """Nobody waits for the answer to a question any more. An addition of ours.

    pi withdraws a dialog and does not say so, so a host has to close all of them with each run; a
    question that says `withdraws` stays open until it is answered or this comes.
    """

    id: str


class HostRequest(Record):
    """The agent asks something of the notebook."""

    id: str
    method: str
    params: JSON


Frame: TypeAlias = (
    StateFrame
    | CommandStarted
    | CommandResult
    | RunnerReady
    | SurfaceDeclared
    | Declaration
    | ClearQueueResult
    | RouteResult
    | CommandFinished
    | QuestionWithdrawn
    | HostRequest
    | Response
    | UiRequest
    | Event
)


def decode_frame(line: bytes) -> Frame:
    """Read one line of the agent's stdout.

    A line that orjson refuses is read once more, forgivingly (`wire.json.reread`).

    Raises:
        ProtocolError: If it is not a JSON object with a string `type`, or a frame of a known type
            lacks a field.
    """
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        fields, line = reread(line)
    if type(fields) is not dict:
        raise ProtocolError("not a JSON object", line)
    kind = fields.get("type")
    if type(kind) is not str or not kind:
        raise ProtocolError("no string `type`", line)
    decoder = _FRAMES.get(kind)
    if decoder is None:
        return decode_event(fields, line)
    return decoder(fields, line)


def _state(fields: Fields, line: bytes) -> StateFrame:
    try:  # here and below: a subscript takes half of what a `get` takes
        key, rev, value = fields["key"], fields["rev"], fields["value"]
    except KeyError:
        key, rev, value = fields.get("key"), fields.get("rev"), fields.get("value")
    if type(key) is not str or not key or type(rev) is not int or rev < 0:
        raise ProtocolError("a state without key or rev", line)
    return StateFrame(
        key,
        rev,
        value,
        "deleted" in fields and fields["deleted"] is True,
        fields.get("cause"),
        line,
    )


def read_cause(cause: JSON) -> Cause | None:
    """What a state line says of its cause."""
    if type(cause) is not dict:
        return None
    id_, action, actor = cause.get("correlationId"), cause.get("action"), cause.get("actor")
    return Cause(
        id_ if type(id_) is str else "",
        action if type(action) is str else "",
        actor if type(actor) is str else "",
    )


def _command_result(fields: Fields, line: bytes) -> CommandResult:
    response = fields.get("response")
    if type(response) is not dict:
        raise ProtocolError("a command result without a response", line)
    try:
        correlation_id, ok, result = response["correlationId"], response["ok"], response["result"]
    except KeyError:
        correlation_id, ok = response.get("correlationId"), response.get("ok")
        result = response.get("result")
    if type(correlation_id) is not str or not correlation_id or type(ok) is not bool:
        raise ProtocolError("a command result without correlationId or ok", line)
    if ok:
        # Consumers of the bus other than a surface answer with a bare value.
        data = result.get("data") if type(result) is dict and "action" in result else result
        return CommandResult(correlation_id, True, data)
    error = (result.get("error") if type(result) is dict else None) or response.get("error")
    if type(error) is not dict:
        return CommandResult(correlation_id, False, None, "invalid_result", "no error was given")
    code, message = error.get("code"), error.get("message")
    return CommandResult(
        correlation_id,
        False,
        None,
        code if type(code) is str and code else "dispatch_failed",
        message if type(message) is str else dumps(message).decode(),
        {key: value for key, value in error.items() if key not in ("code", "message")} or None,
    )


def _command_started(fields: Fields, line: bytes) -> CommandStarted:
    return CommandStarted(read_name(fields, "correlationId", line))


def _clear_queue_result(fields: Fields, line: bytes) -> ClearQueueResult:
    return ClearQueueResult(
        read_name(fields, "id", line),
        _texts(fields.get("steering")),
        _texts(fields.get("followUp")),
    )


def _route_result(fields: Fields, line: bytes) -> RouteResult:
    error = fields.get("error")
    error = error if type(error) is dict else {}
    return RouteResult(
        read_name(fields, "id", line),
        fields.get("ok") is True,
        fields.get("result"),
        _text(error.get("code")),
        _text(error.get("message")),
    )


def _command_finished(fields: Fields, line: bytes) -> CommandFinished:
    actor, before, after = fields.get("actor"), fields.get("revBefore"), fields.get("revAfter")
    return CommandFinished(
        read_name(fields, "domain", line),
        read_name(fields, "action", line),
        fields.get("args"),
        actor if actor in _ACTORS else "llm",
        _text(fields.get("code")),
        before if type(before) is int else -1,
        after if type(after) is int else -1,
    )


def _question_withdrawn(fields: Fields, line: bytes) -> QuestionWithdrawn:
    return QuestionWithdrawn(read_name(fields, "id", line))


def _host_request(fields: Fields, line: bytes) -> HostRequest:
    return HostRequest(
        read_name(fields, "id", line), read_name(fields, "method", line), fields.get("params")
    )


def _declaration(fields: Fields, line: bytes) -> Declaration:
    return Declaration(fields["type"], fields)


def read_name(fields: Fields, key: str, line: bytes) -> str:
    value = fields.get(key)
    if type(value) is not str or not value:
        raise ProtocolError(f"a `{fields.get('type')}` frame without `{key}`", line)
    return value


def _text(value: JSON) -> str:
    return value if type(value) is str else ""


def _texts(value: JSON) -> list[str]:
    return [item for item in value if type(item) is str] if type(value) is list else []


_FRAMES: dict[str, Callable[[Fields, bytes], Frame]] = {
    "piweb_state": _state,
    "ui_rpc_response": _command_result,
    "piweb_command_started": _command_started,
    "runner_ready": lambda fields, line: RunnerReady(),
    "piweb_surface": lambda fields, line: SurfaceDeclared(SurfaceSpec.from_json(fields, line)),
    "slash_completions": _declaration,
    "agent_routes": _declaration,
    "agent_attachment_profile": _declaration,
    "agent_attachment_catalog": _declaration,
    "agent_gateway_models": _declaration,
    "piweb_attachment_event": _declaration,
    "piweb_attachment_catalog_result": _declaration,
    "piweb_clear_queue_result": _clear_queue_result,
    "piweb_agent_route_result": _route_result,
    "piweb_command_finished": _command_finished,
    "piweb_question_withdrawn": _question_withdrawn,
    "piweb_host_request": _host_request,
    "response": decode_response,
    "extension_ui_request": decode_ui_request,
}


def encode_ready() -> bytes:
    return b'{"type":"runner_ready"}\n'


def state_template(key: str) -> bytes:
    """The state lines of one key, to be filled with `% (value, rev, cause)`.

    The value is JSON, the cause is as `encode_cause` has it, or empty. An agent may push a hundred
    thousand states in a second; what is the same in all of them is encoded once.
    """
    return b'{"type":"piweb_state","key":%b,"value":%%b,"rev":%%d%%b}\n' % (
        orjson.dumps(key).replace(b"%", b"%%")
    )


def cause_template(action: str, actor: Actor) -> bytes:
    """What `encode_cause` makes of a command with an id, to be filled with `% id`, as JSON."""
    told = orjson.dumps({"action": action, "actor": actor}).replace(b"%", b"%%")
    return b',"cause":' + told.removesuffix(b"}") + b',"correlationId":%b}'


def encode_cause(cause: Cause) -> bytes:
    """The part of state lines that names their cause."""
    told = {"action": cause.action, "actor": cause.actor}
    if cause.correlation_id:
        told["correlationId"] = cause.correlation_id
    return b',"cause":' + orjson.dumps(told)


def encode_state(
    key: str, rev: int, value: bytes | None, cause: Cause | None = None, *, deleted: bool = False
) -> bytes:
    """A state line around a value that is JSON already. `value` None: the frame has no value."""
    told = b"" if cause is None else encode_cause(cause)
    if value is not None and not deleted:
        return state_template(key) % (value, rev, told)
    head = b'{"type":"piweb_state","key":' + orjson.dumps(key)
    if value is not None:
        head += b',"value":' + value
    return b'%b,"rev":%d%b%b}\n' % (head, rev, b',"deleted":true' if deleted else b"", told)


def encode_command_started(correlation_id: str) -> bytes:
    return dumps({"type": "piweb_command_started", "correlationId": correlation_id}) + b"\n"


def result_template(domain: str, action: str) -> bytes:
    """The lines of a command that succeeds, to be filled with `% (correlation id, data)`.

    The id is JSON; the data is `,"data":` and JSON, or empty.
    """
    return (
        b'{"type":"ui_rpc_response","response":{"correlationId":%%b,"ok":true,'
        b'"result":{"domain":%b,"action":%b,"ok":true%%b}}}\n'
        % (
            orjson.dumps(domain).replace(b"%", b"%%"),
            orjson.dumps(action).replace(b"%", b"%%"),
        )
    )


def encode_command_result(
    correlation_id: str,
    domain: str,
    action: str,
    *,
    data: bytes | None = None,
    error: tuple[str, str] | None = None,
    details: Fields | None = None,
) -> bytes:
    """A result line. `data` is JSON already; with `error` (code, message) the command failed.

    `ok` stands outside and inside, and the error inside only, as pi-web's runner has it.
    """
    id_ = orjson.dumps(correlation_id)
    if error is None:
        given = b"" if data is None else b',"data":' + data
        return result_template(domain, action) % (id_, given)
    inner = {"code": error[0], "message": error[1], **(details or {})}
    return (
        b'{"type":"ui_rpc_response","response":{"correlationId":%b,"ok":false,'
        b'"result":{"domain":%b,"action":%b,"ok":false,"error":%b}}}\n'
        % (id_, orjson.dumps(domain), orjson.dumps(action), dumps(inner))
    )


def encode_surface_spec(spec: SurfaceSpec) -> bytes:
    return dumps({"type": "piweb_surface", **spec.to_json()}) + b"\n"


def encode_declaration(type_: str, fields: Fields) -> bytes:
    return dumps({"type": type_, **fields}) + b"\n"


def encode_clear_queue_result(id_: str, steering: list[str], follow_up: list[str]) -> bytes:
    frame = {"type": "piweb_clear_queue_result", "id": id_}
    return dumps({**frame, "steering": steering, "followUp": follow_up}) + b"\n"


def encode_route_result(
    id_: str, *, result: bytes | None = None, error: tuple[str, str] | None = None
) -> bytes:
    """A route's answer. `result` is JSON already; None leaves the field out."""
    head = b'{"type":"piweb_agent_route_result","id":%s,"ok":%s' % (
        dumps(id_),
        b"true" if error is None else b"false",
    )
    if error is not None:
        return head + b',"error":' + dumps({"code": error[0], "message": error[1]}) + b"}\n"
    return head + (b"" if result is None else b',"result":' + result) + b"}\n"


def encode_command_finished(finished: CommandFinished) -> bytes:
    """A line for the journal.

    Raises:
        TypeError: If the arguments are not JSON.
    """
    return orjson.dumps(
        {
            "type": "piweb_command_finished",
            "domain": finished.domain,
            "action": finished.action,
            "args": finished.args,
            "actor": finished.actor,
            "code": finished.code,
            "revBefore": finished.rev_before,
            "revAfter": finished.rev_after,
        },
        option=_NEWLINE,
    )


def encode_question_withdrawn(id_: str) -> bytes:
    return dumps({"type": "piweb_question_withdrawn", "id": id_}) + b"\n"


def encode_host_request(id_: str, method: str, params: JSON) -> bytes:
    frame = {"type": "piweb_host_request", "id": id_, "method": method, "params": params}
    return dumps(frame) + b"\n"

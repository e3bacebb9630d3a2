"""What the host writes: pi-web's frames and ours, and what the agent reads them with.

A command of pi's is one of them, and so is a line that nobody knows: pi answers it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import orjson

from ..errors import ProtocolError
from .frames import read_name
from .json import JSON, Fields, dumps, reread
from .record import Record
from .rpc import RpcCommand, UiAnswer, decode_ui_answer
from .surface import PROTOCOL_VERSION, Actor

__all__ = [
    "ClearQueueRequest",
    "CommandCancel",
    "HostFrame",
    "HostResult",
    "OtherHostFrame",
    "RouteRequest",
    "StateDelete",
    "StateGet",
    "StateSet",
    "SurfaceCommand",
    "command_template",
    "decode_host_line",
    "encode_args",
    "encode_clear_queue",
    "encode_command_cancel",
    "encode_host_result",
    "encode_route_request",
    "encode_state_delete",
    "encode_state_get",
    "encode_state_set",
    "encode_surface_command",
]

_NEWLINE = orjson.OPT_APPEND_NEWLINE
_ACTORS = ("user", "llm", "cell")


class SurfaceCommand(Record):
    """An intent for one surface. `actor` and `if_rev` are additions of ours."""

    correlation_id: str
    domain: str
    action: str
    args: JSON = None
    actor: Actor = "user"
    if_rev: int | None = None


class CommandCancel(Record):
    correlation_id: str


class StateSet(Record):
    """A preference written back. `has_value` tells a missing value from null."""

    key: str
    value: JSON
    has_value: bool


class StateDelete(Record):
    key: str


class StateGet(Record):
    """A request to send one key's state again, or every key's (None)."""

    key: str | None


class ClearQueueRequest(Record):
    id: str


class RouteRequest(Record):
    id: str
    name: str
    method: str
    query: dict[str, str]
    body: JSON = None


class HostResult(Record):
    id: str
    ok: bool
    result: JSON = None
    error: Fields | None = None


class OtherHostFrame(Record):
    """A pi-web frame that this agent has no part in; it is passed over in silence."""

    type: str
    fields: Fields


HostFrame: TypeAlias = (
    SurfaceCommand
    | CommandCancel
    | StateSet
    | StateDelete
    | StateGet
    | ClearQueueRequest
    | RouteRequest
    | HostResult
    | OtherHostFrame
    | UiAnswer
    | RpcCommand
)


def decode_host_line(line: bytes) -> HostFrame:
    """Read one line of the agent's stdin.

    Whatever is no pi-web frame is an `RpcCommand`, also when its `type` is missing or no string:
    pi answers such a line, so we do.

    Raises:
        ProtocolError: If the line is not JSON (`reason` is "not JSON"), or a pi-web frame breaks
            its schema, which pi-web leaves unanswered.
    """
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        fields, line = reread(line)
    if type(fields) is not dict:
        return RpcCommand(None, None, {})
    kind = fields.get("type")
    decoder = _HOST_FRAMES.get(kind) if type(kind) is str else None
    if decoder is None:
        return RpcCommand(kind, fields.get("id"), fields)
    return decoder(fields, line)


def _surface_command(fields: Fields, line: bytes) -> HostFrame:
    request = fields.get("request")
    if type(request) is not dict:
        raise ProtocolError("a `ui_rpc` frame without a request", line)
    try:  # a subscript takes half of what a `get` takes
        correlation_id, payload = request["correlationId"], request["payload"]
    except KeyError:
        correlation_id, payload = request.get("correlationId"), request.get("payload")
    if type(correlation_id) is not str or not correlation_id:
        raise ProtocolError("a `ui_rpc` frame without `correlationId`", line)
    if type(request.get("protocolVersion")) is not str:
        raise ProtocolError("a `ui_rpc` frame without protocolVersion", line)
    if request.get("point") != "command" or request.get("action") != "execute":
        return OtherHostFrame("ui_rpc", fields)
    if type(payload) is not dict:
        raise ProtocolError("a `ui_rpc` command without a payload", line)
    try:
        domain, action, args = payload["domain"], payload["action"], payload["args"]
    except KeyError:
        domain, action, args = payload.get("domain"), payload.get("action"), payload.get("args")
    if domain is None and "name" in payload and "domain" not in payload:
        return OtherHostFrame("ui_rpc", fields)  # a host command; not ours to answer
    if type(domain) is not str or not domain or type(action) is not str or not action:
        raise ProtocolError("a `ui_rpc` command without `domain` or `action`", line)
    actor, if_rev = payload.get("actor"), payload.get("ifRev")
    return SurfaceCommand(
        correlation_id,
        domain,
        action,
        args,
        actor if actor in _ACTORS else "user",
        if_rev if type(if_rev) is int else None,
    )


def _state_get(fields: Fields, line: bytes) -> StateGet:
    key = fields.get("key")
    return StateGet(key if type(key) is str and key else None)


def _route_request(fields: Fields, line: bytes) -> RouteRequest:
    query = fields.get("query")
    return RouteRequest(
        read_name(fields, "id", line),
        read_name(fields, "name", line),
        read_name(fields, "method", line),
        {k: v for k, v in query.items() if type(v) is str} if type(query) is dict else {},
        fields.get("body"),
    )


def _host_result(fields: Fields, line: bytes) -> HostResult:
    error = fields.get("error")
    return HostResult(
        read_name(fields, "id", line),
        fields.get("ok") is True,
        fields.get("result"),
        error if type(error) is dict else None,
    )


def _other(fields: Fields, line: bytes) -> OtherHostFrame:
    return OtherHostFrame(fields["type"], fields)


_HOST_FRAMES: dict[str, Callable[[Fields, bytes], HostFrame]] = {
    "ui_rpc": _surface_command,
    "piweb_command_cancel": lambda f, line: CommandCancel(read_name(f, "correlationId", line)),
    "piweb_state_set": lambda f, line: StateSet(
        read_name(f, "key", line), f.get("value"), "value" in f
    ),
    "piweb_state_delete": lambda f, line: StateDelete(read_name(f, "key", line)),
    "piweb_state_get": _state_get,
    "piweb_clear_queue": lambda f, line: ClearQueueRequest(read_name(f, "id", line)),
    "piweb_agent_route_request": _route_request,
    "piweb_host_result": _host_result,
    "piweb_attachment_catalog_request": _other,
    "piweb_credential_refresh": _other,
    "piweb_gateway_models_result": _other,
    "extension_ui_response": decode_ui_answer,
}


def encode_surface_command(command: SurfaceCommand) -> bytes:
    """A command line. A payload never has a top-level `name`: that would be a host command."""
    payload: Fields = {"domain": command.domain, "action": command.action}
    if command.args is not None:
        payload["args"] = command.args
    payload["actor"] = command.actor
    if command.if_rev is not None:
        payload["ifRev"] = command.if_rev
    return orjson.dumps(
        {
            "type": "ui_rpc",
            "request": {
                "correlationId": command.correlation_id,
                "point": "command",
                "action": "execute",
                "payload": payload,
                "protocolVersion": PROTOCOL_VERSION,
            },
        },
        option=_NEWLINE,
    )


def command_template(domain: str, action: str, actor: Actor) -> bytes:
    """The lines of one command, as `encode_surface_command` has them without `if_rev`.

    To be filled with `% (number of the correlation id, args as encode_args has them)`.
    """
    fixed = {"domain": domain, "action": action, "actor": actor}
    payload = orjson.dumps(fixed).replace(b"%", b"%%").removesuffix(b"}")
    return (
        b'{"type":"ui_rpc","request":{"correlationId":"c%%d","point":"command",'
        b'"action":"execute","payload":%b%%b},"protocolVersion":%b}}\n'
        % (payload, orjson.dumps(PROTOCOL_VERSION))
    )


def encode_args(args: JSON) -> bytes:
    """Arguments as a part of a command's line.

    Raises:
        TypeError: If they are not JSON.
    """
    return b"" if args is None else b',"args":' + orjson.dumps(args)


def encode_command_cancel(correlation_id: str) -> bytes:
    return dumps({"type": "piweb_command_cancel", "correlationId": correlation_id}) + b"\n"


def encode_state_set(key: str, value: bytes) -> bytes:
    """A write-back of a preference; `value` is JSON already."""
    return b'{"type":"piweb_state_set","key":' + dumps(key) + b',"value":' + value + b"}\n"


def encode_state_delete(key: str) -> bytes:
    return dumps({"type": "piweb_state_delete", "key": key}) + b"\n"


def encode_state_get(key: str | None = None) -> bytes:
    return dumps({"type": "piweb_state_get", **({} if key is None else {"key": key})}) + b"\n"


def encode_clear_queue(id_: str) -> bytes:
    return dumps({"type": "piweb_clear_queue", "id": id_}) + b"\n"


def encode_route_request(
    id_: str, name: str, method: str, query: dict[str, str], body: JSON = None
) -> bytes:
    frame: Fields = {"type": "piweb_agent_route_request", "id": id_, "name": name}
    frame |= {"method": method, "query": query}
    if body is not None:
        frame["body"] = body
    return dumps(frame) + b"\n"


def encode_host_result(id_: str, *, result: JSON = None, error: Fields | None = None) -> bytes:
    frame: Fields = {"type": "piweb_host_result", "id": id_, "ok": error is None}
    if error is not None:
        frame["error"] = error
    elif result is not None:
        frame["result"] = result
    return dumps(frame) + b"\n"

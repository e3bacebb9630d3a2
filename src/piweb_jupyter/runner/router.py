"""Where a line of the host goes. The words of the lines are `wire`'s; here are only the ways."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..errors import ProtocolError
from ..wire.frames import encode_command_result
from ..wire.host_frames import (
    ClearQueueRequest,
    CommandCancel,
    RouteRequest,
    StateDelete,
    StateGet,
    StateSet,
    SurfaceCommand,
    decode_host_line,
)
from ..wire.rpc import RpcCommand, UiAnswer
from .report import report_failure, say
from .routes import Routes
from .rpc import RpcLoop
from .runtime import Runtime

__all__ = ["Router"]


class Router:
    """Hands every line to who answers it. Nothing that a line says or a handler raises ends it."""

    def __init__(self, runtime: Runtime, rpc: RpcLoop, routes: Routes) -> None:
        store, surfaces = runtime.store, runtime.surfaces
        self._rpc = rpc
        self._writer = runtime.writer
        self._ways: dict[type[Any], Callable[[Any], None]] = {
            SurfaceCommand: surfaces.handle,
            CommandCancel: lambda frame: surfaces.cancel(frame.correlation_id),
            StateSet: lambda frame: store.write_back(frame.key, frame.value, frame.has_value),
            StateDelete: lambda frame: store.delete_back(frame.key),
            StateGet: lambda frame: store.send_again(frame.key),
            ClearQueueRequest: rpc.handle,
            RpcCommand: rpc.handle,
            UiAnswer: runtime.ask.answer,
            RouteRequest: routes.handle,
        }

    def handle(self, line: bytes) -> None:
        """Take one line of stdin."""
        try:
            frame = decode_host_line(line)
        except ProtocolError as exc:
            self._refuse(line, exc)
            return
        way = self._ways.get(type(frame))
        if way is None:
            return  # a pi-web frame that this agent has no part in
        try:
            way(frame)
        except Exception as exc:
            report_failure(f"a {type(frame).__name__} could not be handled", exc)

    def refuse_oversize(self, head: bytes, size: int) -> None:
        """A line was longer than the limit; `head` is how it began."""
        error = ProtocolError(f"a line of {size} bytes is too long", head)
        say(str(error))
        self._answer(head, error)

    def _refuse(self, line: bytes, error: ProtocolError) -> None:
        """pi answers what is no JSON; pi-web passes over its own frames when they are wrong."""
        say(f"a line was not understood: {error}")
        if error.reason.startswith(("not JSON", "nested")):
            self._answer(line, error)

    def _answer(self, line: bytes, error: ProtocolError) -> None:
        found = _COMMAND.match(line)
        if found is None:
            self._rpc.refuse_line(error)
        else:
            # Whoever sent it waits under this id.
            answer = encode_command_result(
                found["id"].decode(), "", "", error=("invalid_args", error.reason)
            )
            self._writer.write(answer)


_COMMAND = re.compile(rb'.{0,40}"ui_rpc".{0,40}"correlationId":"(?P<id>[\w.:-]{1,200})"')

"""Agent routes: read-only views of the agent's data, asked for by name."""

from __future__ import annotations

from collections.abc import Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ..agent.definition import METHODS, Request
from ..agent.models import encode_value
from ..errors import StateValueError
from ..wire.frames import encode_declaration, encode_route_result
from ..wire.host_frames import RouteRequest
from .report import report_failure

if TYPE_CHECKING:
    import asyncio

    from .runtime import Runtime

__all__ = ["Routes"]


class Routes:
    """Answers route requests; one whose handler is `async def` holds no other up."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._routes = runtime.agent.routes
        self._running: set[asyncio.Task[Any]] = set()

    def declare(self) -> None:
        """Line up the declaration; without routes there is none."""
        if self._routes:
            routes = [route.to_json() for route in self._routes.values()]
            self._runtime.writer.put(encode_declaration("agent_routes", {"routes": routes}))

    def handle(self, request: RouteRequest) -> None:
        """Answer one request, now or when its coroutine has ended."""
        if request.method not in METHODS:
            return  # pi-web's schema has no other; who sends one waits in vain there, too
        # Which methods a route has is declared to the host, and the host's to see to.
        route = self._routes.get(request.name)
        if route is None:
            what = f"there is no route `{request.name}`"
            self._send(encode_route_result(request.id, error=("route_not_registered", what)))
            return
        call = Request(request.name, request.method, request.query, request.body)
        try:
            value = route.handler(call)
        except SystemExit:
            raise
        except BaseException as exc:
            self._fail(request, exc)
            return
        if type(value) is CoroutineType:
            self._runtime.loop.call(self._begin, request, value)
        else:
            self._answer(request, value)

    def _begin(self, request: RouteRequest, work: Coroutine[Any, Any, Any]) -> None:
        task = self._runtime.loop.loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(lambda task: self._end(request, task))

    def _end(self, request: RouteRequest, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled():
            error = ("handler_error", "the route's handler was cancelled")
            self._send(encode_route_result(request.id, error=error))
        elif (exc := task.exception()) is not None:
            self._fail(request, exc)
        else:
            self._answer(request, task.result())

    def _answer(self, request: RouteRequest, value: Any) -> None:
        what = f"result of route `{request.name}`"
        try:
            encoded = None if value is None else encode_value(value, what)
        except StateValueError as exc:
            error = ("handler_error", str(exc))
            self._send(encode_route_result(request.id, error=error))
            return
        self._send(encode_route_result(request.id, result=encoded))

    def _fail(self, request: RouteRequest, exc: BaseException) -> None:
        report_failure(f"route `{request.name}` failed", exc)
        text = (str(exc) or type(exc).__name__).encode("utf-8", "replace").decode()
        self._send(encode_route_result(request.id, error=("handler_error", text)))

    def _send(self, line: bytes) -> None:
        self._runtime.writer.write(line)

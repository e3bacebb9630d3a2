"""Conversation commands under way: answers paired by id, one state-changing command at a time.

pi handles commands concurrently and loses some that race: of two prompts written together the
second vanishes, an abort right behind a prompt misses it. So a command that changes the
conversation waits for the answer to the one before; reads, and commands that only watch over
something long, go beside them.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..errors import PiwebError, RequestError
from ..wire.json import JSON, Fields
from ..wire.rpc import READ_COMMANDS, Response, encode_rpc_command
from .section import section, wait_for

__all__ = ["LANE_PATIENCE", "Request", "Requests"]

# An extension command answers its prompt when its handler ends, dialogs included; the commands
# behind it must not wait for that.
LANE_PATIENCE = 5.0

# Commands that last, or stop what lasts: they never queue behind others, nor others behind them.
_BESIDE = READ_COMMANDS | {
    "bash",
    "abort_bash",
    "abort_retry",
    "compact",
    "export_html",
}


class _Later(Protocol):
    def __call__(self, delay: float, fn: Callable[[], None], /) -> None: ...


class Request:
    """One command and, later, its answer. `on_done` runs on the I/O thread, and must be ours."""

    __slots__ = ("_lock", "command", "error", "fields", "id", "on_done", "response")

    def __init__(
        self,
        id_: str,
        command: str,
        fields: Fields,
        on_done: Callable[[Request], None] | None,
    ) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.id = id_
        self.command = command
        self.fields = fields
        self.on_done = on_done
        self.response: Response | None = None
        self.error: PiwebError | None = None

    def wait(self, timeout: float) -> JSON:
        """The answer's data.

        Raises:
            RequestError: If the agent refused, or did not answer in time.
            AgentExitedError: If it died before it answered.
        """
        if not wait_for(self._lock, timeout):
            raise RequestError(
                self.command, f"the agent did not answer `{self.command}` within {timeout:g} s"
            )
        self._lock.release()
        return self.outcome()

    def outcome(self) -> JSON:
        """The data of an answer that is there; its errors raised."""
        if self.error is not None:
            raise self.error
        assert self.response is not None
        if not self.response.success:
            raise RequestError(self.command, self.response.error or "refused without a reason")
        return self.response.data

    async def wait_async(self, timeout: float) -> JSON:
        """`wait` for a coroutine."""
        return await asyncio.to_thread(self.wait, timeout)

    def settle(self, response: Response | None, error: PiwebError | None) -> None:
        self.response, self.error = response, error
        self._lock.release()
        if self.on_done is not None:
            self.on_done(self)


class Requests:
    """The commands of one agent life. Safe from any thread; `write` is called outside the lock."""

    def __init__(self, write: Callable[[bytes], None], later: _Later) -> None:
        self._write = write
        self._later = later
        self._lock = section()
        self._ids = itertools.count(1)
        self._pending: dict[JSON, Request] = {}
        self._lane: deque[Request] = deque()
        self._in_flight: Request | None = None
        self._closed: PiwebError | None = None

    def send(
        self,
        command: str,
        fields: Fields,
        on_done: Callable[[Request], None] | None = None,
        on_id: Callable[[str], None] | None = None,
    ) -> Request:
        """Send a command now, or when the one before it is answered. `on_id` hears its id first.

        An agent that is gone or does not read shows as the request's error, not as an exception.
        """
        request = Request(f"r{next(self._ids)}", command, fields, on_done)
        beside = command in _BESIDE
        if on_id is not None:
            on_id(request.id)
        with self._lock:
            closed = self._closed
            if closed is None:
                self._pending[request.id] = request
                if not beside:
                    if self._in_flight is not None:
                        self._lane.append(request)
                        return request
                    self._in_flight = request
        if closed is not None:
            request.settle(None, closed)
        else:
            self._put(request, beside)
        return request

    def settle(self, response: Response) -> bool:
        """Pair an answer with its command. False: nobody asked."""
        with self._lock:
            request = self._pending.pop(response.id, None) if _is_id(response.id) else None
        if request is None:
            return False
        # First what follows from the answer, then the next command: its order on the wire is free.
        request.settle(response, None)
        self._advance(request)
        return True

    def fail(self, error: PiwebError) -> None:
        """The agent is gone: everything that waits is told, and so is what comes later."""
        with self._lock:
            self._closed = error
            waiting, self._pending = list(self._pending.values()), {}
            self._lane.clear()
            self._in_flight = None
        for request in waiting:
            request.settle(None, error)

    def _put(self, request: Request, beside: bool) -> None:
        try:
            self._write(encode_rpc_command(request.id, request.command, request.fields))
        except PiwebError as exc:
            with self._lock:
                mine = self._pending.pop(request.id, None) is not None
            if mine:
                request.settle(None, exc)
            self._advance(request)
            return
        if not beside:
            self._later(LANE_PATIENCE, lambda: self._advance(request))

    def _advance(self, request: Request) -> None:
        with self._lock:
            if self._in_flight is not request:
                return
            self._in_flight = following = self._lane.popleft() if self._lane else None
        if following is not None:
            self._put(following, beside=False)


def _is_id(value: JSON) -> bool:
    return type(value) is str

"""A turn: one prompt and all that the agent does about it, until it is idle again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ..errors import PiwebError, TurnError
from .section import section, wait_for
from .summary import RunSummary

if TYPE_CHECKING:
    from .chat import Chat
    from .session import AgentSession

__all__ = ["Turn"]


class Turn:
    """What became of a prompt. Awaitable; `wait()` blocks. Readable while it goes on.

    `text` is the assistant's answer, `tool_calls` what it ran on the way, `usage` what it cost.
    Steering and follow-ups that arrive in time belong to the same turn.
    """

    def __init__(self, chat: Chat, prompt: str, start: int) -> None:
        self._chat = chat
        self.start = start
        self._lock = threading.Lock()
        self._lock.acquire()
        self._guard = section()
        self._callbacks: list[Callable[[Turn], None]] = []
        self._summary: RunSummary | None = None
        self._failure: PiwebError | None = None
        self.prompt = prompt
        self.started = False
        self.done = False

    def __repr__(self) -> str:
        if not self.done:
            state = "running"
        elif self.aborted:
            state = "aborted"
        else:
            state = "failed" if self.error else "done"
        calls = len(self.tool_calls)
        tools = f", {calls} tool call{'s' * (calls != 1)}" if calls else ""
        return f"<Turn {state}{tools}>"

    @property
    def session(self) -> AgentSession:
        """The session whose agent it is a turn of."""
        return self._chat.session

    @property
    def text(self) -> str:
        """The assistant's text, so far or in the end."""
        return self._read().text

    @property
    def tool_calls(self) -> list[Any]:
        """The tools it ran, in order: name, args, status, output."""
        return list(self._read().tool_calls)

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens and cost, as the agent counts them; empty while unknown."""
        return dict(self._read().usage or {})

    @property
    def error(self) -> str | None:
        """Why it failed, or None."""
        if self._failure is not None:
            return str(self._failure)
        return self._read().error

    @property
    def aborted(self) -> bool:
        """Whether somebody stopped it."""
        return self._read().aborted

    def wait(self, timeout: float | None = None) -> Turn:
        """Wait for its end. A KeyboardInterrupt here aborts the turn; the agent lives on.

        Raises:
            TurnError: If it ended in an error of the model, the provider or the agent.
            AgentExitedError: If the agent died meanwhile.
            RequestError: If the agent refused the prompt.
            NestedWaitError: If this is a finalizer that has interrupted us.
            TimeoutError: If `timeout` seconds passed; the turn goes on.
        """
        try:
            self._chat.session.ledger.claim_answers()
            if not wait_for(self._lock, timeout):
                raise TimeoutError(f"the turn is still running after {timeout:g} s")
        except KeyboardInterrupt:
            self._chat.abort()
            raise
        self._lock.release()
        self.check()
        return self

    def check(self) -> None:
        """Raise what `wait` would raise, if the turn has failed."""
        if self._failure is not None:
            raise self._failure
        if self._summary is not None and self._summary.error:
            raise TurnError(self._summary.error)

    def abort(self) -> None:
        """Stop it."""
        self._chat.abort()

    def add_done_callback(self, fn: Callable[[Turn], None]) -> None:
        """Have `fn(turn)` called on `piweb-callbacks` at its end."""
        with self._guard:
            if not self.done:
                self._callbacks.append(fn)
                return
        self._chat.call(fn, self)

    def __await__(self) -> Generator[Any, None, Turn]:
        return self._wait().__await__()

    async def _wait(self) -> Turn:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def wake(_: Turn) -> None:
            loop.call_soon_threadsafe(ended.set)

        self.add_done_callback(wake)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            self._chat.abort()
            raise
        self.check()
        return self

    def finish(self, summary: RunSummary, failure: PiwebError | None = None) -> None:
        """Settle it; once. Called by the session on the I/O thread."""
        with self._guard:
            if self.done:
                return
            self._summary, self._failure = summary, failure
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
        self._lock.release()
        for fn in callbacks:
            self._chat.call(fn, self)

    def _read(self) -> RunSummary:
        return self._summary or self._chat.transcript.run_summary(self.start)

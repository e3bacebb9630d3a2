"""A command on its way: what was asked, whose turn it waits for, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..agent.context import Context
from ..agent.surface import Command
from ..wire.json import JSON
from ..wire.surface import Actor

if TYPE_CHECKING:
    import asyncio

    from .home import Home

__all__ = ["Outcome"]


class Outcome:
    """A command on its way, and then what became of it.

    `data` is the result as JSON, or None when there is none. A failed command has a `code`, a
    `message` and perhaps `details`. Safe from any thread.
    """

    command: Command
    context: Context[Any]
    home: Home
    # What most commands never set is set here.
    given: JSON = None
    rev_before = -1
    done = False
    data: bytes | None = None
    code = ""
    message = ""
    details: dict[str, JSON] | None = None
    queued = False
    task: asyncio.Task[Any] | None = None
    _after: list[Callable[[Outcome], object]] | None = None

    def __init__(
        self,
        action: str,
        args: JSON,
        actor: Actor,
        correlation_id: str,
        if_rev: int | None,
        *,
        answers: bool,
    ) -> None:
        """`answers`: the host asked, and gets the answer; else who asked looks at this object, and
        the host only learns that it happened: what was `given`, and at which `rev_before`."""
        self.action = action
        self.args = args
        self.actor: Actor = actor
        self.correlation_id = correlation_id
        self.if_rev = if_rev
        self.answers = answers

    def __repr__(self) -> str:
        how = "on its way" if not self.done else f"failed: {self.code}" if self.code else "done"
        return f"<Outcome of {self.action}: {how}>"

    @property
    def ok(self) -> bool:
        return self.done and not self.code

    def add_done_callback(self, callback: Callable[[Outcome], object]) -> None:
        """Call `callback(outcome)` once it is done, on the thread that finishes it, or now."""
        if self._after is None:
            self._after = []
        self._after.append(callback)
        if self.done:
            self._settle()

    def cancel(self) -> None:
        """Ask the command to stop; one that still waits for its turn never begins."""
        if not self.done:
            self.home.cancel(self)

    async def wait(self) -> Outcome:
        """Wait, on the running loop, until it is done."""
        import asyncio

        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        self.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
        await done.wait()
        return self

    def fail(self, code: str, message: str, details: dict[str, JSON] | None = None) -> None:
        """It did not succeed."""
        self.code = code
        # A lone surrogate must not cost the answer.
        self.message = message.encode("utf-8", "replace").decode()
        self.details = details
        self.done = True
        self._settle()

    def succeed(self, data: bytes | None) -> None:
        self.data = data
        self.done = True
        if self._after is not None:
            self._settle()

    def _settle(self) -> None:
        after = self._after
        while after:
            try:
                callback = after.pop()  # atomic: no two threads call the same one
            except IndexError:
                return
            callback(self)

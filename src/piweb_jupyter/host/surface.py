"""A surface as a notebook cell uses it: read the state, run commands, wait for a change."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from ..wire.json import JSON
from ..wire.surface import Actor, SurfaceSpec, surface_key
from .command import COMMAND_TIMEOUT, Command, JournalEntry
from .section import wait_for

if TYPE_CHECKING:
    from .session import AgentSession

__all__ = ["Channel", "Surface", "Until"]

Channel: TypeAlias = Literal["prompt", "command", "unavailable"]
T = TypeVar("T")


class Surface:
    """One surface of a session's agent, read from the kernel's mirror.

    It writes nothing: `run` and `submit` ask the agent, and the new state comes back by itself. A
    Surface stays valid over restarts and before the agent has shown the surface at all. Safe from
    any thread.
    """

    def __init__(self, session: AgentSession, domain: str) -> None:
        self.session = session
        self.domain = domain
        self.key = surface_key(domain)

    def __repr__(self) -> str:
        return f"<Surface {self.domain} of {self.session.name}: {self._standing()}>"

    def _standing(self) -> str:
        if self.available:
            return f"rev {self.rev}"
        return f"rev {self.rev}, agent offline" if self.rev >= 0 else "unavailable"

    @property
    def state(self) -> JSON:
        """The last snapshot, decoded afresh; None before the first. Changing it changes nothing."""
        held = self.session.mirror.get(self.key)
        return None if held is None else held.value()

    @property
    def rev(self) -> int:
        """The revision of that snapshot within the agent's life; -1 before the first."""
        held = self.session.mirror.get(self.key)
        return -1 if held is None else held.rev

    @property
    def epoch(self) -> int:
        """The agent life that the snapshot belongs to; 0 before the first."""
        held = self.session.mirror.get(self.key)
        return 0 if held is None else held.epoch

    @property
    def available(self) -> bool:
        """Whether a command sent now would reach an agent that has this surface."""
        return self.session.is_available(self.domain)

    @property
    def channel(self) -> Channel:
        """How an operation would travel: as a `prompt`, as a `command`, or not at all."""
        return self.session.channel(self.domain)

    @property
    def spec(self) -> SurfaceSpec | None:
        """What the agent declared of it; None for a peer that declares nothing (pi-web)."""
        return self.session.spec_of(self.domain)

    @property
    def history(self) -> list[JournalEntry]:
        """The commands finished on it, from whomever, oldest first."""
        return self.session.ledger.journal(self.domain)

    def run(self, action: str, args: JSON = None, /, **kwargs: Any) -> JSON:
        """Run a command and wait; return what its handler returned.

        Arguments go by name (`run("increment", by=2)`) or as one JSON value. A KeyboardInterrupt
        cancels the command.

        Raises:
            SurfaceCommandError: If it did not succeed; `code` says why.
            AgentExitedError: If the agent is, or became, gone.
            NestedWaitError: If this is a finalizer that has interrupted us; use `submit` there.
        """
        command = self.session.ledger.submit(
            self.domain, action, kwargs or args, "cell", COMMAND_TIMEOUT
        )
        try:
            return command.result()
        except KeyboardInterrupt:
            command.cancel()
            raise

    def submit(
        self,
        action: str,
        args: JSON = None,
        /,
        *,
        timeout: float = COMMAND_TIMEOUT,
        actor: Actor = "cell",
        id: str | None = None,
        if_rev: int | None = None,
        epoch: int | None = None,
        **kwargs: Any,
    ) -> Command:
        """Send a command and return at once.

        Args:
            timeout: Seconds from the write until the agent has accepted it or is done.
            if_rev: For a guarded command: refuse it (`stale`) if the state has moved on.
            id, epoch, actor: A view's own; the same id twice runs once, an older epoch is refused.
        """
        return self.session.ledger.submit(
            self.domain, action, kwargs or args, actor, timeout, id, if_rev, epoch
        )

    def until(self, predicate: Callable[[Any], T], *, timeout: float | None = 30.0) -> Until[T]:
        """Wait until `predicate(state)` is true: `await s.until(…)`, or `s.until(…).wait()`.

        It is asked about the present state and each newer one (some may be skipped); a stale state
        does not count. Gives what the predicate gave.

        Raises:
            TimeoutError: If `timeout` seconds pass first.
            AgentExitedError: If the agent ends first.
        """
        return Until(self, predicate, timeout)

    def observe(self, fn: Callable[[Any], None]) -> Callable[[], None]:
        """Have `fn(state)` called on `piweb-callbacks` with the present state and newer ones.

        States that follow each other faster than `fn` are skipped, never the last one. Returns
        what ends it.
        """
        token = object()
        seen: list[tuple[int, int]] = [(0, -1)]

        def tell() -> None:
            held = self.session.mirror.get(self.key)
            if held is None or held.stale or held.version <= seen[0]:
                return
            seen[0] = held.version
            fn(held.value())

        def changed() -> None:
            self.session.news.call(tell, key=token)

        unwatch = self.session.news.watch(self.key, changed)
        changed()
        return unwatch


class Until(Generic[T]):
    """A wait for a state. Await it, or call `wait()`."""

    def __init__(
        self, surface: Surface, predicate: Callable[[Any], T], timeout: float | None
    ) -> None:
        self._surface = surface
        self._predicate = predicate
        self._timeout = timeout

    def wait(self) -> T:
        """Block until it is so."""
        lock = threading.Lock()
        lock.acquire()

        def wake() -> None:
            with suppress(RuntimeError):  # it is awake already
                lock.release()

        unwatch = self._surface.session.news.watch(self._surface.key, wake)
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        self._surface.session.ledger.claim_answers()
        try:
            while True:
                if found := self._look():
                    return found
                left = None if deadline is None else deadline - time.monotonic()
                if (left is not None and left <= 0) or not wait_for(lock, left):
                    raise self._late()
        finally:
            unwatch()

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        unwatch = self._surface.session.news.watch(self._surface.key, wake)
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    changed.clear()
                    if found := self._look():
                        return found
                    await changed.wait()
        except TimeoutError:
            raise self._late() from None
        finally:
            unwatch()

    def _look(self) -> T | None:
        session = self._surface.session
        held = session.mirror.get(self._surface.key)
        if held is not None and not held.stale and (found := self._predicate(held.value())):
            return found
        if (gone := session.gone()) is not None:
            raise gone
        return None

    def _late(self) -> TimeoutError:
        surface = self._surface
        return TimeoutError(
            f"{surface.domain} did not get there within {self._timeout:g} s (rev {surface.rev})"
        )

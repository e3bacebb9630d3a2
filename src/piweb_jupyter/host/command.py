"""One command to a surface: its id, actor, stage and outcome.

A command is `sent` (by a view), `received` (by the kernel), `written` (to the pipe), `running` (in
the agent), then `done`, `failed`, `cancelled` or `lost` (nobody waits for it any more: it timed
out, was forgotten, or the agent died).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from ..errors import PiwebError, SurfaceCommandError
from ..wire.frames import CommandResult
from ..wire.json import JSON
from ..wire.surface import Actor
from .section import STUCK_TIME, refuse_bringer, refuse_inside, wait_for
from .waiter import Waiter, take_waiter

if TYPE_CHECKING:
    from .ledger import CommandLedger

__all__ = ["COMMAND_TIMEOUT", "Command", "JournalEntry", "Stage", "canonical", "read_outcome"]

Stage: TypeAlias = Literal[
    "sent", "received", "written", "running", "done", "failed", "cancelled", "lost"
]

# From the write to the agent until it is accepted or done; pi-web's ui-rpc limit.
COMMAND_TIMEOUT = 15.0

_FINAL = frozenset({"done", "failed", "cancelled", "lost"})


@dataclass(slots=True, frozen=True)
class JournalEntry:
    """A finished command. `args` is canonical JSON (sorted keys); None where it was too large."""

    time: float
    domain: str
    action: str
    args: str | None
    actor: Actor
    ok: bool
    code: str
    rev_before: int
    rev_after: int

    def __repr__(self) -> str:
        outcome = "ok" if self.ok else self.code
        return f"<{self.domain}.{self.action} by {self.actor}: {outcome}, rev {self.rev_after}>"


class Command:
    """One command to one surface, on its way or finished. Awaitable.

    `id` is its sender's (a view's, or the host's own); `correlation_id` is the wire's. `data` is
    what the handler returned; what the state now is, is in the surface's snapshot.
    """

    # What most commands never set is set here: there are many of them.
    _waiter: Waiter | None = None
    _lock: threading.Lock | None = None  # for those that a `Waiter` does not serve
    _callbacks: list[Callable[[Command], None]] | None = None
    stage: Stage = "received"
    data: JSON = None
    error: PiwebError | None = None
    deadline = 0.0
    rev_before = -1
    rev_after = -1

    def __init__(
        self,
        ledger: CommandLedger,
        id_: str,
        correlation_id: str,
        domain: str,
        key: str,
        action: str,
        actor: Actor,
        epoch: int,
        frame: bytes,
        timeout: float,
        watched: bool,
    ) -> None:
        self._ledger = ledger
        self.id = id_
        self.correlation_id = correlation_id
        self.domain = domain
        self.key = key
        self.action = action
        self.actor: Actor = actor
        self.epoch = epoch
        self.frame = frame
        self.timeout = timeout
        self.watched = watched
        self.time = time.time()

    def __repr__(self) -> str:
        return f"<Command {self.domain}.{self.action}: {self.stage}>"

    @property
    def done(self) -> bool:
        """Whether it is settled, one way or another."""
        return self.stage in _FINAL

    def result(self, timeout: float | None = None) -> JSON:
        """Wait for the outcome; return what the handler returned.

        Args:
            timeout: Seconds to wait here; None waits as long as the command itself may take.

        Raises:
            SurfaceCommandError: If the command did not succeed (`code` says why).
            AgentExitedError: If the agent died before it answered.
            NestedWaitError: If this is a finalizer that has interrupted us.
            TimeoutError: If `timeout` passed; the command goes on.
        """
        if self.stage not in _FINAL:
            self._wait_settled(timeout)
        if self.error is not None:
            raise self.error
        return self.data

    def _wait_settled(self, timeout: float | None) -> None:
        if timeout is None and self._waiter is None and self._wait_alone():
            return
        with self._ledger.settling:
            if self.done:
                return
            lock = self._lock
            if lock is None:
                lock = self._lock = threading.Lock()
                lock.acquire()
        self._ledger.claim_answers()
        if not wait_for(lock, timeout):
            raise TimeoutError(f"{self.domain}.{self.action} is {self.stage} after {timeout:g} s")
        lock.release()

    def _wait_alone(self) -> bool:
        """Wait in the quickest way. False: another thread does, or the system has no such way."""
        ledger = self._ledger
        refuse_bringer()
        waiter = take_waiter(ledger.waiters)
        if waiter is None:
            return False
        with ledger.settling:
            mine = not self.done and self._waiter is None
            if mine:
                self._waiter = waiter
        if mine and not ledger.read_answer(waiter, self):
            # Interrupted, it is not used again: it may yet be woken.
            if not waiter.is_woken(STUCK_TIME):
                refuse_inside()
            waiter.wait()
        if self.stage != "lost":
            ledger.waiters.append(waiter)
        return self.done

    def cancel(self) -> None:
        """Ask the agent to stop it. An agent that cannot be asked is no longer waited for."""
        self._ledger.cancel(self)

    def forget(self) -> None:
        """Stop waiting. The work may go on in the agent; its progress shows in the state."""
        self._ledger.forget(self, "lost", "ABORTED", "no longer waited for")

    def add_done_callback(self, fn: Callable[[Command], None]) -> None:
        """Have `fn(command)` called on `piweb-callbacks` once it is settled."""
        with self._ledger.settling:
            late = self.done
            if not late:
                self._callbacks = [*(self._callbacks or ()), fn]
        if late:
            self._ledger.call(fn, self)
        else:
            self._ledger.claim_answers()

    def __await__(self) -> Generator[Any, None, JSON]:
        return self._wait().__await__()

    async def _wait(self) -> JSON:
        loop = asyncio.get_running_loop()
        settled = asyncio.Event()

        def wake(_: Command) -> None:
            loop.call_soon_threadsafe(settled.set)

        self.add_done_callback(wake)
        try:
            await settled.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.result(0)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody has to be told of the outcome."""
        return not (self._waiter is None and self._lock is None and self._callbacks is None)

    def settle(
        self, stage: Stage, data: JSON = None, error: PiwebError | None = None
    ) -> tuple[Waiter | None, list[Callable[[Command], None]] | None]:
        """Note the outcome. Called once, under the ledger's settling lock.

        Returns whom to wake and what to call then.
        """
        self.data = data
        self.error = error
        self.stage = stage  # last: who sees it reads the others without the lock
        callbacks, self._callbacks = self._callbacks, None
        waiter, self._waiter = self._waiter, None
        if self._lock is not None:
            self._lock.release()
        return waiter, callbacks

    def settle_unheard(
        self, by_waiter: bool, stage: Stage, data: JSON, error: PiwebError | None
    ) -> bool:
        """`settle`, if nobody has to be told; False: somebody has. With `by_waiter` it is called by
        the one thread that waits, which sees for itself.
        """
        if (
            self.stage in _FINAL
            or self._lock is not None
            or self._callbacks is not None
            or not (by_waiter or self._waiter is None)
        ):
            return False
        self.data = data
        self.error = error
        self.stage = stage
        self._waiter = None
        return True

    def entry(self) -> JournalEntry:
        """This command as an entry of the journal."""
        args: str | None = None
        if self.frame:
            payload = orjson.loads(self.frame)["request"]["payload"]
            args = canonical(payload.get("args"), len(self.frame))
        code = self.error.code if isinstance(self.error, SurfaceCommandError) else ""
        return JournalEntry(
            self.time,
            self.domain,
            self.action,
            args,
            self.actor,
            self.error is None,
            code or (type(self.error).__name__ if self.error else ""),
            self.rev_before,
            self.rev_after,
        )


def canonical(args: JSON, most: int) -> str | None:
    """Arguments as the journal has them; None if they take more bytes than that."""
    told = orjson.dumps({} if args is None else args, option=orjson.OPT_SORT_KEYS)
    return told.decode() if len(told) <= most else None


def read_outcome(result: CommandResult) -> tuple[Stage, SurfaceCommandError | None]:
    """The stage and the error that a result line stands for."""
    if result.ok:
        return "done", None
    error = SurfaceCommandError(result.code, result.message, details=result.details)
    return ("cancelled" if result.code == "cancelled" else "failed"), error

"""The commands of a session: each runs once, each is settled, the finished ones are kept.

A command that nobody answers is lost after its time; one that the agent has begun is not. Commands
given before the agent is ready wait for it.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import (
    AgentBusyError,
    AgentExitedError,
    PiwebError,
    StateValueError,
    SurfaceCommandError,
)
from ..wire.frames import CommandFinished, CommandResult, CommandStarted
from ..wire.host_frames import (
    SurfaceCommand,
    command_template,
    encode_args,
    encode_command_cancel,
    encode_surface_command,
)
from ..wire.json import JSON, dumps_strict
from ..wire.surface import Actor, surface_key
from .command import COMMAND_TIMEOUT, Command, JournalEntry, Stage, canonical, read_outcome
from .section import section
from .waiter import Waiter

if TYPE_CHECKING:
    from .session import AgentSession

__all__ = ["LEDGER_SIZE", "CommandLedger"]

# Ids remembered so that a resend does not run twice, and finished commands kept in the journal.
LEDGER_SIZE = 10_000

# Lines that only lack their id and arguments, kept so that a command is quickly written.
_MOST_TEMPLATES = 1000

# Results and arguments above this size are not kept in the journal.
_KEEP_BYTES = 64 * 1024


class CommandLedger:
    """Every command of one session, from its sender to its outcome. Safe from any thread.

    A command is in `pending` from just before it is written until it is settled; dict operations
    are atomic under the GIL, and it is settled under a lock, once.
    """

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._ids = itertools.count(1)
        self._lock = section()
        self.settling = section()
        self.waiters: list[Waiter] = []
        self.pending: dict[str, Command] = {}
        self._templates: dict[tuple[str, str, Actor], bytes] = {}
        self._keys: dict[str, str] = {}
        # Has the calling thread read its answer itself; see `Stdout.read_here`.
        self.read_answer: Callable[[Waiter, Command], bool] = _read_nothing
        # Leaves the answers to `piweb-io`, which tells of them; see `Stdout.claim`.
        self.claim_answers: Callable[[], None] = _claim_nothing
        self._seen: OrderedDict[str, Command] = OrderedDict()
        self._finished: deque[Command | JournalEntry] = deque(maxlen=LEDGER_SIZE)
        self._expiry_at = float("inf")

    def __repr__(self) -> str:
        return f"<CommandLedger: {len(self.pending)} pending, {len(self._finished)} finished>"

    # ------------------------------------------------------------ out

    def submit(
        self,
        domain: str,
        action: str,
        args: JSON,
        actor: Actor,
        timeout: float = COMMAND_TIMEOUT,
        id_: str | None = None,
        if_rev: int | None = None,
        epoch: int | None = None,
    ) -> Command:
        """Take a command on; see `Surface.submit`. What goes wrong later is the command's error.

        Raises:
            StateValueError: If the arguments are not JSON.
        """
        session = self._session
        number = next(self._ids)
        correlation_id = f"c{number}"
        try:
            if if_rev is None:
                template = self._templates.get((domain, action, actor))
                if template is None:
                    template = self._make_template(domain, action, actor)
                frame = template % (number, encode_args(args))
            else:
                frame = encode_surface_command(
                    SurfaceCommand(correlation_id, domain, action, args, actor, if_rev)
                )
        except (TypeError, ValueError):
            dumps_strict(args, f"the arguments of {action!r}")
            raise StateValueError(f"the arguments of {action!r} are not JSON") from None
        command = Command(
            self,
            id_ or correlation_id,
            correlation_id,
            domain,
            self._keys.get(domain) or self._key(domain),
            action,
            actor,
            session.epoch,
            frame,
            timeout,
            id_ is not None,
        )
        if id_ is not None and (known := self._first(command)) is not command:
            return known
        if epoch is not None and epoch != session.epoch:
            text = "the agent was started again since this was clicked"
            self._settle(command, "failed", error=SurfaceCommandError("stale", text))
        elif session.lifecycle == "ready" or not session.when_ready(
            lambda error: self._release(command, error)
        ):
            self._write(command)
        return command

    def cancel(self, command: Command) -> None:
        """Ask the agent to stop a command, where it can be asked; else wait for it no longer."""
        if command.done:
            return
        if command.correlation_id not in self.pending:
            self.forget(command, "cancelled", "cancelled", "cancelled before it was sent")
        elif self._session.spec_of(command.domain) is not None:
            self._session.write_quietly(encode_command_cancel(command.correlation_id))
        else:
            text = "no longer waited for; it may still run"
            self.forget(command, "cancelled", "cancelled", text)

    def forget(self, command: Command, stage: Stage, code: str, message: str) -> None:
        """Settle a command without the agent."""
        self.pending.pop(command.correlation_id, None)
        self._settle(command, stage, error=SurfaceCommandError(code, message))

    def call(self, fn: Callable[..., None], command: Command) -> None:
        """Hand a callback of the user's to the callback thread."""
        self._session.news.call(fn, command)

    def _make_template(self, domain: str, action: str, actor: Actor) -> bytes:
        template = command_template(domain, action, actor)
        if len(self._templates) < _MOST_TEMPLATES:
            self._templates[domain, action, actor] = template
        return template

    def _key(self, domain: str) -> str:
        if len(self._keys) > _MOST_TEMPLATES:
            self._keys.clear()
        return self._keys.setdefault(domain, surface_key(domain))

    def _first(self, command: Command) -> Command:
        """Remember a command under its sender's id; the one that had it before, if one had."""
        with self._lock:
            held = self._seen.setdefault(command.id, command)
            if held is command and len(self._seen) > LEDGER_SIZE:
                self._seen.popitem(last=False)
            return held

    def _release(self, command: Command, error: PiwebError | None) -> None:
        if command.done:
            return
        if error is None:
            self._write(command)
        else:
            self._settle(command, "failed", error=error)

    def _write(self, command: Command) -> None:
        session = self._session
        if session.lifecycle != "ready" and (gone := session.gone()) is not None:
            self._settle(command, "failed", error=gone)
            return
        command.rev_before = session.mirror.rev(command.key)
        command.deadline = deadline = time.monotonic() + command.timeout
        command.stage = "written"
        self.pending[command.correlation_id] = command
        try:
            session.write(command.frame)
        except (AgentExitedError, AgentBusyError) as exc:
            if self.pending.pop(command.correlation_id, None) is not None:
                self._settle(command, "lost", error=session.gone() or exc)
            return
        if (
            session.lifecycle != "ready"
            and self.pending.pop(command.correlation_id, None) is command
        ):
            # It ended between the check and the write, and has told those that waited then.
            self._settle(command, "lost", error=session.gone() or AgentExitedError(None))
            return
        if deadline < self._expiry_at:
            self._expiry_at = deadline
            session.later(command.timeout, self._expire)
        if command.watched:
            self.claim_answers()
            session.news.command(command)

    # ------------------------------------------------------------ back

    def take_started(self, started: CommandStarted) -> None:
        """The agent has accepted a command: from now on it may take its time."""
        command = self.pending.get(started.correlation_id)
        if command is not None and not command.done:
            command.stage = "running"
            if command.watched:
                self._session.news.command(command)

    def take_result(self, result: CommandResult, size: int) -> None:
        """The agent has answered. A late answer to a lost command is nobody's."""
        command = self.pending.pop(result.correlation_id, None)
        if command is None:
            return
        if command.done:  # by `take_answer`, which was interrupted behind that
            if command not in self._finished:
                self._finished.append(command)
            return
        command.rev_after = self._session.mirror.rev(command.key)
        if result.ok:
            self._settle(command, "done", result.data, None, size)
        else:
            stage, error = read_outcome(result)
            self._settle(command, stage, None, error, size)

    def take_answer(self, result: CommandResult, wanted: object) -> bool | None:
        """`take_result` on a thread that waits for the command `wanted`: was it that one's?

        None: somebody else has to be told of it, which is for `piweb-io`. An interrupt may leave
        it anywhere; the command stays in `pending` until all is done.
        """
        command = self.pending.get(result.correlation_id)
        if command is None:
            return False
        if command.watched:
            return None
        if result.ok:
            stage: Stage = "done"
            data, error = result.data, None
        else:
            data = None
            stage, error = read_outcome(result)
        with self.settling:
            command.rev_after = self._session.mirror.rev(command.key)
            if not command.settle_unheard(command is wanted, stage, data, error):
                return None
        if len(command.frame) > _KEEP_BYTES:
            command.frame = b""
        self._finished.append(command)
        self.pending.pop(command.correlation_id, None)
        return command is wanted

    def take_finished(self, finished: CommandFinished) -> None:
        """Somebody in the agent's process has run a command: the model, as a tool."""
        self._finished.append(
            JournalEntry(
                time.time(),
                finished.domain,
                finished.action,
                canonical(finished.args, _KEEP_BYTES),
                finished.actor,
                not finished.code,
                finished.code,
                finished.rev_before,
                finished.rev_after,
            )
        )

    def is_awaited(self) -> bool:
        """Whether somebody waits to be told of a pending command's outcome."""
        return any(command.watched or command.is_awaited for command in list(self.pending.values()))

    def fail_all(self, error: PiwebError) -> None:
        """The agent is gone: every pending command is lost."""
        self._expiry_at = float("inf")
        while self.pending:
            _, command = self.pending.popitem()
            self._settle(command, "lost", error=error)
        self.waiters.clear()

    def seen(self, id_: str) -> Command | None:
        """The command that a view sent under that id, among the last `LEDGER_SIZE`."""
        return self._seen.get(id_)

    def journal(self, domain: str | None = None) -> list[JournalEntry]:
        """The finished commands, oldest first."""
        return [
            finished if isinstance(finished, JournalEntry) else finished.entry()
            for finished in list(self._finished)
            if domain is None or finished.domain == domain
        ]

    def _settle(
        self,
        command: Command,
        stage: Stage,
        data: JSON = None,
        error: PiwebError | None = None,
        size: int = 0,
    ) -> None:
        with self.settling:
            if command.done:
                return
            waiter, callbacks = command.settle(stage, data, error)
        if command.watched:
            self._session.news.command(command)
            if size > _KEEP_BYTES:
                command.data = None
        if len(command.frame) > _KEEP_BYTES:
            command.frame = b""
        self._finished.append(command)
        if callbacks:
            for fn in callbacks:
                self.call(fn, command)
        if waiter is not None:
            waiter.wake()  # last: from here on two threads want the interpreter

    def _expire(self) -> None:
        """On `piweb-io`: what was not accepted in time is lost; look again when the next is due."""
        now = time.monotonic()
        following = float("inf")
        for command in list(self.pending.values()):
            if command.stage != "written":
                continue
            if command.deadline > now:
                following = min(following, command.deadline)
                continue
            text = (
                f"{command.domain}.{command.action} was not accepted within "
                f"{command.timeout:g} s; it may still run, watch the state"
            )
            self.forget(command, "lost", "TIMEOUT", text)
        self._expiry_at = following
        if following != float("inf"):
            self._session.later(max(0.0, following - now), self._expire)


def _read_nothing(_waiter: Waiter, _command: Command) -> bool:
    return False


def _claim_nothing() -> None:
    pass

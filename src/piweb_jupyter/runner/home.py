"""One surface of the running agent: whose turn it is, and the commands on their way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ..agent.context import Context
from ..agent.models import encode_value
from ..agent.surface import Surface
from ..errors import StateValueError, SurfaceCommandError
from ..wire.frames import (
    CommandFinished,
    encode_command_finished,
    encode_command_result,
    encode_command_started,
    result_template,
)
from ..wire.json import JSON, dumps, dumps_strict
from .outcome import Outcome
from .report import report_failure, say
from .spawned import SpawnedWork
from .surface_state import SurfaceState

if TYPE_CHECKING:
    from .runtime import Runtime

__all__ = ["Home"]

_CANCELLED = "the command was cancelled"


class Home:
    """Where one surface lives. `submit` and `cancel` are safe from any thread."""

    def __init__(self, surface: Surface[Any], runtime: Runtime, active: dict[str, Outcome]) -> None:
        self.surface = surface
        self.domain = surface.domain
        self._writer = runtime.writer
        self._put_line = runtime.writer.put
        self._flush = runtime.writer.flush
        self._loop = runtime.loop
        self._store = runtime.store
        self._active = active
        self._commands = dict(surface.commands)
        self._answers = {name: result_template(surface.domain, name) for name in self._commands}
        self._state = SurfaceState(surface, surface.settle(self), runtime.store, runtime.writer)
        self._spawned = SpawnedWork(surface.domain, runtime.loop)
        # What contexts and the surface itself ask for.
        self.get = self._state.get
        self.set_state = self._state.set
        self.spawn = self._spawned.spawn
        self.cancel_spawned = self._spawned.cancel
        self.cancel_spawned_by = self._spawned.cancel_of
        # Held for a moment, to decide whose turn it is.
        self._turn = threading.RLock()
        self._busy = False
        self._gated = False
        self._waiting: deque[Outcome] = deque()

    @property
    def rev(self) -> int:
        """The revision last sent, or -1."""
        return self._store.rev(self._state.key)

    def start(self) -> None:
        """Line up the initial state, or bring it from where `hydrate` has it."""
        if self.surface.hydrate_with is None:
            self._state.show()
            return
        from .hydrate import start_hydrate

        self._gated = self._busy = True
        start_hydrate(
            self.surface.hydrate_with, self.domain, self._state, self._loop, self._open_gate
        )

    def _open_gate(self) -> None:
        """Hydrate is over: let in what has waited for it."""
        self._flush()
        with self._turn:
            self._gated = False
            waiting, self._waiting = self._waiting, deque()
            first = [outcome for outcome in waiting if outcome.command.concurrent]
            self._waiting.extend(o for o in waiting if not o.command.concurrent)
            for outcome in first:
                outcome.queued = False
        for outcome in first:
            self._start(outcome)
        self._next()

    # ------------------------------------------------------------ commands, in turn

    def submit(self, outcome: Outcome) -> None:
        """Run a command now, or when its turn comes."""
        outcome.home = self
        command = self._commands.get(outcome.action)
        if command is None:
            from .surfaces import describe_unknown

            self._fail(outcome, "unknown_action", describe_unknown(outcome.action, self._commands))
            return
        outcome.command = command
        if command.arguments is not None:
            try:
                outcome.args = command.arguments.bind(outcome.args)
            except SurfaceCommandError as exc:
                self._fail(outcome, exc.code, exc.message, exc.details)
                return
        outcome.context = Context(self, outcome.action, outcome.actor, outcome.correlation_id)
        concurrent = command.concurrent
        with self._turn:
            if self._gated or (self._busy and not concurrent):
                self._remember(outcome)
                outcome.queued = True
                self._waiting.append(outcome)
                return
            if not concurrent:
                self._busy = True
        if self._start(outcome) and not concurrent:
            self._next()

    def _next(self) -> None:
        """Give the turn to those who wait, until one of them keeps it."""
        while True:
            with self._turn:
                if not self._waiting:
                    self._busy = False
                    return
                outcome = self._waiting.popleft()
                outcome.queued = False
            if not self._start(outcome):
                return

    def _start(self, outcome: Outcome) -> bool:
        """Begin a command; True if it has ended already."""
        command, context = outcome.command, outcome.context
        if command.guard and outcome.if_rev is not None:
            rev = self.rev
            if rev != outcome.if_rev:
                self._fail(
                    outcome,
                    "stale",
                    f"`{outcome.action}` was asked for at rev {outcome.if_rev}, "
                    f"and the state is at rev {rev} now",
                    {"rev": rev},
                )
                return True
        try:
            if command.arguments is None:
                value = command.function(outcome.args, context)
            else:
                value = command.function(context, **outcome.args)
        except SystemExit:
            raise
        except BaseException as exc:
            self._fail_with(outcome, exc)
            return True
        if type(value) is not CoroutineType:
            self._succeed(outcome, value)
            return True
        self._remember(outcome)
        if self._loop.is_current():
            self._begin_task(outcome, value)
        else:
            self._loop.call(self._begin_task, outcome, value)
        return False

    def _remember(self, outcome: Outcome) -> None:
        """Keep it where a cancel of the host finds it."""
        if outcome.correlation_id:
            self._active[outcome.correlation_id] = outcome

    def _begin_task(self, outcome: Outcome, work: Coroutine[Any, Any, Any]) -> None:
        """On the loop: run the coroutine of an `async def` handler."""
        loop = self._loop.loop
        outcome.task = task = loop.create_task(self._drive(outcome, work))
        task.add_done_callback(lambda _: self._end_task(outcome, work))
        # After its first step: what has ended by then has not been seen to run.
        loop.call_soon(self._tell_if_running, outcome)
        if outcome.context.cancelled:
            task.cancel()

    async def _drive(self, outcome: Outcome, work: Coroutine[Any, Any, Any]) -> None:
        """Answer as soon as the handler has ended, in the same step of the loop."""
        self._writer.hold()  # for one step; `_tell_if_running` ends it if the handler waits
        try:
            value = await work
        except SystemExit:
            raise
        except BaseException as exc:
            self._fail_with(outcome, exc)
        else:
            self._succeed(outcome, value)
        finally:
            self._writer.release()

    def _tell_if_running(self, outcome: Outcome) -> None:
        if not outcome.done:
            if outcome.answers:
                self._writer.put(encode_command_started(outcome.correlation_id))
            self._writer.release()

    def _end_task(self, outcome: Outcome, work: Coroutine[Any, Any, Any]) -> None:
        if not outcome.done:  # it was cancelled before its first step
            work.close()
            self._fail(outcome, "cancelled", _CANCELLED)
        if not outcome.command.concurrent:
            self._next()

    def cancel(self, outcome: Outcome) -> None:
        """Take a waiting command out; tell a running one to stop."""
        with self._turn:
            waiting = outcome.queued
            if waiting:
                self._waiting.remove(outcome)
                outcome.queued = False
        told, outcome.context.cancelled = outcome.context.cancelled, True
        if waiting:
            self._fail(outcome, "cancelled", _CANCELLED)
        elif not told and self._loop.started:
            # A second time would hit the handler while it cleans up.
            self._loop.call(_cancel_task, outcome)

    # ------------------------------------------------------------ answers

    def _succeed(self, outcome: Outcome, value: Any) -> None:
        data = None
        command = outcome.command
        if value is not None:
            if type(value) is dict and value.get("ok") is False:
                error = value.get("error")
                if (
                    type(error) is dict
                    and type(error.get("code")) is str
                    and type(error.get("message")) is str
                ):
                    self._fail(outcome, error["code"], error["message"], error)
                    return
            try:
                data = encode_value(value, command.result_name)
            except StateValueError as exc:
                self._fail(outcome, "unserializable", str(exc))
                return
        if self._active:
            self._active.pop(outcome.correlation_id, None)
        if outcome.answers:
            given = b"" if data is None else b',"data":' + data
            self._put_line(self._answers[command.name] % (dumps(outcome.correlation_id), given))
            self._flush()
        else:
            self._tell_finished(outcome, "")
        outcome.succeed(data)

    def _fail_with(self, outcome: Outcome, exc: BaseException) -> None:
        if isinstance(exc, SurfaceCommandError):
            self._fail(outcome, exc.code, exc.message, exc.details)
            return
        if isinstance(exc, StateValueError):
            self._fail(outcome, "unserializable", str(exc))
            return
        if outcome.task is not None:
            import asyncio  # it is there: a task was running

            if isinstance(exc, asyncio.CancelledError):
                self._fail(outcome, "cancelled", _CANCELLED)
                return
        code = getattr(exc, "code", None)
        text = str(exc)
        if not text or isinstance(exc, KeyError):
            text = f"{type(exc).__name__}: {text}" if text else type(exc).__name__
        report_failure(f"command `{outcome.action}` of surface `{self.domain}` failed", exc)
        self._fail(outcome, code if isinstance(code, str) and code else "dispatch_failed", text)

    def _fail(
        self,
        outcome: Outcome,
        code: str,
        message: str,
        details: dict[str, JSON] | None = None,
    ) -> None:
        if details:
            details = {k: v for k, v in details.items() if k not in ("code", "message")}
            try:
                dumps_strict(details, f"details of `{code}`")
            except StateValueError as exc:
                say(f"left out of an error: {exc}")
                details = None
        self._active.pop(outcome.correlation_id, None)
        outcome.fail(str(code), str(message), details or None)
        if outcome.answers:
            self._writer.write(
                encode_command_result(
                    outcome.correlation_id,
                    self.domain,
                    outcome.action,
                    error=(outcome.code, outcome.message),
                    details=outcome.details,
                )
            )
        else:
            self._tell_finished(outcome, outcome.code)

    def _tell_finished(self, outcome: Outcome, code: str) -> None:
        """For the journal of the host, which has not asked for it."""
        finished = CommandFinished(
            self.domain,
            outcome.action,
            outcome.given,
            outcome.actor,
            code,
            outcome.rev_before,
            self.rev,
        )
        try:
            line = encode_command_finished(finished)
        except TypeError:  # what a model gives is JSON; a tool of the author's may give anything
            finished.args = None
            line = encode_command_finished(finished)
        self._writer.write(line)


def _cancel_task(outcome: Outcome) -> None:
    if outcome.task is not None:
        outcome.task.cancel()

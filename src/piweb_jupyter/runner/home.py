"""One surface of the running agent: its state, its turn, and its commands on their way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ..agent.context import Context, Spawned
from ..agent.models import encode_value
from ..agent.surface import Command, Surface
from ..errors import StateValueError, SurfaceCommandError
from ..wire.frames import (
    Cause,
    encode_cause,
    encode_command_result,
    encode_command_started,
    result_template,
)
from ..wire.json import JSON, dumps, dumps_strict
from ..wire.surface import Actor, surface_key
from .report import report_failure, say

if TYPE_CHECKING:
    import asyncio

    from .runtime import Runtime

__all__ = ["HYDRATE_DEADLINE", "Home", "Outcome"]

# Seconds that commands wait for a surface's hydrate; it may go on, and then changes nothing that
# a command has done.
HYDRATE_DEADLINE = 5.0

_CANCELLED = "the command was cancelled"


class Outcome:
    """A command on its way, and then what became of it.

    `data` is the result as JSON, or None when there is none. A failed command has a `code`, a
    `message` and perhaps `details`. Safe from any thread.
    """

    __slots__ = (
        "_after",
        "action",
        "actor",
        "answers",
        "args",
        "code",
        "command",
        "context",
        "correlation_id",
        "data",
        "details",
        "done",
        "home",
        "if_rev",
        "message",
        "queued",
        "task",
    )

    command: Command
    context: Context[Any]
    home: Home

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
        """`answers`: the host asked, and gets a frame; else who asked looks at this object."""
        self.action = action
        self.args = args
        self.actor: Actor = actor
        self.correlation_id = correlation_id
        self.if_rev = if_rev
        self.answers = answers
        self.done = False
        self.data: bytes | None = None
        self.code = ""
        self.message = ""
        self.details: dict[str, JSON] | None = None
        self.queued = False
        self.task: asyncio.Task[Any] | None = None
        self._after: list[Callable[[Outcome], object]] | None = None

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
        self._settle()

    def _settle(self) -> None:
        after = self._after
        while after:
            try:
                callback = after.pop()  # atomic: no two threads call the same one
            except IndexError:
                return
            callback(self)


class Home:
    """Where one surface lives. `submit` and `cancel` are safe from any thread."""

    def __init__(self, surface: Surface[Any], runtime: Runtime, active: dict[str, Outcome]) -> None:
        self.surface = surface
        self.domain = surface.domain
        self.key = surface_key(surface.domain)
        self._runtime = runtime
        self._writer = runtime.writer
        self._loop = runtime.loop
        self._store = runtime.store
        # What a change of the state calls, looked up once: an agent may push states in a loop.
        self._encode = surface.encode
        self._put = self._store.put
        self._put_line = self._writer.put
        self._flush = self._writer.flush
        self._active = active
        self._commands = dict(surface.commands)
        self._answers = {name: result_template(surface.domain, name) for name in self._commands}
        self._encoded = surface.settle(self)
        self._state = surface.decode(self._encoded)
        # Held while the state changes; a reducer may well ask for the state again.
        self._state_lock = threading.RLock()
        self._touched = False
        # Who changed the state last, and that as a part of a line: a command may push many states.
        self._changer: Context[Any] | None = None
        self._cause = b""
        # Held for a moment, to decide whose turn it is.
        self._turn = threading.Lock()
        self._busy = False
        self._gated = False
        self._waiting: deque[Outcome] = deque()
        self._spawned: dict[Spawned, Context[Any]] = {}

    # ------------------------------------------------------------ state

    def get(self) -> Any:
        return self._state

    def set_state(self, reducer: Any, context: Context[Any] | None) -> Any:
        """Replace the state, tell the host, return the new one; all or nothing."""
        with self._state_lock:
            if context is not self._changer:
                self._changer = context
                self._cause = b"" if context is None else _encode_cause(context)
            try:
                state = reducer(self._state) if callable(reducer) else reducer
                if state is None and self._state is not None:
                    raise StateValueError(
                        f"state of surface `{self.domain}`: the reducer returned nothing; "
                        "it must return the new state"
                    )
                encoded = self._encode(state)
            except BaseException:
                # It may have changed the old state in place before it failed.
                self._state = self.surface.decode(self._encoded)
                raise
            self._state, self._encoded, self._touched = state, encoded, True
            self._put(self.key, encoded, self._cause)
        self._flush()
        return state

    # ------------------------------------------------------------ the start

    def start(self) -> None:
        """Line up the initial state, or bring it from where `hydrate` has it."""
        if self.surface.hydrate_with is None:
            self._store.put(self.key, self._encoded)
            return
        self._gated = self._busy = True
        threading.Thread(
            target=self._hydrate, name=f"piweb-agent-hydrate-{self.domain}", daemon=True
        ).start()

    def _hydrate(self) -> None:
        """Wait for hydrate, with a bound; then let the commands in."""
        settled = threading.Event()
        self._run_hydrate(settled.set)
        if not settled.wait(HYDRATE_DEADLINE):
            say(
                f"surface `{self.domain}`: hydrate has not ended after {HYDRATE_DEADLINE:g} s; "
                "commands run on the initial state"
            )
        with self._state_lock:
            if not self._touched and self._store.rev(self.key) < 0:
                self._store.put(self.key, self._encoded)
        self._writer.flush()
        self._open_gate()

    def _run_hydrate(self, settled: Callable[[], None]) -> None:
        function = self.surface.hydrate_with
        assert function is not None

        def end(value: Any, exc: BaseException | None) -> None:
            try:
                if exc is not None:
                    raise exc
                self._apply_hydrated(value)
            except BaseException as failure:
                report_failure(f"surface `{self.domain}`: hydrate failed", failure)
            finally:
                settled()

        def run() -> None:
            try:
                value = function()
            except BaseException as exc:
                end(None, exc)
                return
            if type(value) is CoroutineType:
                future = self._loop.run(value)
                future.add_done_callback(
                    lambda done: (
                        end(None, _cancelled())
                        if done.cancelled()
                        else end(None, done.exception())
                        if done.exception() is not None
                        else end(done.result(), None)
                    )
                )
            else:
                end(value, None)

        threading.Thread(
            target=run, name=f"piweb-agent-hydrating-{self.domain}", daemon=True
        ).start()

    def _apply_hydrated(self, value: Any) -> None:
        if value is None:
            return
        encoded = self.surface.encode(value)
        with self._state_lock:
            if self._touched:
                say(
                    f"surface `{self.domain}`: what hydrate brought was left out, "
                    "for the state has been changed meanwhile"
                )
                return
            self._state, self._encoded = value, encoded
            self._store.put(self.key, encoded)
        self._writer.flush()

    def _open_gate(self) -> None:
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
            rev = self._store.rev(self.key)
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
                    rest = {k: v for k, v in error.items() if k not in ("code", "message")}
                    self._fail(outcome, error["code"], error["message"], rest)
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

    # ------------------------------------------------------------ work that outlives its command

    def spawn(self, work: Coroutine[Any, Any, Any], context: Context[Any]) -> Spawned:
        if type(work) is not CoroutineType:
            raise TypeError("spawn takes a coroutine: ctx.spawn(work(…)) with `async def work`")
        task: list[asyncio.Task[Any]] = []
        loop = self._loop

        def stop(spawned: Spawned) -> None:
            spawned.cancelled = True
            loop.call(lambda: task and task[0].cancel())

        spawned = Spawned(stop)
        self._spawned[spawned] = context

        def begin() -> None:
            task.append(loop.loop.create_task(work))
            task[0].add_done_callback(end)
            if spawned.cancelled:
                task[0].cancel()

        def end(task: asyncio.Task[Any]) -> None:
            work.close()
            self._spawned.pop(spawned, None)
            spawned.done = True
            if not task.cancelled() and (exc := task.exception()) is not None:
                report_failure(
                    f"work spawned by `{context.action}` of surface `{self.domain}` failed", exc
                )

        loop.call(begin)
        return spawned

    def cancel_spawned(self) -> int:
        running = list(self._spawned)
        for spawned in running:
            spawned.cancel()
        return len(running)

    def cancel_spawned_by(self, correlation_id: str) -> None:
        for spawned, context in list(self._spawned.items()):
            if context.correlation_id == correlation_id:
                context.cancelled = True
                spawned.cancel()


def _encode_cause(context: Context[Any]) -> bytes:
    return encode_cause(Cause(context.correlation_id, context.action, context.actor))


def _cancel_task(outcome: Outcome) -> None:
    if outcome.task is not None:
        outcome.task.cancel()


def _cancelled() -> BaseException:
    import asyncio

    return asyncio.CancelledError()

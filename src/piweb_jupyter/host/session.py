"""AgentSession: one agent, from its start to its end and over its restarts.

It joins the parts of this room: the process moves lines, the mirror holds state, the chat folds
events, the ledger follows commands. Frames arrive on `piweb-io`, where nothing may block and
nothing of the user's may run; states and answers also on a thread that waits for one (`Stdout`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

from ..errors import (
    AgentBusyError,
    AgentExitedError,
    AgentLaunchError,
    AgentStartError,
    PiwebError,
    SurfaceCommandError,
    describe_exit,
)
from ..sources.spec import Fingerprint, LaunchSpec, list_changes
from ..wire import host_frames
from ..wire.json import JSON, dumps_strict
from ..wire.surface import SurfaceSpec, domain_of, surface_key
from .callbacks import get_callbacks
from .catalogue import Catalogue
from .chat import Chat
from .intake import Intake
from .ledger import CommandLedger
from .log import SessionLog
from .mirror import StateMirror
from .news import News, SessionNews
from .process import AgentProcess
from .pump import Timer, get_pump
from .questions import Questions
from .requests import Request, Requests
from .section import may_wait, refuse_inside, section
from .surface import Channel, Surface
from .transcript import Transcript
from .turn import Turn

__all__ = ["READY_NOTICE", "READY_TIMEOUT", "AgentSession", "Lifecycle"]

# A person should know by then that it takes longer than usual.
READY_NOTICE = 10.0

# pi-web's runner takes 7 to 42 s to start on a loaded machine; beyond this it is not coming.
READY_TIMEOUT = 90.0

# What an agent has not sent so long after it became ready is gone: pi-web's runner sends its first
# states just after the ready frame.
_STALE_GRACE = 1.0

# The ladder of `AgentProcess.close` has two rungs of 2 s; a reaper needs a moment more.
_STOP_TIMEOUT = 6.0

Lifecycle: TypeAlias = Literal["starting", "ready", "error", "ended"]


class AgentSession:
    """One agent process, the mirror of its state and the transcript of its chat.

    Every method is safe from any thread and none blocks, but for `request`, `set_model`,
    `clear_queue`, `wait_ready`, `stop`, `restart` and `close`, which say how long. A session
    outlives its process: after an end, `restart()` or the next prompt begins a new life, an
    `epoch`.
    """

    def __init__(self, spec: LaunchSpec, *, name: str | None = None) -> None:
        self.spec = spec
        self.name = name or spec.name
        self.epoch = 0
        self.lifecycle: Lifecycle = "ended"
        self.detail = "not started"
        self.closed = False
        self.changes: tuple[str, ...] = ()
        self.log = SessionLog()
        self.mirror = StateMirror()
        self.catalogue = Catalogue(self.mirror)
        self.news = News(self)
        self.ledger = CommandLedger(self)
        self.chat = Chat(self)
        self.declarations: dict[str, dict[str, JSON]] = {}
        self.requests = Requests(self._write_request, self.later)
        self.requests.fail(AgentExitedError(None))

        self._lock = section()
        self._changed = threading.Condition(self._lock)
        self._process: AgentProcess | None = None
        self._fingerprint: Fingerprint = {}
        self._failure: PiwebError | None = None
        self._held: list[Callable[[PiwebError | None], None]] = []
        self._timers: set[Timer] = set()
        self._restarter: threading.Thread | None = None
        get_callbacks().hold()

    def __repr__(self) -> str:
        return f"<AgentSession {self.name}: {self.lifecycle}>"

    def __enter__(self) -> AgentSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ what it is

    @property
    def pid(self) -> int | None:
        """The agent's process id while it lives."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def transcript(self) -> Transcript:
        """The conversation so far."""
        return self.chat.transcript

    @property
    def questions(self) -> Questions:
        """What the agent's extensions have asked and nobody has answered."""
        return self.chat.questions

    @property
    def busy(self) -> bool:
        """Whether a run is going on."""
        return self.chat.busy

    @property
    def model(self) -> str:
        """The model, `provider/id`; empty while there is none."""
        return self.chat.model

    @property
    def title(self) -> str:
        """The title that the agent has set, or the source's."""
        return self.transcript.meta["title"] or self.spec.title or self.name

    @property
    def surfaces(self) -> tuple[str, ...]:
        """The domains of the agent's surfaces, in order of appearance."""
        return self.catalogue.names()

    def surface(self, domain: str | None = None) -> Surface:
        """One surface; without a domain the only one there is.

        Raises:
            SurfaceCommandError: (`unavailable`) If none was named and there is not exactly one.
        """
        if domain is None:
            if self.lifecycle == "starting":
                self.wait_ready()
            known = self.surfaces
            if len(known) != 1:
                names = ", ".join(known) or "none"
                text = f"name the surface: {self.name} has {names}"
                raise SurfaceCommandError("unavailable", text)
            domain = known[0]
        return Surface(self, domain)

    def spec_of(self, domain: str) -> SurfaceSpec | None:
        """What the agent has declared of a surface; None for a peer that declares nothing."""
        return self.catalogue.spec(domain)

    def is_available(self, domain: str) -> bool:
        """Whether the living agent has that surface."""
        return self.lifecycle == "ready" and domain in self.catalogue.live()

    def channel(self, domain: str) -> Channel:
        """How an operation on a surface would travel now."""
        if not self.is_available(domain):
            return "unavailable"
        return "prompt" if self.model else "command"

    def gone(self) -> PiwebError | None:
        """Why nothing can be asked of the agent now; None while it lives or starts."""
        if self.lifecycle in ("ready", "starting"):
            return None
        if self._failure is not None:
            return self._failure
        text = f"{self.name} is not running; start it with `%piweb restart {self.name}`"
        return AgentExitedError(None, message=text)

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Start the agent, if it is not running. Returns once it is spawned, before it is ready.

        Raises:
            AgentLaunchError: If the program cannot be started.
        """
        with self._lock:
            if self.closed:
                text = f"session {self.name!r} is closed; open it anew with `%piweb`"
                raise AgentExitedError(None, message=text)
            if self.lifecycle in ("starting", "ready"):
                return
            self.epoch = epoch = self.epoch + 1
            self._failure = None
            self.declarations = {}
            self.catalogue.begin_epoch(epoch)
            self.requests = Requests(self._write_request, self.later)
            stale = self.mirror.begin_epoch(epoch)
            self.changes = ()
            self._fingerprint = self.spec.take_fingerprint()
            self._set_lifecycle("starting", "")
            for key in stale:
                self.news.state(key)
            if epoch > 1:
                self.chat.change(lambda t: t.note("info", "The agent was started again."))
            intake = Intake(self, epoch)
            self._process = process = AgentProcess(
                self.spec.argv,
                cwd=self.spec.cwd,
                env=self.spec.env,
                on_lines=intake.take_lines,
                on_stderr=self.log.feed,
                on_oversize=intake.take_oversize,
                on_exit=lambda returncode: self._on_exit(epoch, returncode),
                borrowing=intake,
                start=False,
            )
            self.ledger.read_answer = process.read_here
            self.ledger.claim_answers = process.claim_stdout
        try:
            # Outside the lock: `piweb-io` spawns it, and a callback there may want the lock.
            process.start()
        except AgentLaunchError as exc:
            self._end(epoch, "error", exc)
            raise
        self.later(READY_NOTICE, lambda: self._on_slow_start(epoch))
        self.later(READY_TIMEOUT, lambda: self._on_no_start(epoch))
        # pi has no ready frame: the answer to the first question is the signal.
        self.requests.send("get_state", {}, lambda request: self._on_first_state(epoch, request))

    def wait_ready(self, timeout: float = READY_TIMEOUT + 5) -> AgentSession:
        """Wait until the agent takes commands.

        Raises:
            AgentStartError: If it ended, or did not become ready, first.
            AgentExitedError: If it is not running.
            NestedWaitError: If this is a finalizer that has interrupted us.
            TimeoutError: If `timeout` seconds passed.
        """
        if self.lifecycle == "starting":
            refuse_inside()
        with self._changed:
            if not self._changed.wait_for(lambda: self.lifecycle != "starting", timeout):
                raise TimeoutError(f"{self.name} is not ready after {timeout:g} s")
        if (gone := self.gone()) is not None:
            raise gone
        return self

    def look_for_changes(self) -> tuple[str, ...]:
        """Compare the files of the source with what they were when the agent was started.

        What is found is `changes` from then on, and views show it beside a restart button.
        """
        changes = list_changes(self.spec, self._fingerprint) if self.epoch else ()
        if changes != self.changes:
            self.changes = changes
            self.news.lifecycle()
        return changes

    def when_ready(self, fn: Callable[[PiwebError | None], None]) -> bool:
        """Keep `fn` until the agent is ready (`fn(None)`) or has failed. False: it is one or the
        other already, and `fn` was not taken."""
        with self._lock:
            if self.lifecycle != "starting":
                return False
            self._held.append(fn)
            return True

    def stop(self) -> None:
        """End the agent; the session, its transcript and its last snapshots stay. At most 6 s.

        A finalizer that has interrupted us cannot wait for that; it goes on at once.
        """
        self.stop_soon()
        self._wait_process()

    def stop_soon(self) -> None:
        """`stop` for whoever may not wait."""
        self._begin_stop(f"{self.name} was stopped; start it with `%piweb restart {self.name}`")

    def restart(self) -> None:
        """End the agent and start it again, with a new epoch. At most 6 s until it is spawned.

        Raises:
            AgentLaunchError: If the program cannot be started any more.
        """
        self.stop()
        self.start()

    def restart_soon(self) -> None:
        """`restart` for whoever may not wait: a view. Its failure shows in the lifecycle."""
        with self._lock:
            if self.closed or (self._restarter is not None and self._restarter.is_alive()):
                return
            self._restarter = threading.Thread(
                target=self._restart_quietly, name=f"piweb-restart-{self.name}", daemon=True
            )
            self._restarter.start()

    def close(self) -> None:
        """End the agent and let go of everything. Idempotent; at most 6 s.

        A finalizer that has interrupted us cannot wait for that; it goes on at once.
        """
        self.close_soon()
        self._wait_process()
        restarter = self._restarter
        if restarter is not None and restarter is not threading.current_thread() and may_wait():
            restarter.join(_STOP_TIMEOUT)

    def close_soon(self) -> None:
        """The first half of `close`: say it and return, so that many can end at once."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
        self._begin_stop(f"session {self.name!r} is closed; open it anew with `%piweb`")
        get_callbacks().release()

    def _restart_quietly(self) -> None:
        try:
            self.restart()
        except PiwebError as exc:
            self.log.note(str(exc))

    def _begin_stop(self, why: str) -> None:
        process, epoch = self._process, self.epoch
        self._end(epoch, "ended", AgentExitedError(None, message=why))
        if process is not None:
            process.close()

    def _wait_process(self) -> None:
        process = self._process
        if process is not None and may_wait():
            process.wait(_STOP_TIMEOUT)

    def _on_slow_start(self, epoch: int) -> None:
        if epoch == self.epoch and self.lifecycle == "starting":
            self.detail = f"still starting after {READY_NOTICE:g} s; its log may say why"
            self.chat.change(lambda t: t.note("info", f"The agent is {self.detail}."))
            self.news.lifecycle()

    def _on_no_start(self, epoch: int) -> None:
        if epoch != self.epoch or self.lifecycle != "starting":
            return
        text = (
            f"{self.name} was not ready after {READY_TIMEOUT:g} s; "
            f"`%piweb logs {self.name}` may say why, `%piweb restart {self.name}` tries again"
        )
        process = self._process
        self._end(epoch, "error", AgentStartError("ready-frame-missing", text, self.log.tail()))
        if process is not None:
            process.close()

    def _on_first_state(self, epoch: int, request: Request) -> None:
        response = request.response
        if epoch != self.epoch or response is None:
            return
        self.chat.take_answer(response)
        self.become_ready(epoch)
        data = response.data
        if type(data) is dict and data.get("messageCount") and not self.transcript.messages:
            self.requests.send("get_messages", {}, self.chat.take_messages)

    def become_ready(self, epoch: int) -> None:
        """The agent takes commands: what waits for that goes now."""
        with self._lock:
            if epoch != self.epoch or self.lifecycle != "starting":
                return
            held, self._held = self._held, []
            self._set_lifecycle("ready", "")
        for fn in held:
            fn(None)
        self.requests.send("get_commands", {}, lambda request: self._on_commands(epoch, request))
        self.later(_STALE_GRACE, lambda: self._drop_stale(epoch))

    def _drop_stale(self, epoch: int) -> None:
        if epoch != self.epoch or self.lifecycle != "ready":
            return
        # A surface that still hydrates has said that it is coming.
        live = frozenset(surface_key(domain) for domain in self.catalogue.live())
        self.catalogue.drop_stale()
        for key in self.mirror.drop_stale(live):
            self.news.state(key)
        self.news.lifecycle()

    def _on_commands(self, epoch: int, request: Request) -> None:
        if epoch == self.epoch and request.response is not None:
            self.catalogue.list_commands(request.response)
            self.news.lifecycle()

    def _on_exit(self, epoch: int, returncode: int) -> None:
        self.log.flush()
        if epoch != self.epoch:
            return
        tail = self.log.tail()
        if self.lifecycle == "starting":
            text = f"{self.name} did not start: {_explain_exit(returncode, tail)}"
            self._end(epoch, "error", AgentStartError("exit-before-ready", text, tail))
        elif self.lifecycle == "ready":
            text = f"{describe_exit(returncode)}; start it with `%piweb restart {self.name}`"
            self._end(epoch, "ended", AgentExitedError(returncode, tail, text))

    def _end(self, epoch: int, lifecycle: Lifecycle, error: PiwebError) -> None:
        """This life is over: everything that waits is told, once, and why."""
        with self._lock:
            if epoch != self.epoch or self.lifecycle not in ("starting", "ready"):
                return
            self._failure = error
            timers, self._timers = self._timers, set()
            waiting, self._held = self._held, []
            self._set_lifecycle(lifecycle, str(error))
        for timer in list(timers):
            timer.cancel()
        self.requests.fail(error)
        for fn in waiting:
            fn(error)
        self.ledger.fail_all(error)
        self.chat.end(error)
        for held in self.mirror.held():
            self.news.state(held.key)

    def _set_lifecycle(self, lifecycle: Lifecycle, detail: str) -> None:
        self.lifecycle = lifecycle
        self.detail = detail
        self._changed.notify_all()
        self.news.lifecycle()

    # ------------------------------------------------------------ the conversation

    def prompt(self, text: str, *, images: tuple[dict[str, str], ...] = ()) -> Turn:
        """Send a prompt; return its turn at once. An agent that has ended is started again.

        Args:
            images: pi's image blocks, `{"type": "image", "data": base64, "mimeType": …}`.

        Raises:
            RequestError: If the agent is still answering: use `steer` or `follow_up`.
            AgentLaunchError: If it had to be started and could not.
        """
        if self.lifecycle in ("ended", "error"):
            self.start()
        return self.chat.prompt(text, images)

    def steer(self, text: str) -> None:
        """Reach the running turn: delivered after the tools that run now."""
        self.chat.say("steer", text)

    def follow_up(self, text: str) -> None:
        """Queue a message for when the turn would end."""
        self.chat.say("follow_up", text)

    def abort(self) -> list[str]:
        """Stop the run. Open questions are cancelled, queued messages come back, unsent."""
        return self.chat.abort()

    def clear_queue(self, timeout: float = 5.0) -> tuple[list[str], list[str]]:
        """Take back the queued messages: (steering, follow-ups). Blocks, at most `timeout` s.

        A finalizer that has interrupted us has them at once; the agent may still send one.
        """
        done = threading.Event()
        texts = self.chat.take_queue(done.set)
        if may_wait():
            done.wait(timeout)
        return texts

    def set_model(self, model: str, timeout: float = 30.0) -> None:
        """Switch the model, named `provider/id` (pi) or `provider:id`. Blocks.

        Raises:
            RequestError: If the agent does not have it.
        """
        provider, _, model_id = model.partition("/" if "/" in model else ":")
        self.request("set_model", timeout, provider=provider, modelId=model_id or provider)

    def request(self, command: str, timeout: float = 30.0, /, **fields: JSON) -> JSON:
        """Send any of pi's commands and wait for its data, at most `timeout` s.

        Raises:
            RequestError: If the agent refuses, or does not answer in time.
            AgentExitedError: If it is gone.
        """
        self.wait_ready()
        return self.chat.request(command, timeout, fields)

    def answer(self, question_id: str, value: str | bool | None) -> bool:
        """Answer an open question; None cancels it. False: it is not open (any more)."""
        return self.chat.answer(question_id, value)

    def subscribe(self, fn: Callable[[SessionNews], None]) -> Callable[[], None]:
        """Have `fn(news)` called on `piweb-callbacks`, in order. Returns what ends it."""
        return self.news.subscribe(fn)

    # ------------------------------------------------------------ the shared state

    @property
    def state(self) -> dict[str, JSON]:
        """The shared state: every key but the surfaces', decoded afresh."""
        return {
            held.key: held.value()
            for held in self.mirror.held()
            if not held.stale and domain_of(held.key) is None
        }

    def set_state(self, key: str, value: JSON) -> None:
        """Ask the agent to set a preference; the new value comes back in `state`.

        Raises:
            StateValueError: If the value is not JSON.
            SurfaceCommandError: (`forbidden`) For a key of a surface: only commands change those.
        """
        _refuse_surface_key(key)
        self._write_when_ready(host_frames.encode_state_set(key, dumps_strict(value, key)))

    def delete_state(self, key: str) -> None:
        """Ask the agent to delete a preference.

        Raises:
            SurfaceCommandError: (`forbidden`) For a key of a surface.
        """
        _refuse_surface_key(key)
        self._write_when_ready(host_frames.encode_state_delete(key))

    # ------------------------------------------------------------ what its parts use

    def write(self, line: bytes) -> None:
        """Send one line to the agent. Never blocks.

        Raises:
            AgentExitedError: If it is gone.
            AgentBusyError: If it has stopped reading.
        """
        process = self._process
        if process is None:
            raise self.gone() or AgentExitedError(None)
        process.send(line)

    def _write_request(self, line: bytes) -> None:
        self.ledger.claim_answers()  # piweb-io has to read what comes back
        self.write(line)

    def write_quietly(self, line: bytes) -> None:
        """`write` where nobody waits: a failure goes to the log."""
        try:
            self.write(line)
        except (AgentExitedError, AgentBusyError) as exc:
            self.log.note(f"not sent: {exc}")

    def later(self, delay: float, fn: Callable[[], None]) -> None:
        """Have `fn()` called on `piweb-io` after `delay` seconds, if this life lasts so long."""
        timers = self._timers
        mine: list[Timer] = []  # empty while `run` overtakes the assignment

        def run() -> None:
            timers.difference_update(mine)
            fn()

        mine.append(get_pump().call_later(delay, run))
        timers.update(mine)
        if timers is not self._timers or self.lifecycle not in ("starting", "ready"):
            mine[0].cancel()  # it ended meanwhile; `piweb-io` lives as long as its last timer

    def _write_when_ready(self, line: bytes) -> None:
        def go(error: PiwebError | None) -> None:
            if error is None:
                self.write_quietly(line)

        if not self.when_ready(go):
            if (gone := self.gone()) is not None:
                raise gone
            self.write(line)


def _explain_exit(returncode: int, tail: str) -> str:
    """Why an agent did not start, as far as its last words tell.

    Our runner says so in a line of its own, and what to do below it; what anybody else says last is
    the nearest to a reason.
    """
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    for line in reversed(lines):
        before, found, reason = line.partition("the agent did not start: ")
        if found and before == "piweb: ":
            return reason[:300]
    exit_ = describe_exit(returncode)
    return f"{exit_}: {lines[-1][:300]}" if lines else exit_


def _refuse_surface_key(key: str) -> None:
    if not key or domain_of(key) is not None:
        text = f"{key!r} cannot be written: run a command of the surface instead"
        raise SurfaceCommandError("forbidden", text)

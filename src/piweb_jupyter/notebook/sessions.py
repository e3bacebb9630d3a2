"""The sessions of this kernel, by name: one registry, used by `%piweb` and by `piweb.open`.

A session's identity is its name. The same name attaches to what is there, started again if it has
ended; another source or other options under the same name need `replace`.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import SessionConflictError, SessionNotFoundError, SourceError
from ..sources.programs import Programs

if TYPE_CHECKING:
    from ..host.session import AgentSession
    from ..sources.spec import LaunchSpec
    from ..sources.trust import Ask, TrustPolicy

__all__ = [
    "Defaults",
    "Opened",
    "Sessions",
    "drop_sessions",
    "get_sessions",
    "open_session",
    "resolve",
]


@dataclass(slots=True)
class Defaults:
    """What holds when a line or a call says nothing else; `%config PiwebMagics` sets it."""

    programs: Programs = field(default_factory=Programs)
    model: str = ""
    trust: TrustPolicy | str = "ask"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A session, and what was asked for when it was opened."""

    session: AgentSession
    wanted: LaunchSpec


@dataclass(frozen=True, slots=True)
class Opened:
    """What opening came to: a new session, or one that was there."""

    session: AgentSession
    attached: bool


class Sessions:
    """Owns every session of the kernel. Safe from any thread.

    `defaults` and `ask` are the extension's to set. Questions are asked and processes started
    outside the lock, so a second thread may find a session that is only just starting.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer in the middle of this may use it, too
        self._entries: dict[str, _Entry] = {}
        self._current: str | None = None
        self._on_forget: list[Callable[[AgentSession], None]] = []
        self.defaults = Defaults()
        self.ask: Ask = input

    def __repr__(self) -> str:
        return f"<Sessions: {', '.join(self.names) or 'none'}>"

    @property
    def names(self) -> list[str]:
        """The names of all sessions, the running and the ended, in order of their opening."""
        self._drop_closed()
        with self._lock:
            return list(self._entries)

    @property
    def current(self) -> AgentSession | None:
        """The session last opened or shown: the one that is meant when none is named."""
        self._drop_closed()
        with self._lock:
            entry = self._entries.get(self._current or "")
            return None if entry is None else entry.session

    def select(self, session: AgentSession) -> None:
        """Make it the one that is meant when none is named."""
        with self._lock:
            self._current = session.name

    def find(self, name: str | None = None) -> AgentSession:
        """The session of that name; without one the current, or the only one.

        Raises:
            SessionNotFoundError: If there is none; names the nearest.
        """
        self._drop_closed()
        with self._lock:
            if name:
                if (entry := self._entries.get(name)) is not None:
                    return entry.session
            elif (entry := self._entries.get(self._current or "")) is not None:
                return entry.session
            names = list(self._entries)
        if not names:
            subject = f"there is no session {name!r}" if name else "there is no session"
            raise SessionNotFoundError(f"{subject}; start one: %piweb ./my_agent, or %piweb demo")
        if not name:
            raise SessionNotFoundError(f"name the session: {', '.join(names)}")
        import difflib

        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the sessions are {', '.join(names)}"
        raise SessionNotFoundError(f"there is no session {name!r}; {hint}")

    def open(
        self,
        wanted: LaunchSpec,
        *,
        name: str | None = None,
        replace: bool = False,
        trusted: bool = False,
    ) -> Opened:
        """Start a session, or attach to the one that has the name; it becomes the current one.

        Raises:
            SessionConflictError: If the name is taken by another source or other options.
            AgentNotTrusted: If the source may not run.
            AgentLaunchError: If its program cannot be started.
        """
        from ..host.session import AgentSession
        from ..sources.trust import apply_trust, find_policy

        self._drop_closed()
        with self._lock:
            taken, held = self._find_place(wanted, name)
            if held is not None and not replace:
                _refuse_other(held, wanted, taken)
                self._current = taken
        if held is not None and not replace and held.session.lifecycle in ("starting", "ready"):
            return Opened(held.session, attached=True)
        model = wanted.model or (held.wanted.model if held and not replace else self.defaults.model)
        policy = find_policy(self.defaults.trust, os.environ)
        spec = apply_trust(_with_model(wanted, model), policy, self.ask, given=trusted)
        if held is not None and not replace:
            # It has ended. What starts it may have moved meanwhile: another Node, another pi.
            held.session.spec = spec
            held.session.start()
            return Opened(held.session, attached=True)
        if held is not None:
            self.forget(held.session)
        session = AgentSession(spec, name=taken)
        with self._lock:
            entry = _Entry(session, wanted)
            if (rival := self._entries.setdefault(taken, entry)) is not entry:
                entry = rival  # another thread was quicker
            self._current = taken
        if entry.session is not session:
            session.close()
            _refuse_other(entry, wanted, taken)
            entry.session.start()
            return Opened(entry.session, attached=True)
        session.start()
        return Opened(session, attached=False)

    def on_forget(self, fn: Callable[[AgentSession], None]) -> None:
        """Have `fn(session)` called when a session is about to be forgotten: its views go too."""
        self._on_forget.append(fn)

    def forget(self, session: AgentSession) -> None:
        """Close a session and its views; its name is free again."""
        self.forget_all([session])

    def close(self) -> None:
        """Forget all sessions; their agents end side by side."""
        with self._lock:
            sessions = [entry.session for entry in self._entries.values()]
        self.forget_all(sessions)

    def forget_all(self, sessions: Iterable[AgentSession]) -> None:
        """Forget several; their agents end side by side."""
        sessions = list(sessions)
        with self._lock:
            for session in sessions:
                if (entry := self._entries.get(session.name)) and entry.session is session:
                    del self._entries[session.name]
                    if self._current == session.name:
                        self._current = next(reversed(self._entries), None)
        for session in sessions:
            session.close_soon()
        for session in sessions:
            for fn in self._on_forget:
                fn(session)
            session.close()

    def _drop_closed(self) -> None:
        """A session that its user has closed by hand has no name any more."""
        with self._lock:
            closed = [entry.session for entry in self._entries.values() if entry.session.closed]
        if closed:
            self.forget_all(closed)

    def _find_place(self, wanted: LaunchSpec, name: str | None) -> tuple[str, _Entry | None]:
        """The name this launch goes by, and who has it."""
        if name:
            return name, self._entries.get(name)
        number = 1
        candidate = wanted.name
        while (held := self._entries.get(candidate)) is not None:
            if held.wanted.is_same_source(wanted):
                return candidate, held
            number += 1
            candidate = f"{wanted.name}-{number}"
        return candidate, None


def _with_model(spec: LaunchSpec, model: str | None) -> LaunchSpec:
    """The same launch with a model, where it names none and can be told."""
    if not model or spec.model or spec.kind == "command":
        return spec
    return dataclasses.replace(spec.with_argument("--model", model), model=model)


def _refuse_other(held: _Entry, wanted: LaunchSpec, name: str) -> None:
    if not held.wanted.is_same_source(wanted):
        raise SessionConflictError(
            f"{name!r} is the session of {held.wanted.trust_key}; close that one with --replace, "
            "or give this one another name with -n"
        )
    if wanted.model is not None and wanted.model != held.wanted.model:
        has = f"the model {held.wanted.model}" if held.wanted.model else "the agent's own model"
        raise SessionConflictError(
            f"{name!r} was started with {has}, not {wanted.model}; start it anew with --replace, "
            f"or switch it: piweb.open(name={name!r}).set_model({wanted.model!r})"
        )


_sessions: list[Sessions] = []
_sessions_lock = threading.RLock()  # as above


def get_sessions() -> Sessions:
    """The kernel's registry; made when it is first asked for."""
    with _sessions_lock:
        if not _sessions:
            _sessions.append(Sessions())
        return _sessions[0]


def drop_sessions() -> None:
    """Close every session and the registry with them."""
    with _sessions_lock:
        found, _sessions[:] = list(_sessions), []
    for sessions in found:
        sessions.close()


def open_session(
    source: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    model: str | None = None,
    cmd: str | None = None,
    replace: bool = False,
    trust: bool = False,
    wait: bool = True,
) -> AgentSession:
    """Start the agent at `source`, or attach to it: the same name gives the same session.

    Without a source it is the session called `name`, or the one opened last.

    Args:
        cmd: A command line to run as the agent, in `source` or here.
        replace: Close a session that has the name already.
        trust: Let the source run without a question, this time.
        wait: Return when the agent takes commands; if False, at once.

    Raises:
        SourceError: If the source is no agent, or its program is missing.
        SessionConflictError: If the name is taken by another source or other options.
        SessionNotFoundError: If no source is given and there is no such session.
        AgentNotTrusted: If the source may not run.
        AgentStartError: If the agent ended before it was ready; its last words are in the notes.
    """
    sessions = get_sessions()
    if source is None and cmd is None:
        session = sessions.find(name)
        session.start()
    else:
        wanted = resolve(source, model=model, cmd=cmd, defaults=sessions.defaults)
        session = sessions.open(wanted, name=name, replace=replace, trusted=trust).session
    sessions.select(session)
    return session.wait_ready() if wait else session


def resolve(
    source: str | os.PathLike[str] | None,
    *,
    model: str | None,
    cmd: str | None,
    defaults: Defaults,
) -> LaunchSpec:
    """The launch that a line or a call asks for.

    Raises:
        SourceError: If it asks for nothing that can be started.
    """
    from ..sources.resolve import resolve_command, resolve_source

    if cmd is not None:
        if model:
            raise SourceError("with --cmd, the model is the command's own business: put it there")
        return resolve_command(cmd, directory=source)
    if source is None:
        raise SourceError("name a source: a directory with an agent.py")
    return resolve_source(source, model=model, programs=defaults.programs)

"""The state of one surface: replaced as a whole or not at all, and told to the host each time."""

from __future__ import annotations

import threading
from typing import Any

from ..agent.context import Context
from ..agent.surface import Surface
from ..errors import StateValueError
from ..wire.frames import Cause, cause_template, encode_cause
from ..wire.json import dumps
from ..wire.surface import Actor, surface_key
from .report import say
from .state import StateStore
from .writer import Writer

__all__ = ["SurfaceState"]


class SurfaceState:
    """Holds the state that the agent's code works on. Safe from any thread."""

    def __init__(self, surface: Surface[Any], initial: bytes, store: StateStore, writer: Writer):
        self.key = surface_key(surface.domain)
        self._surface = surface
        self._entry = store.open(self.key)
        # What a change calls, looked up once: an agent may push states in a loop.
        self._encode = surface.encoder()
        self._put = self._entry.put
        self._line_up, self._template = self._entry.line_up, self._entry.template
        self._flush = writer.flush
        self._encoded = initial
        self._state = surface.decode(initial)
        # A reducer may well ask for the state again.
        self._lock = threading.RLock()
        self._touched = False
        # Who changed it last, and that as a part of a line: a command may push many states.
        self._changer: Context[Any] | None = None
        self._cause = b""
        self._causes: dict[tuple[str, Actor], bytes] = {}

    def get(self) -> Any:
        return self._state

    def set(self, reducer: Any, context: Context[Any] | None) -> Any:
        """Replace the state by what a reducer makes of it, or by a value; return the new one."""
        with self._lock:
            if context is not self._changer:
                self._changer = context
                self._cause = b"" if context is None else self._encode_cause(context)
            cause = self._cause
            try:
                state = reducer(self._state) if callable(reducer) else reducer
                if state is None and self._state is not None:
                    raise StateValueError(
                        f"state of surface `{self._surface.domain}`: the reducer returned "
                        "nothing; it must return the new state"
                    )
                encoded = self._encode(state)
            except BaseException:
                # It may have changed the old state in place before it failed.
                self._state = self._surface.decode(self._encoded)
                raise
            # As `StateEntry.put` has it; a call costs a tenth of all this.
            entry = self._entry
            while True:
                rev = entry.now[1] + 1
                now = (encoded, rev, cause, False)
                line = self._template % (encoded, rev, cause)
                if entry.now[1] < rev:
                    break
            self._state, self._encoded, self._touched = state, encoded, True
            entry.now = now
            self._line_up(line)
        self._flush()
        return state

    def show(self) -> None:
        """Line up the state if the host has not seen one yet; the caller flushes the writer."""
        with self._lock:
            if self._entry.now[1] < 0:
                self._put(self._encoded)

    def take_hydrated(self, value: Any) -> None:
        """Take what hydrate has brought, unless somebody has changed the state meanwhile.

        Raises:
            StateValueError: If JSON cannot carry it.
        """
        if value is None:
            return
        encoded = self._encode(value)
        with self._lock:
            if self._touched:
                say(
                    f"surface `{self._surface.domain}`: what hydrate brought was left out, "
                    "for the state has been changed meanwhile"
                )
                return
            self._state, self._encoded = value, encoded
            self._put(encoded)
        self._flush()

    def _encode_cause(self, context: Context[Any]) -> bytes:
        id_, action, actor = context.correlation_id, context.action, context.actor
        if not id_:
            return encode_cause(Cause("", action, actor))
        template = self._causes.get((action, actor))
        if template is None:  # as many as the surface has commands, for each actor
            template = self._causes[action, actor] = cause_template(action, actor)
        return template % dumps(id_)

"""The state of the agent as the host is told it: a value and a revision per key."""

from __future__ import annotations

import threading

from ..errors import StateValueError
from ..wire.frames import encode_state, state_template
from ..wire.json import JSON, dumps_strict, loads
from ..wire.surface import domain_of
from .report import say
from .writer import Writer

__all__ = ["StateEntry", "StateStore"]


class StateEntry:
    """One key. Whoever changes it holds a lock of their own; whoever reads `now` needs none."""

    __slots__ = ("line_up", "now", "template")

    def __init__(self, key: str, writer: Writer) -> None:
        self.line_up = writer.put
        self.template = state_template(key)
        # Value (JSON), rev, cause (as `encode_cause` has it), deleted: replaced at once.
        self.now: tuple[bytes | None, int, bytes, bool] = (None, -1, b"", False)

    def put(self, value: bytes, cause: bytes = b"") -> None:
        """Record a value and line up its frame; the caller flushes the writer.

        A finalizer may do the same in the middle of this: all that makes an object comes before the
        look, and from there to the end nothing of Python's runs in between.
        """
        while True:
            rev = self.now[1] + 1
            now = (value, rev, cause, False)
            line = self.template % (value, rev, cause)
            if self.now[1] < rev:
                break
        self.now = now
        self.line_up(line)

    def put_again(self, key: str) -> None:
        """Line up the present frame once more."""
        value, rev, cause, deleted = self.now
        if value is None:
            self.line_up(encode_state(key, rev, None, deleted=deleted))
        else:
            self.line_up(self.template % (value, rev, cause))


class StateStore:
    """Values as JSON, by key. `rev` starts at 0 and rises by one with every change. Any thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._entries: dict[str, StateEntry] = {}
        self._lock = threading.RLock()

    def open(self, key: str) -> StateEntry:
        """The entry of a key, for whoever is to be its only writer."""
        with self._lock:
            return self._open(key)

    def _open(self, key: str) -> StateEntry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = StateEntry(key, self._writer)
        return entry

    def _put_nothing(self, key: str, *, deleted: bool) -> None:
        """Record that there is no value: the key is gone, or was set to none."""
        with self._lock:
            entry = self._open(key)
            while True:  # as in `StateEntry.put`
                rev = entry.now[1] + 1
                now = (None, rev, b"", deleted)
                line = encode_state(key, rev, None, deleted=deleted)
                if entry.now[1] < rev:
                    break
            entry.now = now
            self._writer.put(line)

    def rev(self, key: str) -> int:
        """The revision last sent, or -1."""
        entry = self._entries.get(key)
        return -1 if entry is None else entry.now[1]

    def encoded(self, key: str) -> bytes | None:
        """The value as JSON; None if there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.now[0]

    # ------------------------------------------------------------ for the agent's code

    def get(self, key: str) -> JSON:
        """A copy of the value, or None."""
        encoded = self.encoded(key)
        return None if encoded is None else loads(encoded)

    def set(self, key: str, value: JSON) -> None:
        """Set a value.

        Raises:
            StateValueError: If JSON cannot carry it.
        """
        encoded = dumps_strict(value, f"state `{key}`")
        with self._lock:
            self._open(key).put(encoded)
        self._writer.flush()

    def delete(self, key: str) -> bool:
        """Remove a value. The host is told in any case; was there one?"""
        was_there = self.rev(key) >= 0 and not self._entries[key].now[3]
        self._put_nothing(key, deleted=True)
        self._writer.flush()
        return was_there

    def snapshot(self) -> dict[str, JSON]:
        with self._lock:
            found = [(key, entry.now) for key, entry in self._entries.items()]
        return {
            key: None if value is None else loads(value)
            for key, (value, rev, _, deleted) in found
            if rev >= 0 and not deleted
        }

    # ------------------------------------------------------------ for the host

    def write_back(self, key: str, value: JSON, has_value: bool) -> None:
        """A view sets a preference. A surface's state is not a view's to set: dropped."""
        if self._refuses(key):
            return
        try:
            encoded = dumps_strict(value, f"state `{key}`") if has_value else None
        except StateValueError as exc:
            say(f"a write-back was dropped: {exc}")
            return
        if encoded is None:
            self._put_nothing(key, deleted=False)
        else:
            with self._lock:
                self._open(key).put(encoded)
        self._writer.flush()

    def delete_back(self, key: str) -> None:
        """A view removes a preference."""
        if not self._refuses(key):
            self.delete(key)

    def send_again(self, key: str | None) -> None:
        """Send a key's state, or every key's, with the revision that it has."""
        with self._lock:
            keys = list(self._entries) if key is None else [key]
            for name in keys:
                if self.rev(name) >= 0:
                    self._entries[name].put_again(name)
        self._writer.flush()

    def _refuses(self, key: str) -> bool:
        if domain_of(key) is None:
            return False
        say(f"a write-back to {key!r} was dropped: a surface is changed by its commands")
        return True

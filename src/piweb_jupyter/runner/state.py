"""The state of the agent as the host is told it: a value and a revision per key."""

from __future__ import annotations

import threading

from ..errors import StateValueError
from ..wire.frames import encode_state, state_template
from ..wire.json import JSON, dumps_strict, loads
from ..wire.surface import domain_of
from .report import say
from .writer import Writer

__all__ = ["StateStore"]


class _Entry:
    __slots__ = ("cause", "deleted", "rev", "template", "value")

    def __init__(self, key: str) -> None:
        self.template = state_template(key)
        self.rev = -1
        self.value: bytes | None = None
        self.deleted = False
        self.cause = b""


class StateStore:
    """Values as JSON, by key. `rev` starts at 0 and rises by one with every change. Any thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._line_up = writer.put
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def put(self, key: str, value: bytes, cause: bytes = b"") -> int:
        """Record a value and line up its frame; the caller flushes the writer. Returns the rev.

        `cause` is as `encode_cause` has it.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(key)
            entry.rev = rev = entry.rev + 1
            entry.value = value
            entry.cause = cause
            entry.deleted = False
            self._line_up(entry.template % (value, rev, cause))
        return rev

    def _put_nothing(self, key: str, *, deleted: bool) -> None:
        """Record that there is no value: the key is gone, or was set to none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(key)
            entry.rev += 1
            entry.value = None
            entry.cause = b""
            entry.deleted = deleted
            self._line_up(encode_state(key, entry.rev, None, deleted=deleted))

    def rev(self, key: str) -> int:
        """The revision last sent, or -1."""
        entry = self._entries.get(key)
        return -1 if entry is None else entry.rev

    def encoded(self, key: str) -> bytes | None:
        """The value as JSON; None if there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    # ------------------------------------------------------------ for the agent's code

    def get(self, key: str) -> JSON:
        """A copy of the value, or None."""
        encoded = self.encoded(key)
        return None if encoded is None else loads(encoded)

    def set(self, key: str, value: JSON) -> int:
        """Set a value.

        Raises:
            StateValueError: If JSON cannot carry it.
        """
        encoded = dumps_strict(value, f"state `{key}`")
        rev = self.put(key, encoded)
        self._writer.flush()
        return rev

    def delete(self, key: str) -> bool:
        """Remove a value. The host is told in any case; was there one?"""
        entry = self._entries.get(key)
        was_there = entry is not None and not entry.deleted
        self._put_nothing(key, deleted=True)
        self._writer.flush()
        return was_there

    def snapshot(self) -> dict[str, JSON]:
        with self._lock:
            found = {key: e.value for key, e in self._entries.items() if not e.deleted}
        return {key: None if value is None else loads(value) for key, value in found.items()}

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
            self.put(key, encoded)
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
                entry = self._entries.get(name)
                if entry is None:
                    continue
                if entry.value is None:
                    line = encode_state(name, entry.rev, None, deleted=entry.deleted)
                else:
                    line = entry.template % (entry.value, entry.rev, entry.cause)
                self._line_up(line)
        self._writer.flush()

    def _refuses(self, key: str) -> bool:
        if domain_of(key) is None:
            return False
        say(f"a write-back to {key!r} was dropped: a surface is changed by its commands")
        return True

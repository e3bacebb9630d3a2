"""The kernel's copy of the agent's state: the last value of each key, guarded by (epoch, rev)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..wire.frames import Cause, StateFrame, read_cause
from ..wire.json import JSON, loads
from .section import section

__all__ = ["Snapshot", "StateMirror"]


@dataclass(slots=True)  # frozen would cost each state 1 µs
class Snapshot:
    """One key's state as the agent last sent it. Nobody changes one that is made.

    `line` is the whole frame, clean JSON, whose `value` is the state: it goes to a browser as it
    is. `stale` means that it belongs to an agent life that is over; `deleted` that it is a
    tombstone, kept so that nothing older can come back.
    """

    key: str
    epoch: int
    rev: int
    line: bytes
    deleted: bool = False
    stale: bool = False

    def value(self) -> JSON:
        """The state, decoded afresh: changing what you got changes nothing."""
        return None if self.deleted else loads(self.line).get("value")

    @property
    def cause(self) -> Cause | None:
        """Which command made it what it is, as far as the agent says."""
        return read_cause(loads(self.line).get("cause"))

    @property
    def version(self) -> tuple[int, int]:
        return (self.epoch, self.rev)


class StateMirror:
    """Last-value store that takes only what is newer.

    Safe from any thread. Epochs are compared inside one kernel only.
    """

    def __init__(self) -> None:
        self._lock = section()  # held by who writes
        self._snapshots: dict[str, Snapshot] = {}
        self._epoch = 0
        self.gaps = 0

    def apply(self, frame: StateFrame, epoch: int | None = None) -> bool:
        """Take in a frame of the epoch, the present one if none is given. Returns whether it was
        newer than what was held; one of another epoch never is.

        A jump in `rev` is only counted: snapshots are full values, so nothing is missing.
        """
        key, rev = frame.key, frame.rev
        with self._lock:
            present = self._epoch
            if epoch is not None and epoch != present:
                return False
            held = self._snapshots.get(key)
            if held is not None and held.epoch == present:
                if rev <= held.rev:
                    return False
                if rev > held.rev + 1:
                    self.gaps += 1
            self._snapshots[key] = Snapshot(key, present, rev, frame.line, frame.deleted)
        return True

    def begin_epoch(self, epoch: int) -> list[str]:
        """A new agent life: every key is stale until that agent sends it. Returns those keys."""
        with self._lock:
            self._epoch = epoch
            changed = [key for key, held in self._snapshots.items() if not held.deleted]
            for key in changed:
                self._snapshots[key] = replace(self._snapshots[key], stale=True)
        return changed

    def drop_stale(self, keep: frozenset[str] = frozenset()) -> list[str]:
        """Forget what the present agent has not sent, but for `keep`. Returns the keys dropped."""
        with self._lock:
            dropped = [k for k, held in self._snapshots.items() if held.stale and k not in keep]
            for key in dropped:
                # A tombstone at rev -1 of the new epoch: older frames stay out, the first gets in.
                self._snapshots[key] = Snapshot(key, self._epoch, -1, b"{}", deleted=True)
        return dropped

    def get(self, key: str) -> Snapshot | None:
        """The snapshot held for `key`; None if there is none or it was deleted."""
        held = self._snapshots.get(key)
        return None if held is None or held.deleted else held

    def rev(self, key: str) -> int:
        """The revision of the value held for `key`; -1 if there is none."""
        held = self._snapshots.get(key)
        return -1 if held is None or held.deleted else held.rev

    def tombstone(self, key: str) -> Snapshot | None:
        """The snapshot or the tombstone held for `key`."""
        return self._snapshots.get(key)

    def held(self) -> list[Snapshot]:
        """What holds a value, in order of first arrival."""
        return [held for held in list(self._snapshots.values()) if not held.deleted]

    def keys(self) -> list[str]:
        """The keys that hold a value, in order of first arrival."""
        return [key for key, held in list(self._snapshots.items()) if not held.deleted]

    def versions(self) -> dict[str, tuple[int, int]]:
        """(epoch, rev) of every key, tombstones included."""
        return {key: held.version for key, held in list(self._snapshots.items())}

"""The pages that draw one view: what each has acknowledged, and whether it can take more.

A page that does not answer holds up nobody but itself, and that not for long.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["EVENT_BYTES", "EVENT_PATIENCE", "IN_FLIGHT", "NOTHING", "Pages", "Version"]

# Snapshots under way to a page. With one only, a page 20 ms away would idle between them.
IN_FLIGHT = 2

# A page that owes an acknowledgement for so long is asleep or gone: the others do not wait for it.
LAG = 1.0

# Events under way to a page, and how long it may take to acknowledge them.
EVENT_BYTES = 1_000_000
EVENT_PATIENCE = 2.0

# More pages than anybody has open; the one that came first is forgotten.
_MOST = 32

# An epoch and a revision in it.
Version: TypeAlias = tuple[int, int]

# What every page has from the start: no snapshot.
NOTHING: Version = (0, -1)


@dataclass(slots=True)
class _Page:
    """What one page has acknowledged, and since when it owes the next acknowledgement."""

    version: Version = NOTHING
    version_since: float | None = None
    seq: int = 0
    seq_since: float | None = None
    owed: deque[tuple[int, int]] = field(default_factory=deque)

    def is_full(self) -> bool:
        return sum(size for _, size in self.owed) > EVENT_BYTES


class Pages:
    """The pages of one view. Not thread-safe: its feed locks."""

    def __init__(self) -> None:
        self._pages: dict[str, _Page] = {}
        self._assigned: deque[Version] = deque(maxlen=IN_FLIGHT)
        self._sent = 0

    def __bool__(self) -> bool:
        return bool(self._pages)

    @property
    def newest(self) -> Version:
        """The version that was sent last."""
        return self._assigned[-1] if self._assigned else NOTHING

    def hello(self, name: str, seq: int) -> None:
        """A page is there (again); events count for it from `seq` on."""
        if name not in self._pages and len(self._pages) >= _MOST:
            del self._pages[next(iter(self._pages))]
        self._pages.pop(name, None)
        self._pages[name] = _Page(seq=seq)

    def ack(self, name: str, version: Version | None, seq: int | None, now: float) -> None:
        page = self._pages.get(name)
        if page is None:
            return
        if version is not None and version > page.version:
            page.version = version
            page.version_since = None if version >= self.newest else now
        if seq is not None and seq > page.seq:
            page.seq = seq
            page.seq_since = None if seq >= self._sent else now
            while page.owed and page.owed[0][0] <= seq:
                page.owed.popleft()

    def note_snapshot(self, version: Version, now: float) -> None:
        """A snapshot has gone to all of them."""
        self._assigned.append(version)
        for page in self._pages.values():
            if page.version_since is None and page.version < version:
                page.version_since = now

    def note_events(self, seq: int, size: int, now: float) -> None:
        """The events up to `seq` have gone to all of them."""
        self._sent = seq
        for page in self._pages.values():
            if page.seq_since is None:
                page.seq_since = now
            if now - page.seq_since < EVENT_PATIENCE:
                page.owed.append((seq, size))

    def snapshots_from(self, now: float) -> float | None:
        """When those that follow can take one more snapshot; None if none follows."""
        free_at = None
        for page in self._pages.values():
            since = page.version_since
            if since is None:
                free_at = free_at or now
            elif now - since < LAG:
                is_full = len(self._assigned) == IN_FLIGHT and page.version < self._assigned[0]
                free_at = max(free_at or now, since + LAG if is_full else now)
        return free_at

    def events_from(self, now: float) -> float | None:
        """When one of those that follow can take more events; None if none follows.

        One that has ceased to follow says with its next acknowledgement that it reads again.
        """
        free_at = None
        for page in self._pages.values():
            since = page.seq_since
            if since is None or (now - since < EVENT_PATIENCE and not page.is_full()):
                return now
            if now - since < EVENT_PATIENCE:
                free_at = since + EVENT_PATIENCE
        return free_at

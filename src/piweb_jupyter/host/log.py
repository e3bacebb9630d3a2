"""What an agent wrote to stderr, and what went wrong on the way: the last lines of each session."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..wire.lines import LineSplitter
from ..wire.log import read_record

__all__ = ["LOG_SIZE", "SessionLog"]

# Lines kept. pi-web's ring holds as many.
LOG_SIZE = 2000

# A line is cut here; a traceback's lines are far shorter, a dumped tensor's are not.
_LINE_SIZE = 4096


class SessionLog:
    """A ring of text lines. Iterating gives the lines, oldest first. Safe from any thread.

    Lines of the agent stand as they came (pi-web's structured records become `[level namespace]
    text`); our own diagnostics begin with `piweb:`.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LOG_SIZE)
        self._splitter = LineSplitter(limit=1024 * 1024, on_oversize=self._cut)
        self.count = 0

    def feed(self, chunk: bytes) -> None:
        """Take stderr bytes; called by one thread."""
        for line in self._splitter.feed(chunk):
            self._append(read_record(line))

    def flush(self) -> None:
        """The stream has ended: an unterminated last line counts too."""
        if (tail := self._splitter.flush()) is not None:
            self._append(read_record(tail))

    def note(self, text: str) -> None:
        """A diagnostic of ours."""
        self._append(f"piweb: {text}")

    def tail(self, count: int = 20) -> str:
        """The agent's last lines, as one text."""
        return "\n".join(list(self._lines)[-count:])

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._lines))

    def __len__(self) -> int:
        return len(self._lines)

    def __repr__(self) -> str:
        return f"<SessionLog of {len(self._lines)} lines>"

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def _append(self, text: str) -> None:
        self._lines.append(text if len(text) <= _LINE_SIZE else text[:_LINE_SIZE] + " … cut")
        self.count += 1

    def _cut(self, head: bytes, size: int) -> None:
        self._append(f"{head.decode('utf-8', 'replace')} … cut, {size} bytes")

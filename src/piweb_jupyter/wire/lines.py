"""Bytes to lines and back: split on `\\n` only, in any chunking, in linear time."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LINE_LIMIT", "LineSplitter"]

# The longest line taken in, in bytes. pi-web has no limit; a 10 MB frame is real, a 64 MB one
# is a mistake of its sender and must not take the host's memory with it.
LINE_LIMIT = 64 * 1024 * 1024

_HEAD = 200


class LineSplitter:
    """Cuts a stream of chunks into lines, without their `\\n`.

    Only U+000A ends a line, so U+2028 and its like stay inside, and a multi-byte character cut by
    a chunk border is whole again. Lines that are empty or a lone `\\r` are skipped. A trailing
    `\\r` is left in place: it is JSON whitespace.

    A line longer than `limit` is dropped: `on_oversize(head, size)` is called when its end is
    seen, and splitting goes on with the next line. Not thread-safe: one reader owns it.
    """

    def __init__(
        self,
        limit: int = LINE_LIMIT,
        on_oversize: Callable[[bytes, int], None] | None = None,
    ) -> None:
        self._limit = limit
        self._on_oversize = on_oversize
        self._parts: list[bytes] = []
        self._held = 0
        self._skipping = False
        self._head = b""

    @property
    def is_empty(self) -> bool:
        """Whether it stands between two lines."""
        return not self._held

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next chunk; return the lines it completes."""
        if not self._held and chunk.endswith(b"\n") and len(chunk) <= self._limit:
            # The common case: whole lines, and none of them too long.
            lines = chunk.split(b"\n")
            lines.pop()
            if b"" in lines or b"\r" in lines:
                return [line for line in lines if line not in (b"", b"\r")]
            return lines
        return self._feed_part(chunk)

    def _feed_part(self, chunk: bytes) -> list[bytes]:
        cut = chunk.rfind(b"\n")
        if cut < 0:
            self._hold(chunk)
            return []
        if not self._held and not self._skipping:
            lines = chunk[:cut].split(b"\n")
            # One C call per chunk decides the common case: no limit breached, nothing empty.
            if len(chunk) > self._limit:
                lines = [line for line in lines if self._fits(line)]
        else:
            first = chunk.find(b"\n")
            lines = self._finish(chunk[:first])
            if first < cut:
                rest = chunk[first + 1 : cut].split(b"\n")
                lines += [line for line in rest if self._fits(line)]
        if cut + 1 < len(chunk):
            self._hold(chunk[cut + 1 :])
        if b"" in lines or b"\r" in lines:
            return [line for line in lines if line not in (b"", b"\r")]
        return lines

    def flush(self) -> bytes | None:
        """End of the stream: the unterminated tail, if there is one, once."""
        lines = self._finish(b"")
        return lines[0] if lines and lines[0] not in (b"", b"\r") else None

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._skipping:
            return
        if self._held > self._limit:
            self._head = b"".join(self._parts)[:_HEAD] or part[:_HEAD]
            self._parts.clear()
            self._skipping = True
        else:
            self._parts.append(part)

    def _finish(self, part: bytes) -> list[bytes]:
        self._hold(part)
        size, self._held = self._held, 0
        if self._skipping:
            self._skipping = False
            self._report(self._head, size)
            return []
        line = b"".join(self._parts)
        self._parts.clear()
        return [line]

    def _fits(self, line: bytes) -> bool:
        if len(line) <= self._limit:
            return True
        self._report(line[:_HEAD], len(line))
        return False

    def _report(self, head: bytes, size: int) -> None:
        if self._on_oversize is not None:
            self._on_oversize(head, size)

"""The one way into the agent: the lines of stdin, one after the other, on the main thread."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from ..wire.lines import LineSplitter
from ..wire.spin import Poll, SpinWait
from .writer import Writer

__all__ = ["Reader"]

_CHUNK = 64 * 1024


class Reader:
    """Reads until the end of the stream, or until told to stop.

    `idle` is true while it waits for input: a signal may then end the process without tearing
    anything.
    """

    def __init__(
        self,
        fd: int,
        on_line: Callable[[bytes], None],
        on_oversize: Callable[[bytes, int], None],
        writer: Writer,
    ) -> None:
        self._fd = fd
        self._poll = _poll_of(fd)
        self._wait = SpinWait()
        self._writer = writer
        self._on_line = on_line
        self._splitter = LineSplitter(on_oversize=on_oversize)
        self.idle = False
        self.stopped = False

    def run(self) -> None:
        """Hand over line by line. The last one may lack its newline, as pi-web's reader has it."""
        feed, on_line = self._splitter.feed, self._on_line
        hold, release = self._writer.hold, self._writer.release
        while chunk := self._read():
            lines = feed(chunk)
            if not lines:
                continue
            # What comes together is answered together, a command's state with its answer.
            hold()
            try:
                for line in lines:
                    on_line(line)
                    if self.stopped:
                        return
            finally:
                release()
        tail = self._splitter.flush()
        if tail is not None:
            on_line(tail)

    def _read(self) -> bytes:
        while True:
            self.idle = True
            try:
                if self._poll is not None:
                    self._wait(self._poll, None)
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:
                continue  # a host may have made its end non-blocking, and with it ours
            except OSError:
                return b""
            finally:
                self.idle = False


def _poll_of(fd: int) -> Poll | None:
    """None where a pipe cannot be polled (Windows)."""
    if not hasattr(select, "poll"):
        return None
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return poll.poll

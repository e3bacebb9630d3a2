"""The end of the agent's process: in order if it can be had, in time in any case.

Signal handlers of ours raise only while the reader waits for input, so none can tear a line.
"""

from __future__ import annotations

import _thread
import os
import signal
import time
from types import FrameType

from .reader import Reader
from .writer import Writer

__all__ = ["EXIT_TIMEOUT", "Ending"]

# Seconds from the end of stdin, or SIGTERM, to the end of the process.
EXIT_TIMEOUT = 0.9


class Ending:
    """Watches for the end. `code` is the exit code that it asks for."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self.code = 0
        self._writer = writer
        self._reader = reader
        self._main = _thread.get_ident()
        self._bounded = False

    def watch(self, stdin: int) -> None:
        """From now on SIGTERM, SIGINT and a host that is gone end the process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget)
        _thread.start_new_thread(self._await_hangup, (stdin,))

    def begin(self, code: int) -> None:
        """End soon. Safe from any thread."""
        self.code = code
        self._reader.stopped = True
        self.bound(code)
        if _thread.get_ident() != self._main and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(self._main, signal.SIGTERM)  # it may be waiting for input

    def bound(self, code: int) -> None:
        """Whatever still runs, the process is gone in `EXIT_TIMEOUT` seconds."""
        if not self._bounded:
            self._bounded = True
            _thread.start_new_thread(self._enforce, (code,))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._reader.stopped:
            self.begin(128 + number)
        if self._reader.idle:
            raise SystemExit(self.code)

    def _await_hangup(self, stdin: int) -> None:
        """A reader that a handler holds up doesn't see the end of its input; this does."""
        import select

        if not hasattr(select, "poll"):
            return  # Windows: the host's ladder ends a busy agent
        poll = select.poll()
        poll.register(stdin, 0)  # POLLHUP is always told
        if poll.poll():
            self.bound(0)

    def _enforce(self, code: int) -> None:
        time.sleep(EXIT_TIMEOUT)
        self._writer.settle(0.05)
        os._exit(code)


def _forget() -> None:
    """A forked child of the agent's own is no agent: signals end it as they end any process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)

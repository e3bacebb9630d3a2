"""The one way out of the agent: whole lines, in order, none lost, from any thread.

A line is handed over with `put` and on its way after `flush`; `write` does both. Whoever flushes
writes for all. A host that reads slowly holds the writers up, and nothing is ever dropped or cut.
(One thing could cut a line of more than 4096 bytes: a signal handler of the agent's own that raises
in the main thread just then. The runner's own handlers don't.)
"""

from __future__ import annotations

import _thread
import os
import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["HOLD_TIME", "Writer"]

# Lines that wait are written together up to PIPE_BUF bytes, which go through whole or not at all.
_JOIN = 4096

# Seconds that a line waits at most for others, even if the thread that holds it has got stuck.
HOLD_TIME = 0.005

# As many lines wait at most while they are held: about what is joined.
_HELD = 32

# Then what goes into one system call is written. A few lines that are left over wait for the next.
_KEPT = 16


class Writer:
    """Writes lines to a file descriptor. `on_broken` is called once, when nobody reads any more."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.on_broken: Callable[[], None] | None = None
        # Appending is atomic and gives the order; writing and taking out need the lock.
        self._waiting: deque[bytes] = deque()
        self.put: Callable[[bytes], None] = self._waiting.append
        """Give a line its place in the order; `flush` sends it. Never waits."""
        # Re-entrant for who asks, not for who writes: see `flush`.
        self._out = threading.RLock()
        self._rest: memoryview | None = None
        # The threads whose lines wait; how often there was one; and who looks after them.
        self._holders: set[int] = set()
        self._holds = 0
        self._ticking = False
        self._wake: threading.Event | None = None
        self._broken = False
        # A forked child has copies of our lines and of our descriptor, and must use neither.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._abandon)

    def write(self, line: bytes) -> None:
        """Send one line, which ends in a newline. Waits while the host does not read."""
        self._waiting.append(line)
        self.flush()

    def hold(self) -> None:
        """Let the lines of this thread wait for each other: until `release`, until they are many,
        or for `HOLD_TIME`, whatever the thread is doing.
        """
        self._holders.add(_thread.get_ident())
        self._holds += 1
        if not self._ticking:
            self._ticking = True
            if self._wake is None:
                self._wake = threading.Event()
                _thread.start_new_thread(self._tick, (self._wake,))
            self._wake.set()

    def release(self) -> None:
        """Send what waits, and hold nothing of this thread's from now on."""
        self._holders.discard(_thread.get_ident())
        self.flush()

    def _tick(self, wake: threading.Event) -> None:
        """A thread: while there are holds, let nothing wait for long; then sleep."""
        while True:
            wake.wait()
            wake.clear()
            seen = -1
            while seen != self._holds:
                seen = self._holds
                time.sleep(HOLD_TIME)
                self.flush()
            self._ticking = False
            if seen != self._holds:
                wake.set()

    def flush(self) -> None:
        """Send what has been put, by whomever.

        In the middle of another flush of this thread (a finalizer of the author's sets a state, and
        finalizers run anywhere) it is that one which sends it, when it goes on.
        """
        waiting = self._waiting
        holds = self._holders and _thread.get_ident() in self._holders
        if holds and len(waiting) < _HELD:
            return
        # What threading.Condition asks its lock; nothing public tells.
        if self._out._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            return
        if holds:
            with self._out:
                self._drain(_KEPT)
            return
        while waiting or self._rest is not None:
            with self._out:
                count = len(waiting)
                if count > 2 or not count or self._rest is not None or self._broken:
                    self._drain()
                    continue
                # The common cases, as `_drain` has them: a line, or a state and an answer.
                line = waiting[0]
                if count == 2:
                    if len(line) + len(waiting[1]) > _JOIN:
                        self._drain()
                        continue
                    line += waiting[1]
                try:
                    written = os.write(self._fd, line)
                except OSError:
                    self._drain()
                    continue
                if written < len(line):
                    self._rest = memoryview(line)[written:]
                waiting.popleft()
                if count == 2:
                    waiting.popleft()

    def close(self) -> None:
        """Drop what is not yet written, and every line from now on."""
        self._broken = True
        self.on_broken = None

    def settle(self, timeout: float) -> bool:
        """Wait until no line is half-written, so that the process may end. False: it is."""
        if not self._out.acquire(timeout=timeout):
            return False
        self._out.release()
        return True

    def _drain(self, keep: int = 0) -> None:
        waiting = self._waiting
        while len(waiting) > keep or self._rest is not None:
            # Whatever is raised in here, the next to flush finds all that is not yet written.
            rest = self._rest
            if rest is not None:
                written = self._write_some(rest)
                self._rest = rest[written:] if written < len(rest) else None
                continue
            line, count = _join(waiting)
            written = self._write_some(line)
            if written < len(line):
                self._rest = memoryview(line)[written:]
            for _ in range(count):
                waiting.popleft()

    def _write_some(self, data: bytes | memoryview) -> int:
        try:
            return len(data) if self._broken else os.write(self._fd, data)
        except BlockingIOError:
            _wait_writable(self._fd)
            return 0
        except OSError:
            self._break()
            return len(data)

    def _break(self) -> None:
        if not self._broken:
            self._broken = True
            if self.on_broken is not None:
                self.on_broken()

    def _abandon(self) -> None:
        self._broken = True
        self.on_broken = None
        self._rest = None
        self._waiting.clear()
        self._out = threading.RLock()
        os.close(self._fd)


def _join(waiting: deque[bytes]) -> tuple[bytes, int]:
    """As many waiting lines as go into one system call, at least one; and how many they are."""
    if len(waiting) > 2 * _HELD:
        lines = [waiting[index] for index in range(_HELD)]
    else:
        lines = list(waiting)[:_HELD]
    joined = b"".join(lines)
    if len(joined) <= _JOIN:
        return joined, len(lines)
    size = len(lines[0])
    count = 1
    while count < len(lines) and size + len(lines[count]) <= _JOIN:
        size += len(lines[count])
        count += 1
    return b"".join(lines[:count]), count


def _wait_writable(fd: int) -> None:
    """A host may have made the pipe non-blocking, for both ends share one description."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()

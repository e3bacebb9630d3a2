"""One agent process: spawned, spoken to in whole lines, and ended in bounded time."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import secrets
import select
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TypeVar

from ..errors import AgentBusyError, AgentExitedError, AgentLaunchError, describe_exit
from .guard import Guard
from .launch import Launch
from .pump import READABLE, WRITABLE, Timer, get_pump
from .section import section
from .stdout import LEND_TIME, READ_SIZE, Borrowing, Stdout

__all__ = ["EXIT_TIMEOUT", "TERM_TIMEOUT", "AgentProcess", "close_all"]

_log = logging.getLogger(__name__)

# The ladder of `close`. An agent that was asked to end (its stdin ended) has the first, one that
# was told to (SIGTERM) the second; then it is killed. With the flush: 4.5 s at most.
EXIT_TIMEOUT = 2.0
TERM_TIMEOUT = 2.0
# What is still queued when `close` is called is written if the agent reads it within this time.
FLUSH_TIMEOUT = 0.5
# A grandchild may hold the pipes of an agent that has ended; nothing is waited for longer.
DRAIN_TIMEOUT = 0.5

# A write of at most so many bytes is all or nothing, whoever else writes.
PIPE_BUF = getattr(select, "PIPE_BUF", 512)
# What a pipe can hold at most on Linux (/proc/sys/fs/pipe-max-size), so all a dead agent left.
PIPE_MAX = 1 << 20
QUEUE_FRAMES = 10_000
QUEUE_BYTES = 64 * 1024 * 1024
# Writes to one agent in a row, before the others have their turn.
WRITES_PER_TURN = 32

# After the last agent: the warden needs a moment (two scans of /proc), then the thread ends.
JOIN_TIMEOUT = 0.5

_CLOSING = "the agent is being closed"
_DEAF = "the agent has closed its stdin"
_T = TypeVar("_T")


class AgentProcess:
    """A child process that speaks lines on stdin and stdout.

    The constructor spawns it and waits until it runs (or, with `start=False`, `start` does: it
    must not be called with a lock that a callback takes). Callbacks run on `piweb-io`:
    `on_lines` with the lines of one read, `on_stderr` with bytes, `on_oversize` with the head and
    size of a line over the limit, and at the very end `on_exit` once with the exit code. They must
    be short; an exception in one is logged. With `borrowing`, a thread that waits may read for
    itself; see `Stdout`.

    The agent leads a session of its own (an interrupt of the kernel must not reach it) and carries
    `marker` in its environment, as do its descendants. Linux ends it by parent death signal when
    the kernel dies; elsewhere stdin's end and the warden have to do. Windows is not supported.

    Raises:
        AgentLaunchError: If the program cannot be started; names it and the next action.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        env: Mapping[str, str],
        on_lines: Callable[[list[bytes]], None],
        on_stderr: Callable[[bytes], None],
        on_oversize: Callable[[bytes, int], None],
        on_exit: Callable[[int], None],
        borrowing: Borrowing | None = None,
        start: bool = True,
    ) -> None:
        self.argv = tuple(argv)
        self.cwd = Path(cwd)
        self.pid = 0
        self.returncode: int | None = None
        self.marker = f"{_token}.{next(_numbers)}"
        self._env = dict(env)
        self._on_lines = on_lines
        self._on_stderr = on_stderr
        self._on_exit = on_exit
        self._pump = get_pump()
        self._popen: subprocess.Popen[bytes] | None = None
        self._stdout = Stdout(self._pump, on_lines, borrowing, on_oversize, self._end_of_stdout)
        self.read_here = self._stdout.read_here
        self.claim_stdout = self._stdout.claim
        self._stderr = -1
        # Held by who may write directly. piweb-io writes the head of the queue without it: while
        # there is a head, nobody else writes, and only piweb-io takes heads away. Re-entrant: a
        # signal handler or a finalizer may send in the middle of a send.
        self._lock = section()
        self._stdin = -1
        self._queue: deque[bytes] = deque()
        self._bytes_in = self._bytes_out = 0
        self._offset = 0
        self._writing = False
        self._refusal: str | None = None  # why nothing is sent any more
        self._laddering = False
        self._timer: Timer | None = None
        self._gone = threading.Event()
        if start:
            self.start()

    def __repr__(self) -> str:
        if self.returncode is not None:
            state = describe_exit(self.returncode).removeprefix("the agent ")
        else:
            state = "running" if self._popen is not None else "not started"
        return f"<AgentProcess {Path(self.argv[0]).name} pid={self.pid} {state}>"

    # -- any thread -------------------------------------------------------------------------

    def start(self) -> None:
        """Spawn it, if the constructor has not."""
        environ = os.environ | self._env
        environ["PIWEB_KERNEL"] = _inherited("PIWEB_KERNEL", _token)
        environ["PIWEB_AGENT"] = _inherited("PIWEB_AGENT", self.marker)
        try:
            launch = Launch.prepare(self.argv, self.cwd, environ)
            self._pump.run(lambda: self._spawn(launch))
        except AgentLaunchError:
            self._refusal = "the agent could not be started"
            self._gone.set()
            raise
        except BaseException:
            self.close()  # an interrupt; the spawn it could not stop must not outlive it
            raise

    def send(self, frame: bytes) -> None:
        """Send one frame, line end included, whole or not at all. Any thread; never blocks.

        A small frame is written at once if nothing waits before it, all others by `piweb-io`. An
        interrupt at any point leaves the stream whole.

        Raises:
            AgentExitedError: If the agent has ended, is being closed, or has closed its stdin.
            AgentBusyError: If it has not read for so long that the queue is full.
        """
        with self._lock:
            if self._refusal is None:
                if not self._queue and len(frame) <= PIPE_BUF and self._popen is not None:
                    try:
                        os.write(self._stdin, frame)
                        return
                    except BlockingIOError:
                        pass  # no room for the whole of it, so nothing was written
                    except OSError:
                        self._refusal = _DEAF
                if self._refusal is None:
                    self._enqueue(frame)
                    return
        if self._refusal is _DEAF and not self._laddering:
            self._pump.call_soon(self._begin_ladder)
        raise AgentExitedError(self.returncode, message=self._refusal)

    def _enqueue(self, frame: bytes) -> None:
        """Under the lock: leave the frame to `piweb-io`."""
        queue = self._queue
        if not queue:
            self._bytes_in = self._bytes_out = 0  # only an interrupt can have left them unequal
        waiting = self._bytes_in - self._bytes_out
        if len(queue) >= QUEUE_FRAMES or (queue and waiting + len(frame) > QUEUE_BYTES):
            raise AgentBusyError(
                f"the agent does not read its input: {len(queue)} frames, {waiting >> 20} MiB, "
                "wait for it; wait as well, or restart it"
            )
        # The wake comes first: after it, piweb-io waits for the lock, so that an interrupt between
        # the two lines leaves nothing in the queue that nobody was told of.
        if not self._writing and self._popen is not None:
            self._pump.call_running(self._begin_writing)
        queue.append(frame)
        self._bytes_in += len(frame)

    def close(self) -> None:
        """Begin to end the agent; returns at once. Idempotent, any thread."""
        if self._gone.is_set():
            return
        self._refusal = self._refusal or _CLOSING
        self._pump.call_soon(self._begin_ladder)

    def wait(self, timeout: float) -> bool:
        """Wait until it is reaped and `on_exit` has returned; False after `timeout`."""
        if self._pump.is_current:
            raise RuntimeError("piweb-io reaps the agents; it cannot wait for one")
        deadline = monotonic() + timeout
        if not self._gone.wait(timeout):
            return False
        if not _live and not self._pump.has_timers:
            # The thread goes with the last agent and the warden; who counts threads finds none.
            self._pump.join(min(JOIN_TIMEOUT, max(0.0, deadline - monotonic())))
        return True

    # -- piweb-io: its beginning ------------------------------------------------------------

    def _spawn(self, launch: Launch) -> None:
        if self._popen is not None or self._refusal is not None:
            return
        _guard.prepare(self._pump, launch.environ)
        try:
            spawned = launch.spawn()
        except AgentLaunchError:
            _guard.release(self.marker)
            raise
        self._stdin, self._stderr = spawned.stdin, spawned.stderr
        self.pid = spawned.popen.pid
        self._popen = spawned.popen
        _live[self.marker] = self
        _guard.adopt(self.marker, self.pid)
        self._stdout.open(spawned.stdout)
        self._pump.watch(self._stderr, READABLE, self._on_stderr_ready)
        self._pump.watch_exit(self.pid, self._on_ended)
        self._begin_writing()  # what was sent before it ran

    # -- piweb-io: reading ------------------------------------------------------------------

    def _on_stderr_ready(self, _mask: int) -> None:
        try:
            chunk = os.read(self._stderr, READ_SIZE)
        except BlockingIOError:
            return
        if chunk:
            self._on_stderr(chunk)
        else:
            self._stderr = self._drop(self._stderr)
            self._finish_if_drained()

    def _end_of_stdout(self) -> None:
        self._stdout.close()
        tail = self._stdout.flush()
        try:
            if tail is not None:
                self._on_lines([tail])
        finally:
            # An agent that can't answer any more is at its end, or of no more use.
            self._begin_ladder("the agent has closed its stdout")
            self._finish_if_drained()

    # -- piweb-io: writing ------------------------------------------------------------------

    def _begin_writing(self) -> None:
        with self._lock:  # waits for the sender that has announced a frame
            if self._writing or not self._queue or self._stdin < 0:
                return
            self._writing = True
        self._pump.watch(self._stdin, WRITABLE, self._on_stdin)
        self._on_stdin(0)

    def _on_stdin(self, _mask: int) -> None:
        queue = self._queue
        for _ in range(WRITES_PER_TURN):
            if not queue:
                break
            frame = queue[0]
            rest = memoryview(frame)[self._offset :] if self._offset else frame
            try:
                written = os.write(self._stdin, rest)
            except BlockingIOError:
                return
            except OSError:
                self._begin_ladder(_DEAF)
                return
            if written < len(rest):
                self._offset += written
                return
            self._offset = 0
            self._bytes_out += len(frame)
            queue.popleft()
        with self._lock:
            if queue:
                return
            self._writing = False
        self._pump.unwatch(self._stdin)
        if self._laddering:
            self._end_stdin()

    def _close_stdin(self) -> None:
        with self._lock:  # no sender is between its check and its write
            fd, self._stdin = self._stdin, -1
            self._writing = False
            self._queue.clear()
            self._offset = 0
        self._drop(fd)

    def _drop(self, fd: int) -> int:
        if fd >= 0:
            self._pump.unwatch(fd)
            os.close(fd)
        return -1

    # -- piweb-io: its end ------------------------------------------------------------------

    def _begin_ladder(self, reason: str = _CLOSING) -> None:
        if self._laddering or self.returncode is not None:
            return
        self._laddering = True
        if self._popen is None:
            self._gone.set()
            return
        with self._lock:
            self._refusal = self._refusal or reason
        if self._queue and self._refusal is _CLOSING:
            self._timer = self._pump.call_later(FLUSH_TIMEOUT, self._end_stdin)
        else:
            self._end_stdin()

    def _end_stdin(self) -> None:
        self._close_stdin()
        self._climb(EXIT_TIMEOUT, self._terminate)

    def _terminate(self) -> None:
        self._signal(signal.SIGTERM)
        _guard.sweep(self.marker)
        self._climb(TERM_TIMEOUT, self._kill)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _climb(self, delay: float, rung: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._pump.call_later(delay, rung)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)  # not reaped yet, so the number is its own
        except OSError as exc:
            _log.debug("cannot signal %r: %s", self, exc)

    def _on_ended(self) -> None:
        assert self._popen is not None
        if not _guard.is_standing:
            self._signal(signal.SIGTERM)  # what it leaves in its group; the warden does better
        self.returncode = self._popen.wait()
        self._refusal = describe_exit(self.returncode)
        self._close_stdin()
        _guard.sweep(self.marker)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._pump.call_later(DRAIN_TIMEOUT, self._finish)
        self._finish_if_drained()

    def _finish_if_drained(self) -> None:
        if self.returncode is not None and self._stdout.fd < 0 and self._stderr < 0:
            self._finish()

    def _finish(self) -> None:
        """Nothing more comes: say so, once."""
        if self._gone.is_set():
            return
        if self._timer is not None:
            self._timer.cancel()
        if not self._stdout.recall():
            self._timer = self._pump.call_later(LEND_TIME, self._finish)
            return
        # A grandchild holds the pipes. What the agent wrote before its end is in them, and not
        # much more than that is read.
        self._stdout.drain(PIPE_MAX, self._tell)
        self._stdout.close()
        self._drain_stderr()
        tail = self._stdout.flush()
        if tail is not None:
            self._tell(self._on_lines, [tail])
        assert self.returncode is not None
        self._tell(self._on_exit, self.returncode)
        _live.pop(self.marker, None)
        _guard.release(self.marker)
        self._gone.set()

    def _drain_stderr(self) -> None:
        for _ in range(PIPE_MAX // READ_SIZE if self._stderr >= 0 else 0):
            try:
                chunk = os.read(self._stderr, READ_SIZE)
            except BlockingIOError:
                break
            if not chunk:
                break
            self._tell(self._on_stderr, chunk)
        self._stderr = self._drop(self._stderr)

    def _tell(self, callback: Callable[[_T], None], value: _T) -> None:
        """Call what is not ours, at a point where its error must not stop us."""
        try:
            callback(value)
        except Exception:
            _log.exception("a callback of %r failed", self)

    def _forget(self) -> None:
        """In a forked copy of the kernel: this agent is not ours."""
        self._lock = section()  # another thread may have held it at the fork
        self._gone = threading.Event()
        self._gone.set()
        self._refusal = "the agent belongs to the process that this one was forked from"
        for fd in (self._stdin, self._stdout.fd, self._stderr):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._stdin = self._stderr = -1
        self._stdout.forget()
        if self._popen is not None:
            self._popen.returncode = 0  # or it warns that a child is not waited for


def close_all(processes: Iterable[AgentProcess], timeout: float = 6.0) -> None:
    """End many agents at once: all ladders run side by side, and all are waited for."""
    processes = list(processes)
    for process in processes:
        process.close()
    deadline = monotonic() + timeout
    for process in processes:
        process.wait(max(0.0, deadline - monotonic()))


_numbers = itertools.count(1)
_token = secrets.token_hex(8)
_guard = Guard(_token)
_live: dict[str, AgentProcess] = {}


def _inherited(name: str, value: str) -> str:
    """A kernel that an agent's tool has started is that agent's descendant, and so are its own."""
    outer = os.environ.get(name)
    return f"{outer}/{value}" if outer else value


def _close_at_exit() -> None:
    if _live:
        close_all(_live.values())
        get_pump().join(JOIN_TIMEOUT)


def _after_fork_in_child() -> None:
    global _token, _guard
    for process in list(_live.values()):
        process._forget()  # noqa: SLF001 - the module's own
    _live.clear()
    _guard.forget()
    _token = secrets.token_hex(8)
    _guard = Guard(_token)


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

"""The one I/O thread of a kernel: it moves the bytes of all agents and keeps their time."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from .section import bringing, section, wait_for

__all__ = ["Pump", "Timer", "get_pump"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# epoll's masks are the same. Windows has neither, and importing must not fail there.
READABLE = getattr(select, "POLLIN", 1)
WRITABLE = getattr(select, "POLLOUT", 4)

# Events taken from the kernel at once; more stay ready for the next turn.
_BATCH = 64
# Where the end of a process is not announced (no pidfd: macOS, old Linux), look this often.
_REAP_INTERVAL = 0.05
# Cancelled timers are thrown out by so many.
_MANY_TIMERS = 256
_ONE = (1).to_bytes(8, sys.byteorder)  # what an eventfd counts


class Timer:
    """One future call on `piweb-io`. `cancel` is safe from any thread and at any time."""

    __slots__ = ("_fn", "_pump", "when")

    def __init__(self, pump: Pump, when: float, fn: Callable[[], None]) -> None:
        self.when = when
        self._pump = pump
        self._fn: Callable[[], None] | None = fn

    def cancel(self) -> None:
        """The call does not happen, unless it has begun already."""
        if self._fn is not None:
            self._fn = None
            self._pump._timer_cancelled()  # noqa: SLF001 - one class in two

    @property
    def cancelled(self) -> bool:
        """It was cancelled, or it has run."""
        return self._fn is None

    def _take(self) -> Callable[[], None] | None:
        fn, self._fn = self._fn, None
        return fn


class Pump:
    """Watches file descriptors, runs timers and calls, all on one thread named `piweb-io`.

    The thread starts with the first thing to do and ends when nothing is watched and no timer is
    left; its own descriptors are closed then. `call_soon`, `call_later`, `run`, `join` and
    `Timer.cancel` may be used from any thread; `watch`, `unwatch` and `watch_exit` only on
    `piweb-io` itself. An exception in anything it calls is logged and stops nothing.

    epoll where there is one (Linux), else poll: both speak in the same masks.
    """

    def __init__(self) -> None:
        # Re-entrant: a finalizer or a signal handler may close an agent in the middle of anything.
        self._lock = section()
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._poller: select.epoll | _Poll | None = None
        self._wake_out = -1
        self._wake_in = -1
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def __repr__(self) -> str:
        state = "running" if self._thread is not None else "idle"
        return f"<Pump {state}, {len(self._handlers)} descriptors, {len(self._timers)} timers>"

    # -- any thread -------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Is this `piweb-io`?"""
        return threading.get_ident() == self._ident

    @property
    def has_timers(self) -> bool:
        """Does it wait for a time?"""
        with self._lock:
            return any(not timer.cancelled for _, _, timer in self._timers)

    def call_soon(self, fn: Callable[[], None]) -> None:
        """Run `fn` on `piweb-io`, after what was asked for before. Never blocks."""
        with self._lock:
            self._soon.append(fn)
            self._ensure_running()

    def call_later(self, delay: float, fn: Callable[[], None]) -> Timer:
        """Run `fn` on `piweb-io` in `delay` seconds, unless it is cancelled. Never blocks."""
        timer = Timer(self, monotonic() + delay, fn)
        with self._lock:
            timers = self._timers
            heapq.heappush(timers, (timer.when, next(self._order), timer))
            if timers[0][2] is timer or self._thread is None:
                self._ensure_running()
        return timer

    def run(self, fn: Callable[[], _T]) -> _T:
        """Run `fn` on `piweb-io`, wait for it, and return or raise what it does."""
        if self.is_current:
            return fn()
        outcome: list[tuple[bool, object]] = []
        done = threading.Lock()
        done.acquire()

        def call() -> None:
            try:
                outcome.append((True, fn()))
            except BaseException as exc:
                outcome.append((False, exc))
            finally:
                done.release()

        self.call_soon(call)
        wait_for(done, None)
        ok, value = outcome[0]
        if not ok:
            raise value  # type: ignore[misc]  # the exception of fn
        return value  # type: ignore[return-value]  # what fn returned

    def call_running(self, fn: Callable[[], None]) -> None:
        """`call_soon` without its lock, for who knows that the thread runs and goes on."""
        self._soon.append(fn)
        if threading.get_ident() != self._ident:
            self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_in, _ONE)
        except BlockingIOError:
            pass  # it is about to look anyway

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended, as it does when nothing is left; False if it goes on."""
        thread = self._thread
        if thread is None:
            return True
        if thread is threading.current_thread():
            raise RuntimeError("piweb-io cannot wait for itself")
        thread.join(timeout)
        return not thread.is_alive()

    # -- piweb-io ---------------------------------------------------------------------------

    def watch(self, fd: int, mask: int, handler: Callable[[int], None]) -> None:
        """Call `handler(mask)` whenever `fd` is ready, until `unwatch`."""
        assert self._poller is not None
        self._poller.register(fd, mask)
        self._handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        """Forget `fd`. Must come before its close: a forked copy keeps an epoll entry alive."""
        if self._handlers.pop(fd, None) is not None and self._poller is not None:
            self._poller.unregister(fd)

    def watch_exit(self, pid: int, handler: Callable[[], None]) -> None:
        """Call `handler` once, when the child `pid` has ended and is still to be reaped."""
        try:
            pidfd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self._poll_exit(pid, handler)
            return

        def ended(_mask: int) -> None:
            if not _has_ended(pid):
                return  # a late event of the descriptor that had this number before
            self.unwatch(pidfd)
            os.close(pidfd)
            handler()

        self.watch(pidfd, READABLE, ended)

    def _poll_exit(self, pid: int, handler: Callable[[], None]) -> None:
        def look() -> None:
            if _has_ended(pid):
                handler()
            else:
                self.call_later(_REAP_INTERVAL, look)

        look()

    # -- the thread -------------------------------------------------------------------------

    def _ensure_running(self) -> None:
        """Under the lock: wake the thread, or start it."""
        thread = self._thread
        # An interrupt inside `start` can leave a thread that never runs: it is replaced. (Not
        # `is_alive`: an interrupt inside that makes CPython 3.11 take a live thread for ended.)
        if thread is not None and thread.ident is not None:
            if threading.get_ident() != self._ident:
                self._wake()
            return
        self._close()
        poller = self._poller = select.epoll() if hasattr(select, "epoll") else _Poll()
        self._wake_out, self._wake_in = _wake_pair()
        poller.register(self._wake_out, READABLE)
        self._handlers[self._wake_out] = self._woken
        # A daemon: the interpreter joins the others before it calls the atexit hook that ends
        # the agents, and would wait for ever.
        self._thread = threading.Thread(target=self._main, name="piweb-io", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        with self._lock:
            if self._thread is not threading.current_thread():
                return
            self._ident = threading.get_ident()
            assert self._poller is not None
            poll = self._poller.poll
        try:
            with bringing():
                self._serve(poll)
        finally:
            with self._lock:
                if self._ident == threading.get_ident():
                    self._thread = self._ident = None

    def _serve(self, poll: Callable[[float, int], list[tuple[int, int]]]) -> None:
        handlers, soon, timers = self._handlers, self._soon, self._timers
        while True:
            if soon:
                timeout = 0.0
            elif timers:
                if timers[0][2].cancelled:
                    self._purge()
                    continue
                timeout = max(0.0, timers[0][0] - monotonic())
            elif len(handlers) > 1:
                timeout = -1.0
            elif self._end():
                return
            else:
                continue
            for fd, mask in poll(timeout, _BATCH):
                handler = handlers.get(fd)
                if handler is not None:
                    try:
                        handler(mask)
                    except BaseException:
                        _log.exception("a handler of piweb-io failed")
            if timers:
                now = monotonic()
                while timers and timers[0][0] <= now:
                    fn = self._next_timer()
                    if fn is not None:
                        self._call(fn)
            if soon:
                for _ in range(len(soon)):
                    self._call(soon.popleft())

    # Only the thread itself takes timers away, so it may look at the first one without the lock.

    def _next_timer(self) -> Callable[[], None] | None:
        with self._lock:
            fn = heapq.heappop(self._timers)[2]._take()  # noqa: SLF001 - one class in two
            if fn is None:
                self._cancelled -= 1
            return fn

    def _purge(self) -> None:
        with self._lock:
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _call(self, fn: Callable[[], None]) -> None:
        try:
            fn()
        except BaseException:
            _log.exception("a call on piweb-io failed")

    def _timer_cancelled(self) -> None:
        with self._lock:
            self._cancelled += 1
            if self._cancelled % _MANY_TIMERS == 0 and self._cancelled * 2 > len(self._timers):
                # They would wait for their time; a caller that makes a timer per command must not
                # fill the memory with them.
                self._soon.append(self._purge)
            elif len(self._handlers) > 1:
                return
            # Else the last thing that kept the thread may be gone.
            if self._thread is not None and not self.is_current:
                self._wake()

    def _woken(self, _mask: int) -> None:
        try:
            os.read(self._wake_out, 4096)
        except BlockingIOError:
            pass

    def _end(self) -> bool:
        with self._lock:
            if self._soon or self._timers or len(self._handlers) > 1:
                return False
            self._close()
            self._thread = None
            self._ident = None
            return True

    def _forget(self) -> None:
        """In a forked copy: nothing was ever watched or asked for."""
        self._lock = section()  # another thread may have held it at the fork
        self._thread = self._ident = None
        self._soon.clear()
        self._timers.clear()
        for fd in self._handlers:
            with contextlib.suppress(OSError):
                os.close(fd)  # a pidfd; the rest its owner has closed
        self._close()

    def _close(self) -> None:
        if self._poller is None:
            return
        self._handlers.clear()
        self._poller.close()
        self._poller = None
        for fd in {self._wake_out, self._wake_in}:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._wake_out = self._wake_in = -1


def _has_ended(pid: int) -> bool:
    """Is the child a zombie, or reaped by somebody else?"""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


class _Poll:
    """`select.poll` with epoll's manners, for systems without epoll."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout: float, _maxevents: int) -> list[tuple[int, int]]:
        return self._poll.poll(None if timeout < 0 else timeout * 1000)

    def close(self) -> None:
        pass


def _wake_pair() -> tuple[int, int]:
    """A descriptor to watch and one to write eight bytes to; on Linux they are the same."""
    if hasattr(os, "eventfd"):
        fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return fd, fd
    out, in_ = os.pipe()
    os.set_blocking(out, False)
    os.set_blocking(in_, False)
    return out, in_


_pump: Pump | None = None
_pump_lock = threading.Lock()


def get_pump() -> Pump:
    """The pump of this process."""
    global _pump
    if _pump is None:
        made = Pump()
        with _pump_lock:
            if _pump is None:
                _pump = made
    return _pump


def _after_fork_in_child() -> None:
    """A forked copy of the kernel has no `piweb-io`; it must not hold what the thread watched."""
    global _pump, _pump_lock
    _pump_lock = threading.Lock()
    pump, _pump = _pump, None
    if pump is not None:
        pump._forget()  # noqa: SLF001 - the module's own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

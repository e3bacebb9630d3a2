"""The one thread that calls the user: observers, subscribers, done-callbacks.

`piweb-io` must never run foreign code, so it hands it over here. The queue is bounded; a callback
that is given with a `key` is conflated, its latest arguments win. Errors of a callback go to the
reporter that came with it, never into this thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from .section import may_wait, section

__all__ = ["QUEUE_SIZE", "CallbackThread", "Report", "get_callbacks"]

logger = logging.getLogger(__name__)

# Calls waiting to be made. A subscriber that is this far behind loses the oldest ones.
QUEUE_SIZE = 10_000

Report: TypeAlias = Callable[[str], None]
_Call: TypeAlias = tuple[Hashable, Callable[..., object], tuple[Any, ...], Report]


class CallbackThread:
    """Runs callbacks one after another on `piweb-callbacks`.

    The thread is started by the first call and ends when the last holder has let go, so that a
    kernel without sessions has no thread of ours. Safe from any thread.
    """

    def __init__(self) -> None:
        self._wake = threading.Condition(section())
        self._queue: deque[_Call] = deque()
        self._keyed: dict[Hashable, tuple[Any, ...]] = {}
        self._holders = 0
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def hold(self) -> None:
        """A session is here; the thread may live."""
        with self._wake:
            self._holders += 1

    def release(self) -> None:
        """A session has gone. With the last one, what is queued is still run, then the thread ends.

        Joined here, if one may wait, for at most 2 s: a callback of the user's may be stuck.
        """
        with self._wake:
            self._holders -= 1
            thread = self._thread if self._holders == 0 else None
            self._wake.notify()
        if thread is not None and thread is not threading.current_thread() and may_wait():
            thread.join(2.0)

    def call(
        self, fn: Callable[..., object], *args: Any, report: Report, key: Hashable = None
    ) -> None:
        """Have `fn(*args)` called. With a `key`, a call still waiting is replaced."""
        with self._wake:
            if key is not None:
                waiting = key in self._keyed
                self._keyed[key] = args
                if waiting:
                    return
            if len(self._queue) >= QUEUE_SIZE:
                old_key, *_, old_report = self._queue.popleft()
                self._keyed.pop(old_key, None)
                self.dropped += 1
                if self.dropped in (1, 10, 100, 1000):
                    old_report(f"callbacks are too slow: {self.dropped} call(s) were dropped")
            self._queue.append((key, fn, args, report))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="piweb-callbacks", daemon=True
                )
                self._thread.start()
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue:
                    if self._holders <= 0:
                        self._thread = None
                        return
                    self._wake.wait()
                key, fn, args, report = self._queue.popleft()
                if key is not None:
                    args = self._keyed.pop(key, args)
            try:
                fn(*args)
            except Exception as exc:
                logger.debug("a callback failed", exc_info=True)
                report(f"{getattr(fn, '__qualname__', fn)} failed: {type(exc).__name__}: {exc}")


_callbacks = CallbackThread()


def get_callbacks() -> CallbackThread:
    """The kernel's callback thread."""
    return _callbacks

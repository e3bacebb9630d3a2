"""How a thread waits for `piweb-io`: asleep in a read, from which a write wakes it."""

from __future__ import annotations

import os
import select
import sys

from ..wire.spin import Poll

__all__ = ["Waiter", "take_waiter"]

_ONE = (1).to_bytes(8, sys.byteorder)  # what an eventfd counts


class Waiter:
    """Wakes one thread. A write lets go of the interpreter, so the woken thread goes on at once.

    A lock is let go of by a thread that keeps the interpreter; the woken one must sleep again until
    it gets that. A command through a lock takes 2.1 times the floor's round trip, through this 1.4.
    """

    __slots__ = ("_alone", "_beside", "_fd", "_owner", "_poll")

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC)
        # An object that closes its descriptor when it goes. A `__del__` would be Python code, and
        # an interrupt that arrives in it is lost.
        self._owner = select.epoll.fromfd(self._fd)
        self._alone = select.poll()
        self._alone.register(self._fd, select.POLLIN)
        self._poll: select.poll | None = None
        self._beside = -1

    def is_woken(self, timeout: float) -> bool:
        """Whether `wait` would end at once, after so many seconds at most."""
        return bool(self._alone.poll(timeout * 1000))

    def wait(self) -> None:
        os.read(self._fd, 8)

    def wake(self) -> None:
        os.write(self._fd, _ONE)

    def poll_with(self, fd: int) -> Poll:
        """What waits, so many milliseconds, until it is woken or `fd` can be read; it says which:
        if both, that it is woken comes first."""
        poll = self._poll
        if self._beside == fd and poll is not None:
            return poll.poll
        poll = self._poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(fd, select.POLLIN)
        self._beside = fd
        return poll.poll


def take_waiter(free: list[Waiter]) -> Waiter | None:
    """One of the free ones, or a new one; None where there is no such thing (macOS)."""
    try:
        return free.pop()
    except IndexError:
        return Waiter() if hasattr(os, "eventfd") else None

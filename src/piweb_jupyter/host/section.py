"""Locks that `piweb-io` takes as well, and the rule that nobody waits for it while he holds one.

A finalizer or a signal handler runs in the middle of anything, also of ours. So these locks are
re-entrant: it may use a session. What it must not do there is wait for an answer, because piweb-io,
which brings that, waits for the lock. Such a wait ends with an error instead of never. So does one
on piweb-io itself, where a finalizer runs whenever garbage is collected there.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import NestedWaitError

if TYPE_CHECKING:
    from _thread import LockType, RLock

__all__ = [
    "STUCK_TIME",
    "bringing",
    "may_wait",
    "refuse_bringer",
    "refuse_inside",
    "section",
    "wait_for",
]

# Seconds after which a wait asks whether it can ever end. Piweb-io stands still as long.
STUCK_TIME = 0.05

_sections: list[weakref.ref[RLock]] = []
_bringers: set[int] = set()


def section() -> RLock:
    """A lock to be held for a moment, by piweb-io among others."""
    lock = threading.RLock()
    _sections.append(weakref.ref(lock, _sections.remove))
    return lock


@contextmanager
def bringing() -> Iterator[None]:
    """For piweb-io: what this thread brings is what all the others wait for."""
    ident = threading.get_ident()
    _bringers.add(ident)
    try:
        yield
    finally:
        _bringers.discard(ident)


def may_wait() -> bool:
    """Whether this thread may wait for piweb-io: it is another one, and holds none of the locks."""
    if threading.get_ident() in _bringers:
        return False
    for ref in tuple(_sections):  # others may go meanwhile
        lock = ref()
        # What threading.Condition asks its lock; nothing public tells.
        if lock is not None and lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            return False
    return True


def refuse_bringer() -> None:
    """The quick half of `refuse_inside`.

    Raises:
        NestedWaitError: If this is piweb-io.
    """
    if threading.get_ident() in _bringers:
        raise NestedWaitError


def refuse_inside() -> None:
    """For who is about to wait for piweb-io.

    Raises:
        NestedWaitError: If he must not.
    """
    if not may_wait():
        raise NestedWaitError


def wait_for(lock: LockType, timeout: float | None) -> bool:
    """`lock.acquire`, for a lock that piweb-io lets go of when something has happened.

    Raises:
        NestedWaitError: If that can never be.
    """
    if lock.acquire(blocking=False):
        return True
    if timeout is not None and timeout <= 0:
        return False
    refuse_bringer()
    if timeout is not None and timeout <= STUCK_TIME:
        return lock.acquire(timeout=timeout)
    if lock.acquire(timeout=STUCK_TIME):
        return True
    refuse_inside()
    return lock.acquire(timeout=-1 if timeout is None else timeout - STUCK_TIME)


if hasattr(os, "register_at_fork"):
    # A thread of the copy may get the number that piweb-io has here.
    os.register_at_fork(after_in_child=_bringers.clear)

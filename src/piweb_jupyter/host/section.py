"""Locks that `piweb-io` takes as well, and the rule that nobody waits for it while he holds one.

A finalizer or a signal handler runs in the middle of anything, also of ours. So these locks are
re-entrant: it may use a session. What it must not do there is wait for an answer, because piweb-io,
which brings that, waits for the lock. Such a wait ends with an error instead of never.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from ..errors import NestedWaitError

if TYPE_CHECKING:
    from _thread import LockType, RLock

__all__ = ["STUCK_TIME", "refuse_inside", "section", "wait_for"]

# Seconds after which a wait asks whether it can ever end. Piweb-io stands still as long.
STUCK_TIME = 0.05

_sections: list[weakref.ref[RLock]] = []


def section() -> RLock:
    """A lock to be held for a moment, by piweb-io among others."""
    lock = threading.RLock()
    _sections.append(weakref.ref(lock, _sections.remove))
    return lock


def refuse_inside() -> None:
    """For who is about to wait for piweb-io.

    Raises:
        NestedWaitError: If this thread holds one of the locks.
    """
    for ref in _sections:
        lock = ref()
        # What threading.Condition asks its lock; nothing public tells.
        if lock is not None and lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            raise NestedWaitError


def wait_for(lock: LockType, timeout: float | None) -> bool:
    """`lock.acquire`, for a lock that piweb-io lets go of when something has happened.

    Raises:
        NestedWaitError: If that can never be.
    """
    if timeout is not None and timeout <= STUCK_TIME:
        return lock.acquire(timeout=max(0.0, timeout))
    if lock.acquire(timeout=STUCK_TIME):
        return True
    refuse_inside()
    return lock.acquire(timeout=-1 if timeout is None else timeout - STUCK_TIME)

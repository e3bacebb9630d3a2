"""How one end of the pipe waits for the other: awake for a moment if that was quick, then asleep.

To put a thread to sleep and to wake it again takes longer than a small command, most of all where
its CPU has nothing else to do and sleeps as well. A thread that looks for a moment before it sleeps
is there when the answer comes. It offers its CPU to others between two looks, so it takes only what
nobody else wants, and it looks only as long as the other end stays that quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

__all__ = ["SPIN_TIME", "Poll", "SpinWait"]

# Seconds of looking before sleep. A command takes 25 µs that way instead of 45, with a handler that
# is a coroutine 55 instead of 80 to 150; with 50 µs here the latter is often missed.
SPIN_TIME = 100e-6

# A sleep that ended within this would have been better spent awake: it includes the waking.
_QUICK = 2 * SPIN_TIME

Poll: TypeAlias = Callable[[float | None], list[tuple[int, int]]]

# Windows has none, and there a look would keep others from the CPU.
_give_way: Callable[[], None] | None = getattr(os, "sched_yield", None)


class SpinWait:
    """For one thread at a time. An interrupt may leave it anywhere."""

    __slots__ = ("_quick",)

    def __init__(self) -> None:
        self._quick = False

    def __call__(self, poll: Poll, timeout: float | None) -> list[tuple[int, int]]:
        """What `poll` says: at most so many milliseconds of sleep, None for no limit."""
        began = monotonic()
        if not self._quick or _give_way is None:
            ready = poll(timeout)
            self._quick = monotonic() - began < _QUICK
            return ready
        end = began + SPIN_TIME
        while not (ready := poll(0)):
            if monotonic() > end:
                self._quick = False
                return poll(timeout)
            _give_way()
        return ready

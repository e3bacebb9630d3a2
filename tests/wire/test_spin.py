"""Waiting awake for a moment, and only while the other end is quick."""

from __future__ import annotations

import os
import select

import pytest

from piweb_jupyter.wire import spin
from piweb_jupyter.wire.spin import SPIN_TIME, SpinWait

READY = [(3, select.POLLIN)]

needs_yield = pytest.mark.skipif(
    not hasattr(os, "sched_yield"), reason="a thread cannot give way here, so it does not look"
)


class Pipe:
    """A clock, and a pipe that becomes readable at given times. Each look takes a microsecond."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.due = 0.0
        self.sleeps: list[float | None] = []
        self.looks = 0
        monkeypatch.setattr(spin, "monotonic", lambda: self.now)

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        self.now += 1e-6
        if timeout == 0:
            self.looks += 1
            return READY if self.now >= self.due else []
        self.sleeps.append(timeout)
        if timeout is not None and self.due > self.now + timeout / 1000:
            self.now += timeout / 1000
            return []
        self.now = max(self.now, self.due)
        return READY

    def answers_after(self, seconds: float) -> None:
        self.due = self.now + seconds
        self.sleeps.clear()
        self.looks = 0


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Pipe:
    return Pipe(monkeypatch)


@needs_yield
def test_it_stays_awake_once_the_other_end_has_been_quick(pipe: Pipe) -> None:
    wait = SpinWait()
    pipe.answers_after(SPIN_TIME / 4)
    assert wait(pipe.poll, None) == READY
    assert (pipe.sleeps, pipe.looks) == ([None], 0)
    for _ in range(3):
        pipe.answers_after(SPIN_TIME / 4)
        assert wait(pipe.poll, None) == READY
        assert pipe.sleeps == []
        assert 20 < pipe.looks < 30


@needs_yield
def test_it_looks_in_vain_once_and_then_sleeps_until_the_other_end_is_quick_again(
    pipe: Pipe,
) -> None:
    wait = SpinWait()
    pipe.answers_after(0)
    wait(pipe.poll, None)
    pipe.answers_after(1.0)
    assert wait(pipe.poll, None) == READY
    assert pipe.sleeps == [None]
    assert 95 < pipe.looks < 105  # microseconds of looking, `SPIN_TIME`
    for seconds in (1.0, SPIN_TIME * 3):
        pipe.answers_after(seconds)
        assert wait(pipe.poll, None) == READY
        assert (pipe.sleeps, pipe.looks) == ([None], 0)
    pipe.answers_after(SPIN_TIME)
    wait(pipe.poll, None)
    pipe.answers_after(SPIN_TIME / 2)
    wait(pipe.poll, None)
    assert (pipe.sleeps, pipe.looks > 0) == ([], True)


@needs_yield
def test_it_sleeps_no_longer_than_it_may(pipe: Pipe) -> None:
    wait = SpinWait()
    pipe.answers_after(0)
    wait(pipe.poll, 5.0)
    pipe.answers_after(1.0)
    assert wait(pipe.poll, 5.0) == []
    assert pipe.sleeps == [5.0]
    assert pipe.now < 0.006


def test_where_a_thread_cannot_give_way_it_sleeps(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spin, "_give_way", None)
    wait = SpinWait()
    for _ in range(3):
        pipe.answers_after(0)
        assert wait(pipe.poll, None) == READY
        assert (pipe.sleeps, pipe.looks) == ([None], 0)


@needs_yield
def test_a_real_pipe_is_met_awake_and_asleep() -> None:
    out, into = os.pipe()
    try:
        poll = select.poll()
        poll.register(out, select.POLLIN)
        wait = SpinWait()
        assert wait(poll.poll, 10) == []
        for number in range(100):
            os.write(into, bytes([number]))
            assert wait(poll.poll, None) == [(out, select.POLLIN)]
            assert os.read(out, 10) == bytes([number])
        assert wait(poll.poll, 10) == []
    finally:
        os.close(out)
        os.close(into)

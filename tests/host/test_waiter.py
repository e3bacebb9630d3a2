from __future__ import annotations

import gc
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.host.opening import Open, opener

PATIENCE = 20.0


@pytest.fixture
def open_() -> Iterator[Open]:
    with opener() as open_:
        yield open_


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """A KeyboardInterrupt in this thread, unless what is inside has ended by then."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # an interrupt inside what a collection calls would be lost, and pytest tells
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()


def test_all_that_wait_for_one_command_are_woken_by_its_answer(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    held = surface.submit("hold")
    begun = threading.Barrier(7)

    def wait(timeout: float | None) -> object:
        begun.wait(PATIENCE)
        return held.result(timeout)

    with ThreadPoolExecutor(6) as pool:
        waits = [pool.submit(wait, PATIENCE if n % 2 else None) for n in range(6)]
        begun.wait(PATIENCE)
        surface.run("release")
        assert [wait.result(PATIENCE) for wait in waits] == ["released"] * 6
    assert held.result() == "released"


def test_a_wait_that_is_interrupted_leaves_the_next_ones_right(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    held = surface.submit("hold")
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.05):
        held.result()
    surface.run("release")
    assert held.result(PATIENCE) == "released"
    assert [surface.run("echo", n)["args"] for n in (1, 2, 3)] == [1, 2, 3]


def test_an_interrupt_at_any_moment_gives_no_command_the_answer_of_another(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    chance = random.Random(7)
    answered = 0
    for number in range(1, 400):
        try:
            with interrupted_after(chance.uniform(20e-6, 500e-6)):
                assert surface.run("echo", number)["args"] == number
                answered += 1
        except KeyboardInterrupt:
            pass
    assert answered, "no command was quick enough: nothing was tested"
    assert surface.run("echo", "last")["args"] == "last"

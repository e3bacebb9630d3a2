"""The I/O thread: calls and timers in order, errors contained, and an end when nothing is left."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator

import pytest

from piweb_jupyter.host.pump import READABLE, Pump, get_pump

from .recording import PATIENCE, RecordedAgent


@pytest.fixture
def pump() -> Iterator[Pump]:
    pump = Pump()
    yield pump
    assert pump.join(PATIENCE)
    assert repr(pump) == "<Pump idle, 0 descriptors, 0 timers>"


def test_calls_run_on_one_named_thread_in_the_order_they_were_asked_for(pump: Pump) -> None:
    ran: list[tuple[int, str]] = []
    for number in range(100):
        pump.call_soon(lambda n=number: ran.append((n, threading.current_thread().name)))  # type: ignore[misc]
    pump.run(lambda: None)
    assert ran == [(number, "piweb-io") for number in range(100)]


def test_run_returns_or_raises_what_the_call_does_also_on_the_thread_itself(pump: Pump) -> None:
    def fail() -> None:
        raise LookupError("deliberate")

    assert pump.run(lambda: 42) == 42
    assert pump.run(lambda: pump.run(lambda: pump.is_current)) is True
    assert pump.is_current is False
    with pytest.raises(LookupError, match="deliberate"):
        pump.run(fail)


def test_timers_run_in_the_order_of_their_time(pump: Pump) -> None:
    ran: list[str] = []
    done = threading.Event()

    def start() -> None:
        pump.call_later(0.03, lambda: (ran.append("third"), done.set())[1])  # type: ignore[func-returns-value]
        pump.call_later(0.02, lambda: ran.append("second"))
        pump.call_later(0.01, lambda: ran.append("first"))

    pump.run(start)
    assert done.wait(PATIENCE)
    assert ran == ["first", "second", "third"]


def test_a_cancelled_timer_does_not_run_and_does_not_keep_the_thread(pump: Pump) -> None:
    ran: list[int] = []
    timer = pump.call_later(3600, lambda: ran.append(1))
    assert pump.join(0.01) is False
    timer.cancel()
    timer.cancel()
    assert timer.cancelled
    assert pump.join(PATIENCE)
    assert ran == []


def test_a_timer_that_was_cancelled_on_the_thread_does_not_keep_it_either(pump: Pump) -> None:
    later = pump.call_later(3600, lambda: None)
    timer = pump.call_later(3000, lambda: None)
    pump.call_soon(later.cancel)
    pump.call_soon(timer.cancel)


def test_a_timer_per_command_leaves_nothing_behind(pump: Pump) -> None:
    def many() -> int:
        for _ in range(20_000):
            pump.call_later(3600, lambda: None).cancel()
        return len(pump._timers)  # noqa: SLF001 - the memory is the point

    keeper = pump.call_later(3000, lambda: None)
    many()
    pump.run(lambda: None)
    assert len(pump._timers) < 1000  # noqa: SLF001
    pump.run(many)
    pump.run(lambda: None)
    assert len(pump._timers) < 1000  # noqa: SLF001
    keeper.cancel()


def test_a_timer_that_renews_itself_without_delay_starves_nobody(pump: Pump) -> None:
    going = True

    def again() -> None:
        if going:
            pump.call_later(0, again)

    pump.call_later(0, again)
    assert pump.run(lambda: "served") == "served"
    going = False


def test_an_error_in_a_call_a_timer_or_a_handler_is_logged_and_stops_nothing(
    pump: Pump, caplog: pytest.LogCaptureFixture
) -> None:
    out, in_ = os.pipe()
    handled = threading.Event()

    def fail(what: str) -> None:
        raise LookupError(f"deliberate {what}")

    def handler(_mask: int) -> None:
        pump.unwatch(out)
        handled.set()
        fail("handler")

    pump.call_soon(lambda: fail("call"))
    pump.call_later(0, lambda: fail("timer"))
    pump.run(lambda: pump.watch(out, READABLE, handler))
    os.write(in_, b"x")
    assert handled.wait(PATIENCE)
    assert pump.run(lambda: "goes on") == "goes on"
    os.close(out)
    os.close(in_)
    for what in ("call", "timer", "handler"):
        assert f"deliberate {what}" in caplog.text


def test_the_thread_ends_with_its_descriptors_and_starts_again(pump: Pump) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        pump.run(lambda: None)
        assert pump.join(PATIENCE)
        assert len(os.listdir("/proc/self/fd")) == before


def test_waiting_for_the_thread_on_the_thread_is_refused(pump: Pump) -> None:
    with pytest.raises(RuntimeError, match="itself"):
        pump.run(lambda: pump.join(1))


def test_calls_from_many_threads_while_the_thread_comes_and_goes_all_run(pump: Pump) -> None:
    counts = [0] * 4

    def ask(mine: int) -> None:
        def count() -> None:
            counts[mine] += 1

        for _ in range(500):
            pump.run(count)

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [500] * 4


def test_agents_run_and_end_on_a_system_without_epoll_eventfd_pidfd_and_setpriv(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(select, "epoll")
    monkeypatch.delattr(os, "eventfd")
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr("piweb_jupyter.host.launch._die_with_parent", lambda: ())
    agent = RecordedAgent("echo.py")
    agent.until_ready()
    agent.process.send(b"x" * 500_000 + b"\n")
    agent.until(lambda: agent.lines[1:] == [b"x" * 500_000])
    agent.process.close()
    assert agent.process.wait(PATIENCE)
    assert agent.exits == [0]
    assert get_pump().join(PATIENCE)

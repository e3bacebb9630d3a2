from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from piweb_jupyter.host import callbacks as module
from piweb_jupyter.host.callbacks import CallbackThread

PATIENCE = 10.0


@pytest.fixture
def thread() -> Iterator[CallbackThread]:
    callbacks = CallbackThread()
    callbacks.hold()
    yield callbacks
    callbacks.release()


def test_calls_run_in_order_on_one_named_thread(thread: CallbackThread) -> None:
    seen: list[tuple[int, str]] = []
    done = threading.Event()

    def note(n: int) -> None:
        seen.append((n, threading.current_thread().name))

    for n in range(100):
        thread.call(note, n, report=pytest.fail)
    thread.call(done.set, report=pytest.fail)
    assert done.wait(PATIENCE)
    assert seen == [(n, "piweb-callbacks") for n in range(100)]


def test_a_keyed_call_that_waits_takes_the_latest_arguments(thread: CallbackThread) -> None:
    seen: list[int] = []
    gate, done = threading.Event(), threading.Event()

    def hold() -> None:
        gate.wait(PATIENCE)

    thread.call(hold, report=pytest.fail)
    for n in range(50):
        thread.call(seen.append, n, report=pytest.fail, key="k")
    thread.call(done.set, report=pytest.fail)
    gate.set()
    assert done.wait(PATIENCE)
    assert seen == [49]


def test_an_error_goes_to_the_reporter_and_the_thread_lives_on(thread: CallbackThread) -> None:
    reports: list[str] = []
    done = threading.Event()
    thread.call(lambda: 1 // 0, report=reports.append)
    thread.call(done.set, report=pytest.fail)
    assert done.wait(PATIENCE)
    assert len(reports) == 1
    assert "ZeroDivisionError" in reports[0]


def test_a_stuck_callback_costs_the_oldest_calls_not_memory(
    thread: CallbackThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE_SIZE", 3)
    seen: list[int] = []
    reports: list[str] = []
    gate, running, done = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        running.set()
        gate.wait(PATIENCE)

    thread.call(hold, report=reports.append)
    assert running.wait(PATIENCE)
    for n in range(5):
        thread.call(seen.append, n, report=reports.append)
    thread.call(done.set, report=reports.append)
    gate.set()
    assert done.wait(PATIENCE)
    assert seen == [3, 4]
    assert (thread.dropped, len(reports)) == (3, 1)


def test_the_thread_ends_with_its_last_holder_and_runs_what_was_given_before() -> None:
    callbacks = CallbackThread()
    callbacks.hold()
    seen: list[int] = []
    callbacks.call(seen.append, 1, report=pytest.fail)
    callbacks.release()
    assert seen == [1]
    assert [t.name for t in threading.enumerate() if t.name == "piweb-callbacks"] == []
    callbacks.hold()
    callbacks.call(seen.append, 2, report=pytest.fail)
    callbacks.release()
    assert seen == [1, 2]

"""An agent's stdout that is lent to the thread that waits for an answer, and taken back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from piweb_jupyter.errors import AgentExitedError, NestedWaitError, SurfaceCommandError
from piweb_jupyter.host import stdout
from piweb_jupyter.host.command import Command
from piweb_jupyter.host.pump import get_pump
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.host.surface import Surface
from piweb_jupyter.host.waiter import Waiter
from tests.host.opening import AGENTS, Open, opener

pytestmark = pytest.mark.skipif(
    not hasattr(os, "eventfd"), reason="nothing is lent without eventfd"
)

PATIENCE = 20.0


@pytest.fixture
def open_() -> Iterator[Open]:
    with opener() as open_:
        yield open_


class Reads:
    """Counts how a session's waits ended: with an answer that was read here, or otherwise."""

    def __init__(self, session: AgentSession) -> None:
        self.here = self.elsewhere = 0
        self._read_answer = session.ledger.read_answer
        session.ledger.read_answer = self._read

    def _read(self, waiter: Waiter, command: Command) -> bool:
        answered = self._read_answer(waiter, command)
        self.here += answered
        self.elsewhere += not answered
        return answered


class Told:
    """Hears of states as a publisher does."""

    def __init__(self) -> None:
        self.versions: list[tuple[int, int]] = []
        self.threads: set[str] = set()
        self.reached = threading.Event()

    def on_state(self, session: AgentSession, key: str) -> None:
        held = session.mirror.get(key)
        if key == "surface:demo" and held is not None:
            self.versions.append(held.version)
            self.threads.add(threading.current_thread().name)
            if held.version == (1, 300):
                self.reached.set()

    def on_transcript(self, session: AgentSession, ops: list[Any]) -> None: ...
    def on_command(self, session: AgentSession, command: Command) -> None: ...
    def on_question(self, session: AgentSession) -> None: ...
    def on_lifecycle(self, session: AgentSession) -> None: ...


class Clicks(Told):
    """Hears of the commands that views have sent."""

    def __init__(self, finished: threading.Event) -> None:
        super().__init__()
        self.stages: list[str] = []
        self._finished = finished

    def on_command(self, session: AgentSession, command: Command) -> None:
        self.stages.append(command.stage)
        if command.done:
            self._finished.set()


def lent(surface: Surface) -> Reads:
    """Run commands until one of them has read its answer itself."""
    reads = Reads(surface.session)
    deadline = time.monotonic() + PATIENCE
    while not reads.here:
        surface.run("echo")
        assert time.monotonic() < deadline, "the stdout was never lent"
    return reads


def test_a_thread_that_runs_commands_reads_their_answers_itself(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    reads = lent(surface)
    for number in range(1, 500):
        assert surface.run("increment") == {"count": number}
        assert surface.state == {"count": number}
    assert reads.here > reads.elsewhere
    assert surface.rev == 499
    assert [entry.action for entry in surface.history[-499:]] == ["increment"] * 499


def test_an_error_that_is_read_here_is_raised_here(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    lent(surface)
    for _ in range(20):
        with pytest.raises(SurfaceCommandError, match="no room") as caught:
            surface.run("fail")
        assert (caught.value.code, caught.value.details) == ("full", {"room": 0})


def test_what_comes_unasked_afterwards_is_seen_although_nobody_reads(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    for number in range(20):
        lent(surface)
        seen = threading.Event()
        unwatch = session.news.watch("theme", seen.set)
        session.set_state("theme", number)
        assert seen.wait(PATIENCE)
        unwatch()
        assert session.state["theme"] == number


@pytest.mark.parametrize("how", ["a click", "a callback"])
def test_what_somebody_is_to_be_told_of_does_not_wait_for_the_next_look(
    open_: Open, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    session_stdout = session.ledger.claim_answers.__self__  # type: ignore[attr-defined]
    while not session_stdout.is_lent:
        monkeypatch.undo()
        lent(surface)
        # From here on it is taken back for what follows, or never.
        monkeypatch.setattr(stdout.Stdout, "look", lambda self: None)
    told = threading.Event()
    if how == "a callback":
        surface.submit("increment").add_done_callback(lambda _: told.set())
    else:
        session.news.listener = clicks = Clicks(told)
        session.ledger.submit("demo", "increment", {}, "user", id_="view-1")
    assert told.wait(PATIENCE)
    if how == "a click":
        assert clicks.stages[-1] == "done"
    assert surface.state == {"count": 1}


def test_states_that_are_read_here_are_told_to_the_listener_on_piweb_io(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    reads = lent(surface)
    session.news.listener = told = Told()
    for _ in range(300):
        surface.run("increment")
    assert told.reached.wait(PATIENCE)
    session.news.listener = None
    assert reads.here > 100
    assert told.threads == {"piweb-io"}
    assert told.versions == sorted(told.versions)
    assert told.versions[-1] == (1, 300)
    assert len(told.versions) < 300  # it is not woken for each


def test_a_conversation_goes_on_between_commands_that_read(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    for number in range(30):
        lent(surface)
        turn = session.prompt(f"hello {number}")
        for _ in range(20):
            surface.run("echo")
        assert turn.wait(PATIENCE).text == f"You said hello {number}."
    assert len([m for m in session.transcript.messages if m["role"] == "assistant"]) == 30


def test_lines_that_are_no_answers_are_met_by_piweb_io_with_the_same_words(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    lent(surface)
    for bad in ("null", "[]", "{", '{"type":5}', "", "\r", '{"type":"piweb_state"}'):
        lent(surface)
        surface.run("noise", line=bad)
    log = session.log.tail()
    assert log.count("a line of the agent was skipped") == 5
    assert surface.run("echo", 1)["args"] == 1


def test_a_long_line_arrives_whole_whoever_begins_to_read_it(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    for size in (70_000, 300_000, 5_000_000):
        for _ in range(3):
            lent(surface)
            text = "x" * size
            assert surface.run("echo", text)["args"] == text


def test_half_a_line_is_kept_by_whoever_reads_the_other_half(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    for _ in range(5):
        lent(surface)
        half = surface.submit("half")
        timer = threading.Timer(0.05, lambda: surface.submit("rest"))
        timer.start()
        assert half.result() == "whole"
        timer.join()


def test_a_command_that_takes_its_time_is_waited_for_in_the_other_way(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    reads = lent(surface)
    here = reads.here
    held = surface.submit("hold", started=True)
    timer = threading.Timer(0.1, lambda: surface.submit("release"))
    timer.start()
    assert held.result() == "released"
    timer.join()
    assert reads.here == here
    lent(surface)


def test_who_reads_himself_waits_for_nobody_and_may_hold_what_piweb_io_wants(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    deadline = time.monotonic() + PATIENCE
    answer = None
    while answer is None:
        lent(surface)
        with suppress(NestedWaitError), surface.session.ledger.settling:
            answer = surface.run("echo", "inside")
        # Taken back in between, if not.
        assert time.monotonic() < deadline, "nobody could read while he held it"
    assert answer["args"] == "inside"


def test_many_threads_at_once_each_get_their_own_answers(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    lent(surface)

    def ask(client: int) -> list[Any]:
        return [surface.run("echo", [client, number])["args"] for number in range(200)]

    with ThreadPoolExecutor(6) as pool:
        for client, answers in enumerate(pool.map(ask, range(6))):
            assert answers == [[client, number] for number in range(200)]


@pytest.mark.parametrize("end", ["SIGKILL", "crash", "stop"])
def test_who_reads_when_the_agent_ends_is_told_at_once(open_: Open, end: str) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    lent(surface)
    held = surface.submit("hold")
    begun = time.monotonic()
    if end == "SIGKILL":
        os.kill(session.pid or 0, signal.SIGKILL)
    elif end == "crash":
        surface.submit("crash")
    else:
        threading.Thread(target=session.stop).start()
    with pytest.raises(AgentExitedError):
        held.result()
    assert time.monotonic() - begun < 5
    session.restart()
    session.wait_ready(PATIENCE)
    assert surface.run("increment") == {"count": 1}
    assert (surface.epoch, surface.state) == (2, {"count": 1})


def test_nothing_of_the_lending_outlives_the_agent(open_: Open) -> None:
    session = open_("counter")
    lent(session.surface("demo"))
    session.close()
    assert get_pump().join(PATIENCE)
    assert not get_pump().has_timers


def test_interrupts_aimed_at_who_reads_lose_no_answer_and_no_state() -> None:
    report = subprocess.run(
        [sys.executable, AGENTS / "interrupted_caller.py", "1500"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.stdout == (
        "hits=1500 unsettled=0 wrong=0 twice=0 missing=0 pending=0 gaps=0 right=True told=True\n"
    ), report.stderr


@pytest.mark.parametrize("kind", ["signal", "finalizer"])
def test_code_that_interrupts_who_reads_may_wait_for_answers_too(kind: str) -> None:
    report = subprocess.run(
        [sys.executable, AGENTS / "nested_caller.py", kind, "500"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.stdout == "failures=[] pending=0 right=True\n", report.stderr

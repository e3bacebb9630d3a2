"""Whoever ends the agent, and whatever it was doing: those who wait are told, nothing is left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import psutil
import pytest

from piweb_jupyter.errors import AgentExitedError, PiwebError
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import LaunchSpec
from tests.host.opening import AGENTS
from tests.leaks import marked_processes
from tests.session.conftest import Run

PATIENCE = 30.0
TOLD_WITHIN = 1.0
GONE_WITHIN = 6.0


def kill(session: AgentSession) -> None:
    assert session.pid is not None
    os.kill(session.pid, signal.SIGKILL)


def exit_by_itself(session: AgentSession) -> None:
    assert session.pid is not None
    os.kill(session.pid, signal.SIGUSR1)


ENDS: dict[str, Callable[[AgentSession], None]] = {
    "killed": kill,
    "exits": exit_by_itself,
    "stopped": AgentSession.stop_soon,
}
DOINGS = ("idle", "command", "turn", "deaf", "stubborn", "family")


def begin(run: Run, doing: str) -> tuple[AgentSession, list[Callable[[float], object]]]:
    """An agent that does something, and what waits for it."""
    if doing in ("deaf", "stubborn"):
        argv = (sys.executable, str(AGENTS / "doomed.py"), doing)
        session = AgentSession(LaunchSpec("command", doing, AGENTS, argv, AGENTS, doing))
        session.start()
        session.wait_ready(PATIENCE)
        return session, [session.surface("demo").submit("anything").result]
    session = run("doomed_agent")
    surface = session.surface("demo")
    waiting: list[Callable[[float], object]] = []
    match doing:
        case "command":
            waiting = [surface.submit("work").result, surface.submit("work").result]
        case "turn":
            waiting = [session.prompt("CALL work {}").wait]
        case "family":
            waiting = [session.prompt("CALL raise_family {}").wait]
    if waiting:
        surface.until(lambda state: state["working"], timeout=PATIENCE).wait()
    return session, waiting


@pytest.mark.parametrize("doing", DOINGS)
@pytest.mark.parametrize("end", ENDS)
def test_those_who_wait_are_told_and_nothing_is_left(run: Run, end: str, doing: str) -> None:
    session, waiting = begin(run, doing)
    try:
        pid = session.pid
        assert pid is not None
        before = marked_processes()
        assert len(before) >= {"family": 7}.get(doing, 2)  # the agent, its family, the warden

        ENDS[end](session)
        for wait in waiting:
            with pytest.raises(AgentExitedError):
                wait(TOLD_WITHIN)
        if not waiting:
            with pytest.raises(PiwebError):
                session.surface("demo").until(lambda _: False, timeout=PATIENCE).wait()
        assert session.lifecycle == "ended"
        assert not session.busy
        assert session.questions.open == ()
        survivors = [process for process in before if "warden.py" not in " ".join(cmdline(process))]
        _, alive = psutil.wait_procs(survivors, timeout=GONE_WITHIN)
        assert [cmdline(process) for process in alive] == []

        session.start()
        session.wait_ready(PATIENCE)
        assert session.epoch == 2
        assert session.pid not in (None, pid)
    finally:
        session.close()


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_fifty_agents_close_together(run: Run) -> None:
    sessions = [run("doomed_agent", name=f"a{n}", ready=False) for n in range(50)]
    for session in sessions:
        session.wait_ready(90)
    agents = [psutil.Process(session.pid) for session in sessions if session.pid]
    assert len(agents) == 50
    for session in sessions:
        session.close_soon()
    _, alive = psutil.wait_procs(agents, timeout=GONE_WITHIN)
    assert alive == []

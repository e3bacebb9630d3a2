"""However a kernel ends, and whatever its agents are doing: six seconds later nothing is left.

One kernel has all six agents at once: an idle one, one with a command running, one in a turn with
a tool, a deaf one, one that ignores SIGTERM, and one whose tool has started processes in sessions
of their own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import psutil
import pytest

from tests.kernel.conftest import ROOT, Kernel, Message
from tests.leaks import marked_processes

DOOMED = ROOT / "tests" / "session" / "doomed_agent"
SCRIPT = ROOT / "tests" / "agents" / "doomed.py"
GONE_WITHIN = 6.0

# What each agent is doing when the kernel ends; the cell returns when all of them do it.
BEGIN = f"""
%load_ext piweb_jupyter
import piweb_jupyter as piweb
busy = lambda state: state["working"]
names = ("idle", "command", "turn", "family")
agents = {{name: piweb.open({str(DOOMED)!r}, name=name, wait=False) for name in names}}
for kind in ("deaf", "stubborn"):
    command = "{sys.executable} {SCRIPT} " + kind
    agents[kind] = piweb.open(cmd=command, name=kind, wait=False)
for session in agents.values():
    session.wait_ready(60)
surface = {{name: session.surface("demo") for name, session in agents.items()}}
waiting = [surface["command"].submit("work"), surface["deaf"].submit("any")]
waiting.append(surface["stubborn"].submit("any"))
turns = [agents["turn"].prompt("CALL work {{}}"), agents["family"].prompt("CALL raise_family {{}}")]
for name in ("command", "turn", "family"):
    surface[name].until(busy, timeout=60).wait()
print(*(session.pid for session in agents.values()))
"""

# Tells when the cell is inside the wait: an interrupt before that is the cell's, not the turn's.
WAIT = """
class Telling:
    def __init__(self, lock):
        self.lock = lock
        self.release = lock.release
    def acquire(self, **kwargs):
        print("waiting", flush=True)
        return self.lock.acquire(**kwargs)
turns[0]._lock = Telling(turns[0]._lock)
turns[0].wait()
"""


def restart(kernel: Kernel) -> None:
    kernel.manager.restart_kernel(now=False)


def shut_down(kernel: Kernel) -> None:
    kernel.manager.shutdown_kernel(now=False)


def shut_down_now(kernel: Kernel) -> None:
    kernel.manager.shutdown_kernel(now=True)


def kill(kernel: Kernel) -> None:
    os.kill(kernel.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("end", [restart, shut_down, shut_down_now, kill])
@pytest.mark.parametrize("name", ["ipykernel-6.31", "ipykernel-7.4"])
def test_no_agent_outlives_its_kernel(
    open_kernel: Callable[[str], Kernel], name: str, end: Callable[[Kernel], None]
) -> None:
    kernel = open_kernel(name)
    before = {process.pid for process in marked_processes()}
    agents = [int(pid) for pid in kernel.check(BEGIN).out.split()]
    assert len(agents) == 6
    ours = [process for process in marked_processes() if process.pid not in before]
    assert {process.pid for process in ours} >= set(agents)
    assert len(ours) >= 6 + 5 + 1  # the agents, a family, the warden

    end(kernel)
    _, alive = psutil.wait_procs(ours, timeout=GONE_WITHIN)
    assert [" ".join(process.cmdline()) for process in alive] == []


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["ipykernel-6.31", "ipykernel-7.4"])
def test_an_interrupted_kernel_loses_no_agent_and_each_goes_on(
    open_kernel: Callable[[str], Kernel], name: str
) -> None:
    kernel = open_kernel(name)
    agents = kernel.check(BEGIN).out
    interrupted: list[bool] = []

    def interrupt(message: Message) -> None:
        if not interrupted and "waiting" in message["content"].get("text", ""):
            interrupted.append(True)
            kernel.interrupt()

    stopped = kernel.finish(kernel.start(WAIT), interrupt)
    assert stopped.error == "KeyboardInterrupt"
    told = kernel.check(
        "with __import__('contextlib').suppress(piweb.errors.PiwebError):\n"
        "    turns[0].wait(20)\n"
        "print(*(session.pid for session in agents.values()))\n"
        "print(turns[0].aborted, turns[1].done, waiting[0].done)"
    ).out
    assert told == f"waiting\n{agents}True False False\n"

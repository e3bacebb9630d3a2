"""However a kernel ends, nothing of its agents is left, whatever each of them was doing.

One kernel holds an agent of every kind at once, so that each row of the table is one test.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from tests.kernel.conftest import KERNELS, Kernel
from tests.leaks import marked_processes

GONE_WITHIN = 6.0

START = """
import json, sys
from pathlib import Path
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import LaunchSpec

def start(name, *argv):
    spec = LaunchSpec("command", name, Path.cwd(), (sys.executable, *argv), Path.cwd(), name)
    session = AgentSession(spec)
    session.start()
    return session

runner = ("-m", "piweb_jupyter.runner", "--agent", "tests/session/doomed_agent")
sessions = {name: start(name, *runner) for name in ("idle", "command", "turn", "family")}
sessions |= {name: start(name, "tests/agents/doomed.py", name) for name in ("deaf", "stubborn")}
for session in sessions.values():
    session.wait_ready(60)
command = sessions["command"].surface("demo").submit("work")
turn = sessions["turn"].prompt("CALL work {}")
family = sessions["family"].prompt("CALL raise_family {}")
stuck = [sessions[name].surface("demo").submit("anything") for name in ("deaf", "stubborn")]
for name in ("command", "turn", "family"):
    sessions[name].surface("demo").until(lambda state: state["working"], timeout=60).wait()
print(json.dumps([session.pid for session in sessions.values()]))
"""


def restart(kernel: Kernel) -> None:
    kernel.manager.restart_kernel()


def shut_down(kernel: Kernel) -> None:
    kernel.manager.shutdown_kernel()


def shut_down_now(kernel: Kernel) -> None:
    kernel.manager.shutdown_kernel(now=True)


def kill(kernel: Kernel) -> None:
    os.kill(kernel.pid, signal.SIGKILL)


ENDS = (restart, shut_down, shut_down_now, kill)


@pytest.mark.parametrize("end", ENDS, ids=[end.__name__ for end in ENDS])
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_left_of_any_agent(
    open_kernel: Callable[[str], Kernel], name: str, end: Callable[[Kernel], None]
) -> None:
    before = {process.pid for process in marked_processes()}
    kernel = open_kernel(name)
    own = {kernel.pid, *before}
    kernel.check(START)
    started = [process for process in marked_processes() if process.pid not in own]
    # Six agents, the warden, and of the family those that have got so far.
    assert len(started) >= 10

    began = time.monotonic()
    end(kernel)
    left = max(0.0, began + GONE_WITHIN - time.monotonic())
    _, alive = psutil.wait_procs(started, timeout=left)
    assert [" ".join(process.cmdline()) for process in alive] == []


@pytest.mark.parametrize("name", KERNELS)
def test_an_interrupt_of_the_kernel_reaches_no_agent(
    open_kernel: Callable[[str], Kernel], name: str
) -> None:
    kernel = open_kernel(name)
    before = kernel.check(START).out
    waiting = kernel.start(
        "print('here', flush=True)\nimport threading; threading.Event().wait(60)"
    )
    interrupted: list[bool] = []

    def interrupt(message: dict[str, object]) -> None:
        if not interrupted and message["msg_type"] == "stream":
            interrupted.append(True)
            kernel.interrupt()

    assert kernel.finish(waiting, interrupt).error == "KeyboardInterrupt"
    after = kernel.check("print(json.dumps([session.pid for session in sessions.values()]))")
    assert after.out == before
    assert kernel.check("command.stage, turn.done, family.done").text == "('running', False, False)"
    kernel.check("for session in sessions.values(): session.close_soon()")
    kernel.check("for session in sessions.values(): session.close()")

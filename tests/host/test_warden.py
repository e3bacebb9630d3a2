"""Who dies: whatever ends the kernel, nothing of an agent is alive six seconds later."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from piweb_jupyter.host import warden
from piweb_jupyter.host.process import close_all
from piweb_jupyter.host.pump import get_pump

from .recording import AGENTS, PATIENCE, RecordedAgent, carrying, survivors

AGENT_KINDS = [
    ("echo.py",),
    ("deaf.py",),
    ("stubborn.py",),
    ("chatterbox.py",),
    ("family.py",),
    ("family.py", "--stubborn"),
]


class Kernel:
    """A stand-in for a kernel: a process of its own that runs agents with AgentProcess."""

    def __init__(self, count: int, program: str, *args: str) -> None:
        self.mark = f"PIWEB_TEST_KERNEL={uuid.uuid4().hex}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, AGENTS / "stand_in_host.py", str(count), AGENTS / program, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {name: value},
        )
        self.agents = [int(pid) for pid in self._answer().split()[1:]]

    def tell(self, command: str) -> str:
        """Give a command; returns the answer."""
        self.say(command)
        return self._answer()

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def everybody(self) -> set[int]:
        """The pids of the kernel and of everything that descends from it."""
        return carrying(self.mark)

    def end(self) -> None:
        """Reap it, and end what a failed test has left."""
        for pid in self.everybody():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


StartKernel = Callable[..., Kernel]


@pytest.fixture
def start_kernel() -> Iterator[StartKernel]:
    kernels: list[Kernel] = []

    def start(count: int, program: str, *args: str) -> Kernel:
        kernels.append(Kernel(count, program, *args))
        return kernels[-1]

    yield start
    for kernel in kernels:
        kernel.end()


def wardens_of(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has just ended
            if b"warden.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
    return found


def open_files(pid: int) -> set[str]:
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # it has just been closed
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "exit", "close"])
def test_nothing_of_any_kind_of_agent_outlives_its_kernel_by_more_than_six_seconds(
    start_kernel: StartKernel, end: str
) -> None:
    kernels = {kind: start_kernel(1, *kind) for kind in AGENT_KINDS}
    families = {kind: kernel.everybody() for kind, kernel in kernels.items()}
    for kind, kernel in kernels.items():
        assert len(wardens_of(families[kind])) == 1, kind
        if end == "close":  # its agents, that is; it lives on
            families[kind] -= {kernel.process.pid}
    for kernel in kernels.values():
        if end in ("exit", "close"):
            kernel.say(end)
        else:
            kernel.process.send_signal(getattr(signal, end))
    left = survivors(set().union(*families.values()))
    assert {kind: left & family for kind, family in families.items() if left & family} == {}
    for kernel in kernels.values():  # nor has anything come to be meanwhile
        assert kernel.everybody() <= {kernel.process.pid}


def test_a_kernel_that_is_killed_while_it_closes_its_agents_is_replaced_by_the_warden(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel(3, "family.py", "--stubborn")
    everybody = kernel.everybody()
    kernel.say("close")
    # The ladder is under way: stdin has ended, so its other end is gone from the agent's pipe.
    pipe = os.readlink(f"/proc/{kernel.agents[0]}/fd/0")
    while pipe in open_files(kernel.process.pid):
        pass
    kernel.process.kill()
    assert survivors(everybody) == set()


def test_fifty_stubborn_agents_do_not_outlive_a_killed_kernel(start_kernel: StartKernel) -> None:
    kernel = start_kernel(50, "stubborn.py")
    everybody = kernel.everybody()
    assert len(everybody) == 52  # with the kernel and one warden
    kernel.process.kill()
    assert survivors(everybody) == set()


def test_an_interrupt_of_the_kernels_process_group_reaches_neither_agent_nor_warden(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel(1, "echo.py")
    others = kernel.everybody() - {kernel.process.pid}
    assert len(others) == 2
    assert {os.getpgid(pid) for pid in others} == others  # each leads a group of its own


def test_a_forked_copy_of_the_kernel_keeps_nothing_alive_and_ends_nothing(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel(2, "stubborn.py")
    copy = int(kernel.tell("fork"))
    agents = set(kernel.agents)
    # What the copy holds of the agents would keep their stdin open.
    pipes = {os.readlink(f"/proc/{pid}/fd/{fd}") for pid in agents for fd in (0, 1, 2)}
    assert len(pipes) == 6
    assert pipes & open_files(copy) == set()
    os.kill(copy, signal.SIGTERM)
    assert survivors({copy}, PATIENCE) == set()
    assert all(Path(f"/proc/{pid}").exists() for pid in agents)

    second = int(kernel.tell("fork"))
    everybody = kernel.everybody()
    kernel.process.kill()
    assert survivors(everybody - {second}) == set()


def test_a_forked_copy_that_exits_leaves_the_agents_of_the_kernel_alone(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel(1, "deaf.py")
    copy = int(kernel.tell("fork-exit"))
    assert survivors({copy}, PATIENCE) == set()
    assert kernel.tell("pids").split()[1:] == [str(pid) for pid in kernel.agents]


def test_a_killed_warden_is_replaced_and_the_next_one_does_its_work(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel(1, "stubborn.py")
    everybody = kernel.everybody()
    (first,) = wardens_of(everybody)
    os.kill(first, signal.SIGKILL)
    assert survivors({first}, PATIENCE) == set()
    while not (second := wardens_of(kernel.everybody())):
        pass
    assert second != {first}
    kernel.process.kill()
    assert survivors(everybody | second) == set()


def test_the_warden_ends_with_the_last_agent_and_comes_again_with_the_next() -> None:
    def wardens() -> set[int]:
        return wardens_of(carrying(os.environ["PIWEB_TEST_RUN"]))

    seen: set[int] = set()
    for _ in range(2):
        agents = [RecordedAgent("echo.py") for _ in range(3)]
        (one,) = wardens()
        assert one not in seen
        seen.add(one)
        close_all([agent.process for agent in agents])
        assert get_pump().join(PATIENCE)
        assert wardens() == set()


def test_bystanders_and_the_agents_of_others_are_left_alone(start_kernel: StartKernel) -> None:
    other = start_kernel(1, "deaf.py")
    bystander = subprocess.Popen(
        [sys.executable, "-I", "-S", AGENTS / "deaf.py"],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    kernel = start_kernel(2, "family.py", "--stubborn")
    everybody = kernel.everybody()
    kernel.process.kill()
    assert survivors(everybody) == set()
    assert other.everybody() == {other.process.pid, *other.agents, *wardens_of(other.everybody())}
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_kernel_that_an_agents_tool_has_started_ends_with_the_agent(
    start_kernel: StartKernel,
) -> None:
    outer = start_kernel(1, "nested.py", "stubborn.py")
    everybody = outer.everybody()
    assert len(wardens_of(everybody)) == 2
    outer.process.kill()
    assert survivors(everybody) == set()


# -- the table of processes -------------------------------------------------------------------


def entry(
    pid: int, *, parent: int = 1, session: int = 0, start: int = 1, marker: str = ""
) -> warden.Entry:
    session = session or pid
    stat = f"{pid} (a) b) S {parent} {session} {session} " + "0 " * 15 + f"{start} 0 0"
    environ = f"A=1\0PIWEB_KERNEL=outer/k\0PIWEB_AGENT=outer.1/{marker}\0" if marker else "A=1\0"
    return warden.Entry(pid, stat.encode(), environ.encode())


def targets(sweep: warden.Sweep, *entries: warden.Entry) -> set[int]:
    table = {entry.pid: entry for entry in entries}
    return {entry.pid for entry in sweep._targets(table)}  # noqa: SLF001 - the rule itself


def test_a_sweep_finds_the_marked_their_sessions_and_their_descendants() -> None:
    sweep = warden.Sweep(b"k.1", {10: b"1"}, kernel_gone=False, now=0.0)
    found = targets(
        sweep,
        entry(10, marker="k.1"),
        entry(11, parent=10, marker="k.1"),
        entry(12, session=10),  # has lost its marker, not its session
        entry(13, parent=12),  # has lost both
        entry(20, marker="k.11"),
        entry(21, parent=20),
        entry(22),
    )
    assert found == {10, 11, 12, 13}


def test_a_sweep_does_not_take_a_new_owner_of_the_agents_number_for_the_agent() -> None:
    sweep = warden.Sweep(b"k.1", {10: b"1"}, kernel_gone=False, now=0.0)
    assert targets(sweep, entry(10, start=2), entry(12, session=10), entry(13, marker="k.1")) == {
        13
    }


def test_who_was_found_once_stays_found_until_its_number_has_another_owner() -> None:
    sweep = warden.Sweep(b"k.1", {10: b"1"}, kernel_gone=False, now=0.0)
    assert targets(sweep, entry(10, marker="k.1"), entry(13, parent=10)) == {10, 13}
    assert targets(sweep, entry(13)) == {13}
    assert targets(sweep, entry(13, start=2)) == set()


def test_the_final_sweep_takes_everything_of_the_kernel_and_of_kernels_inside_it() -> None:
    sweep = warden.Sweep(b"outer", {}, kernel_gone=True, now=0.0)
    assert targets(sweep, entry(10, marker="k.1"), entry(11, marker="k.2"), entry(12)) == {10, 11}

"""Agent processes: whole lines both ways, and an end in bounded time, whatever the agent does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from piweb_jupyter.errors import AgentBusyError, AgentExitedError, AgentLaunchError
from piweb_jupyter.host import process as process_module
from piweb_jupyter.host.process import AgentProcess, close_all
from piweb_jupyter.host.pump import Pump, get_pump

from .recording import (
    AGENTS,
    END_TIMEOUT,
    PATIENCE,
    RecordedAgent,
    agent_command,
    carrying,
    survivors,
)

Launch = Callable[..., RecordedAgent]


@pytest.fixture
def launch() -> Iterator[Launch]:
    agents: list[RecordedAgent] = []

    def launch(program: str, *args: str, **hooks: Callable[..., None]) -> RecordedAgent:
        agents.append(RecordedAgent(program, *args, **hooks))
        return agents[-1]

    yield launch
    close_all([agent.process for agent in agents])
    assert all(agent.process.returncode is not None for agent in agents)


# -- its beginning --------------------------------------------------------------------------


def test_an_agent_leads_a_session_of_its_own_so_that_interrupts_do_not_reach_it(
    launch: Launch,
) -> None:
    agent = launch("echo.py")
    assert os.getsid(agent.process.pid) == agent.process.pid
    assert os.getpgid(agent.process.pid) == agent.process.pid


def test_descendants_are_known_by_the_marker_in_their_environment(launch: Launch) -> None:
    agent = launch("family.py")
    grandchildren = {int(pid) for pid in agent.until_ready()[1:]}
    assert carrying(agent.process.marker) == {agent.process.pid, *grandchildren}


@pytest.mark.parametrize(
    ("command", "cwd", "says"),
    [
        ([], ".", "empty"),
        (["no-such-program"], ".", "install it"),
        (["./no such file"], ".", "check the path"),
        (["./echo.py"], ".", "chmod"),
        ([sys.executable], "no such directory", "create it"),
        ([sys.executable, "a\0b"], ".", "null byte"),
    ],
)
def test_a_launch_that_fails_names_the_program_the_place_and_the_next_action(
    command: list[str], cwd: str, says: str
) -> None:
    with pytest.raises(AgentLaunchError) as caught:
        AgentProcess(
            command,
            cwd=AGENTS / cwd,
            env={},
            on_lines=lambda _: None,
            on_stderr=lambda _: None,
            on_oversize=lambda *_: None,
            on_exit=lambda _: None,
        )
    message = str(caught.value)
    assert says in message
    if command:
        assert command[0] in message
        assert str(AGENTS / cwd) in message
    assert get_pump().join(PATIENCE)  # nor does it leave a warden or a thread


def test_a_program_that_cannot_be_executed_says_so_on_its_stderr(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF but not really")
    program.chmod(0o755)
    stderr: list[bytes] = []
    exits: list[int] = []
    process = AgentProcess(
        [str(program)],
        cwd=tmp_path,
        env={},
        on_lines=lambda _: None,
        on_stderr=stderr.append,
        on_oversize=lambda *_: None,
        on_exit=exits.append,
    )
    assert process.wait(PATIENCE)
    assert exits != [0]
    assert b"broken" in b"".join(stderr)


def test_what_is_sent_before_the_start_is_written_at_the_start() -> None:
    said: list[bytes] = []
    process = AgentProcess(
        agent_command("echo.py"),
        cwd=AGENTS,
        env={},
        on_lines=said.extend,
        on_stderr=lambda _: None,
        on_oversize=lambda *_: None,
        on_exit=lambda _: None,
        start=False,
    )
    process.send(b"early\n")
    process.start()
    process.close()
    assert process.wait(PATIENCE)
    assert said == [b"ready", b"early"]


# -- lines from the agent ---------------------------------------------------------------------


def test_exit_is_told_once_after_the_last_line_and_the_last_of_stderr(launch: Launch) -> None:
    seen_at_exit: list[tuple[int, bytes]] = []

    def on_exit() -> None:
        seen_at_exit.append((len(agent.lines), agent.stderr))

    agent = launch("last_words.py", on_exit=on_exit)
    agent.until_ready()
    agent.process.send(b"go\n")
    assert agent.process.wait(PATIENCE)
    assert agent.exits == [7]
    assert agent.process.returncode == 7
    assert seen_at_exit == [(1002, b"the end\n")]
    assert agent.lines[-1] == b"no line end"
    assert [line.split()[0] for line in agent.lines[1:-1]] == [b"%d" % n for n in range(1000)]


def test_exit_does_not_wait_for_grandchildren_that_hold_the_pipes(launch: Launch) -> None:
    agent = launch("family.py")
    agent.until_ready()
    agent.process.send(b"exit\n")
    agent.until(lambda: agent.exits == [0])


def test_bursts_of_every_size_arrive_whole_at_a_host_that_pauses_four_seconds(
    launch: Launch,
) -> None:
    paused, resume = threading.Event(), threading.Event()
    bursts = {1_000: 5_000, 60_000: 1_000, 1_000_000: 100, 10_000_000: 1}
    agents = {size: launch("burst.py") for size in bursts}
    for agent in agents.values():
        agent.until_ready()

    def pause() -> None:
        paused.set()
        resume.wait()

    # One thread reads for all, so one pause is a pause for every agent.
    get_pump().call_soon(pause)
    paused.wait()
    clock = threading.Timer(4.0, resume.set)
    clock.start()
    for size, agent in agents.items():
        agent.process.send(b"%d %d\n" % (bursts[size], size))
    clock.join()

    for size, agent in agents.items():
        count = bursts[size]
        agent.until(lambda: agent.stderr == b"sent\n" and len(agent.lines) == count + 1)  # noqa: B023
        for number, line in enumerate(agent.lines[1:]):
            head = b"%d " % number
            letter = bytes((ord("a") + number % 26,))
            assert len(line) == size
            assert line == head + letter * (size - len(head))


def test_an_error_in_a_callback_is_logged_and_reading_goes_on(
    launch: Launch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(lines: list[bytes]) -> None:
        raise LookupError(f"deliberate: {lines}")

    agent = launch("echo.py", on_lines=fail)
    agent.until_ready()
    agent.process.send(b"on\n")
    agent.until(lambda: agent.lines[1:] == [b"on"])
    assert "deliberate" in caplog.text


def test_an_agent_that_closes_its_stdout_is_of_no_more_use_and_ended(launch: Launch) -> None:
    agent = launch("mute.py")
    assert agent.process.wait(PATIENCE)
    assert agent.exits == [-signal.SIGTERM]


# -- frames to the agent ----------------------------------------------------------------------


def test_a_large_frame_is_not_overtaken_and_a_small_one_not_torn(launch: Launch) -> None:
    agent = launch("checker.py")
    expected = []
    for number in range(300):
        size = (100, 200_000, 4000, 5000)[number % 4]
        frame = b"%d %s\n" % (number, b"x" * size)
        expected.append(b"%d %d whole" % (number, len(frame)))
        agent.process.send(frame)
    agent.until(lambda: len(agent.lines) == 301)
    assert agent.lines[1:] == expected


def test_frames_of_many_threads_arrive_whole(launch: Launch) -> None:
    agent = launch("checker.py")
    sizes = (10, 4090, 4096, 4200, 70_000)

    def send(first: int) -> None:
        for number in range(first, first + 100):
            frame = b"%d %s\n" % (number, b"x" * sizes[number % len(sizes)])
            agent.process.send(frame)

    threads = [threading.Thread(target=send, args=(1000 * i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    agent.until(lambda: len(agent.lines) == 801)
    assert all(line.endswith(b" whole") for line in agent.lines[1:])
    numbers = [int(line.split()[0]) for line in agent.lines[1:]]
    for i in range(8):
        mine = [number for number in numbers if number // 1000 == i]
        assert mine == list(range(1000 * i, 1000 * i + 100))


def test_large_frames_both_ways_at_once_do_not_block_each_other(launch: Launch) -> None:
    agent = launch("echo.py")
    frames = [bytes((ord("a") + n % 26,)) * 200_000 for n in range(100)]
    for frame in frames:
        agent.process.send(frame + b"\n")
    agent.until(lambda: len(agent.lines) == 101)
    assert agent.lines[1:] == frames


def test_a_small_frame_is_written_at_once_without_waking_the_io_thread(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = launch("echo.py")
    agent.until_ready()
    wakes: list[Pump] = []
    wake = Pump._wake  # noqa: SLF001

    def counted(pump: Pump) -> None:
        wakes.append(pump)
        wake(pump)

    monkeypatch.setattr(Pump, "_wake", counted)
    for _ in range(100):
        agent.process.send(b"small\n")
    agent.until(lambda: len(agent.lines) == 101)
    assert wakes == []
    agent.process.send(b"x" * 5000 + b"\n")
    agent.until(lambda: len(agent.lines) == 102)
    assert len(wakes) == 1


@pytest.mark.parametrize("size", [3_000, 200_000])
def test_interrupts_aimed_at_send_tear_no_line(size: int) -> None:
    report = subprocess.run(
        [sys.executable, AGENTS / "interrupted_host.py", str(size), "5000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.stdout == "hits=5000 torn=0 disordered=0 lost=0\n", report.stderr


def test_sending_to_a_deaf_agent_never_blocks_and_says_when_the_queue_is_full(
    launch: Launch,
) -> None:
    agent = launch("deaf.py")
    agent.until_ready()

    def send(frame: bytes, times: int) -> None:
        for _ in range(times):
            agent.process.send(frame)

    with pytest.raises(AgentBusyError, match="63 MiB"):
        send(b"x" * 1_000_000 + b"\n", 100)
    with pytest.raises(AgentBusyError, match="10000 frames"):
        send(b"small\n", 20_000)


def test_a_dead_agent_refuses_frames_with_its_exit_code(launch: Launch) -> None:
    agent = launch("deaf.py")
    agent.until_ready()
    os.kill(agent.process.pid, signal.SIGKILL)
    agent.until(lambda: bool(agent.exits))
    with pytest.raises(AgentExitedError, match="SIGKILL") as caught:
        agent.process.send(b"hello\n")
    assert caught.value.returncode == -signal.SIGKILL


def test_an_agent_that_has_closed_its_stdin_refuses_frames_and_is_ended(launch: Launch) -> None:
    agent = launch("mute.py", "--deaf")
    agent.until(lambda: agent.stderr == b"closed\n")
    with pytest.raises(AgentExitedError, match="closed its stdin"):
        agent.process.send(b"hello\n")
    assert agent.process.wait(PATIENCE)
    assert agent.exits == [-signal.SIGTERM]


def test_the_io_thread_may_send_and_may_not_wait(launch: Launch) -> None:
    answers: list[BaseException] = []

    started = threading.Event()

    def on_lines(lines: list[bytes]) -> None:
        started.wait()
        if lines == [b"ready"]:
            agent.process.send(b"y" * 100_000 + b"\n")
            try:
                agent.process.wait(1)
            except RuntimeError as exc:
                answers.append(exc)

    agent = launch("echo.py", on_lines=on_lines)
    started.set()
    agent.until(lambda: agent.lines[1:] == [b"y" * 100_000])
    assert "piweb-io" in str(answers)


# -- its end ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "returncode"),
    [
        ("echo.py", 0),
        ("deaf.py", -signal.SIGTERM),
        ("stubborn.py", -signal.SIGKILL),
        ("chatterbox.py", -signal.SIGKILL),
    ],
)
def test_close_climbs_as_far_as_the_agent_makes_it(
    launch: Launch, program: str, returncode: int
) -> None:
    agent = launch(program)
    agent.until_ready()
    agent.process.close()
    agent.process.close()
    with pytest.raises(AgentExitedError):
        agent.process.send(b"too late\n")
    assert agent.process.wait(END_TIMEOUT)
    assert agent.exits == [returncode]


def test_what_is_queued_is_written_before_stdin_is_closed(launch: Launch) -> None:
    agent = launch("checker.py")
    agent.until_ready()
    for number in range(20):
        agent.process.send(b"%d %s\n" % (number, b"x" * 200_000))
    agent.process.close()
    assert agent.process.wait(PATIENCE)
    assert len(agent.lines) == 21
    assert agent.exits == [0]


@pytest.mark.parametrize("end", ["exit", "kill", "close"])
def test_grandchildren_in_sessions_of_their_own_end_with_the_agent(
    launch: Launch, end: str
) -> None:
    other = launch("echo.py")  # so that it isn't the end of everything
    agent = launch("family.py")
    agent.until_ready()
    family = carrying(agent.process.marker)
    assert len(family) == 3
    match end:
        case "exit":
            agent.process.send(b"exit\n")
        case "kill":
            os.kill(agent.process.pid, signal.SIGKILL)
        case "close":
            agent.process.close()
    assert survivors(family) == set()
    assert other.process.returncode is None


def test_a_stubborn_agent_takes_even_those_without_marker_with_it(launch: Launch) -> None:
    agent = launch("family.py", "--stubborn", "--cut-off")
    family = {agent.process.pid, *map(int, agent.until_ready()[1:])}
    assert len(family) == 4
    agent.process.close()
    assert survivors(family) == set()
    assert agent.process.wait(PATIENCE)
    assert agent.exits == [-signal.SIGKILL]


def test_fifty_agents_of_the_worst_kinds_close_in_six_seconds(launch: Launch) -> None:
    programs = ("stubborn.py", "deaf.py", "echo.py", "chatterbox.py", "family.py")
    agents = [launch(programs[i % len(programs)]) for i in range(50)]
    for agent in agents:
        agent.until_ready()
    everybody = set().union(*(carrying(agent.process.marker) for agent in agents))
    assert len(everybody) >= 50
    deadline = time.monotonic() + END_TIMEOUT
    close_all([agent.process for agent in agents], END_TIMEOUT)
    assert all(len(agent.exits) == 1 for agent in agents)
    # Their grandchildren are init's to reap, which takes its moment.
    assert survivors(everybody, deadline - time.monotonic()) == set()


def test_fifty_agents_share_one_thread_and_answer_every_call(launch: Launch) -> None:
    agents = [launch("echo.py") for _ in range(50)]
    for agent in agents:
        agent.until_ready()
    ours = [t.name for t in threading.enumerate() if t.name.startswith("piweb-")]
    assert ours == ["piweb-io"]
    for number in range(100):
        for agent in agents:
            agent.process.send(b"%d\n" % number)
    for agent in agents:
        agent.until(lambda: len(agent.lines) == 101)  # noqa: B023
        assert agent.lines[1:] == [b"%d" % number for number in range(100)]


def test_threads_descriptors_and_processes_return_to_where_they_were() -> None:
    def counts() -> tuple[int, int, int]:
        me = psutil.Process()
        return threading.active_count(), me.num_fds(), len(me.children())

    before = counts()
    for _ in range(50):
        agent = RecordedAgent("echo.py")
        agent.until_ready()
        agent.process.close()
        assert agent.process.wait(PATIENCE)
    assert get_pump().join(PATIENCE)
    assert counts() == before


def test_the_ladder_has_numbers_and_they_fit_into_six_seconds() -> None:
    rungs = (
        process_module.FLUSH_TIMEOUT
        + process_module.EXIT_TIMEOUT
        + process_module.TERM_TIMEOUT
        + process_module.DRAIN_TIMEOUT
    )
    assert rungs <= END_TIMEOUT - 1


def test_the_repr_says_how_it_is(launch: Launch) -> None:
    agent = launch("echo.py")
    assert "running" in repr(agent.process)
    agent.process.close()
    assert agent.process.wait(PATIENCE)
    assert repr(agent.process).endswith("exited with code 0>")

"""An agent process whose every word is kept, and the processes that belong to it."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from piweb_jupyter.host.process import AgentProcess

AGENTS = Path(__file__).parent.parent / "agents"
PATIENCE = 30.0  # for what must happen, however busy the machine is
END_TIMEOUT = 6.0  # for what must have ended


def agent_command(program: str, *args: str) -> list[str]:
    """A program of `tests/agents`, in an interpreter that starts fast."""
    return [sys.executable, "-I", "-S", str(AGENTS / program), *args]


class RecordedAgent:
    """Runs a program of `tests/agents` and keeps its lines, its stderr and its exits."""

    def __init__(
        self,
        program: str,
        *args: str,
        on_lines: Callable[[list[bytes]], None] = lambda _: None,
        on_exit: Callable[[], None] = lambda: None,
    ) -> None:
        self.lines: list[bytes] = []
        self.stderr = b""
        self.exits: list[int] = []
        self.oversize: list[tuple[bytes, int]] = []
        self._line_hook = on_lines
        self._exit_hook = on_exit
        self._news = threading.Condition()
        self.process = AgentProcess(
            agent_command(program, *args),
            cwd=AGENTS,
            env={},
            on_lines=self._on_lines,
            on_stderr=self._on_stderr,
            on_oversize=lambda head, size: self.oversize.append((head, size)),
            on_exit=self._on_exit,
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for `condition`, which is asked again whenever the agent has said something."""
        with self._news:
            assert self._news.wait_for(condition, PATIENCE), (self.lines[-3:], self.stderr[-500:])

    def until_ready(self) -> list[bytes]:
        """Wait for the first line; returns its words."""
        self.until(lambda: bool(self.lines))
        return self.lines[0].split()

    def _on_lines(self, lines: list[bytes]) -> None:
        with self._news:
            self.lines += lines
            self._news.notify_all()
        self._line_hook(lines)

    def _on_stderr(self, chunk: bytes) -> None:
        with self._news:
            self.stderr += chunk
            self._news.notify_all()

    def _on_exit(self, returncode: int) -> None:
        self._exit_hook()
        with self._news:
            self.exits.append(returncode)
            self._news.notify_all()


def carrying(text: str) -> set[int]:
    """The pids of all living processes with `text` in their environment."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            environ = Path("/proc", name, "environ").read_bytes()
            if text.encode() in environ and int(name) != os.getpid():
                found.add(int(name))
    return found


def survivors(pids: Iterable[int], timeout: float = END_TIMEOUT) -> set[int]:
    """Wait for the processes to end; returns those that have not after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    poll = select.poll()
    waited: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            waited[os.pidfd_open(pid)] = pid
    for pidfd in waited:
        poll.register(pidfd, select.POLLIN)
    left = dict(waited)
    while left and (remaining := deadline - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(remaining * 1000):
            poll.unregister(pidfd)
            del left[pidfd]
    for pidfd in waited:
        os.close(pidfd)
    return set(left.values())

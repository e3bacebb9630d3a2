"""Our own: a real session with its ledger and mirror, and a Python agent in our runner."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

from piweb_jupyter.host.command import Command
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import LaunchSpec

from .base import Peer

__all__ = ["AGENTS", "Piweb", "launch"]

AGENTS = Path(__file__).parents[1] / "agents"


def launch(agent: Path, name: str = "bench") -> AgentSession:
    """A session with that agent file, started, as `%piweb` starts it."""
    session = AgentSession(
        LaunchSpec(
            kind="python",
            name=name,
            path=agent,
            argv=(sys.executable, "-m", "piweb_jupyter.runner", "--agent", str(agent)),
            cwd=agent.parent,
            title=name,
            entry=agent,
        )
    )
    session.start()
    return session


class Piweb(Peer):
    """`action` is the command that is called: `increment` or `increment_async`."""

    def __init__(self, action: str, agent: str = "counter.py") -> None:
        self._action = action
        self._agent = AGENTS / agent

    def start(self) -> None:
        self._session = launch(self._agent).wait_ready()
        self._surface = self._session.surface("demo")

    def pids(self) -> list[int]:
        return [self._session.pid or 0]

    def mirrored(self) -> int:
        return int(self._surface.state["counter"])

    def close(self) -> None:
        self._session.close()

    def call(self, size: int) -> int:
        return int(self._surface.run(self._action, by=1, size=size)["counter"])

    def window(self, count: int, width: int, size: int) -> None:
        under_way: deque[Command] = deque()
        for _ in range(count):
            if len(under_way) >= width:
                under_way.popleft().result()
            under_way.append(self._surface.submit(self._action, by=1, size=size))
        for command in under_way:
            command.result()

    def push(self, count: int) -> None:
        self._surface.run("push", count=count)

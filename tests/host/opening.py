"""Sessions of the bare-protocol agents in `tests/agents`, closed at the end of their test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import LaunchSpec

AGENTS = Path(__file__).parents[1] / "agents"
Open: TypeAlias = Callable[..., AgentSession]


def spec(program: str, *arguments: str) -> LaunchSpec:
    """A launch of one of `tests/agents` as a foreign command."""
    argv = (sys.executable, str(AGENTS / f"{program}.py"), *arguments)
    return LaunchSpec("command", program, AGENTS, argv, AGENTS, program)


@contextmanager
def opener() -> Iterator[Open]:
    """Gives `open(program, *arguments, ready=True)`."""
    sessions: list[AgentSession] = []

    def open_(program: str, *arguments: str, ready: bool = True) -> AgentSession:
        session = AgentSession(spec(program, *arguments))
        sessions.append(session)
        session.start()
        return session.wait_ready(30) if ready else session

    try:
        yield open_
    finally:
        for session in sessions:
            session.close_soon()
        for session in sessions:
            session.close()

"""Sessions of Python agents in our own runner."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import LaunchSpec

HERE = Path(__file__).parent
Run: TypeAlias = Callable[..., AgentSession]


@pytest.fixture
def run() -> Iterator[Run]:
    """Gives `run(directory, name=…)`: a ready session; all are closed at the end."""
    sessions: list[AgentSession] = []

    def run_(directory: str, *, name: str | None = None, ready: bool = True) -> AgentSession:
        path = HERE / directory
        argv = (sys.executable, "-m", "piweb_jupyter.runner", "--agent", str(path))
        session = AgentSession(
            LaunchSpec("python", directory, path, argv, path, directory), name=name
        )
        sessions.append(session)
        session.start()
        return session.wait_ready(60) if ready else session

    yield run_
    for session in sessions:
        session.close_soon()
    for session in sessions:
        session.close()

"""A plain directory opens pi there, and the notebook's decision about trust reaches it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import piweb_jupyter as piweb
from piweb_jupyter.notebook.sessions import drop_sessions, get_sessions
from piweb_jupyter.wire.events import ToolStart
from tests.interop.conftest import Pi

# An extension of the directory's own. It runs only if the directory is trusted.
EXTENSION = """
export default function (pi) {
  pi.registerCommand("ours", { description: "from .pi", handler: async () => {} });
}
"""


@pytest.fixture
def directory(pi: Pi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where pi works, with an extension of its own; the environment finds this very pi."""
    for name, value in pi.env.items():
        monkeypatch.setenv(name, value)
    node, script = pi.rpc[:2]
    monkeypatch.setenv("PIWEB_NODE", node)
    monkeypatch.setenv("PIWEB_PI", script)
    extensions = pi.cwd / ".pi" / "extensions"
    extensions.mkdir(parents=True)
    (extensions / "ours.ts").write_text(EXTENSION, encoding="utf-8")
    yield pi.cwd
    drop_sessions()


def commands(session: piweb.AgentSession) -> set[str]:
    return {entry["name"] for entry in session.request("get_commands")["commands"]}


def test_a_trusted_directory_brings_its_own_extensions(directory: Path) -> None:
    session = piweb.open(directory, model="fake/fake-1")
    assert session.spec.kind == "pi"
    turn = session.prompt('SAY "hello from pi"').wait(60)
    assert turn.text == "hello from pi"
    assert session.model == "fake/fake-1"
    assert "ours" in commands(session)
    assert session.surfaces == ()


def test_after_a_no_pi_starts_without_them(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIWEB_TRUST", "ask")
    asked: list[str] = []

    def say_no(question: str) -> str:
        asked.append(question)
        return "n"

    get_sessions().ask = say_no
    session = piweb.open(directory, model="fake/fake-1")
    assert f"{directory}/.pi" in asked[0]
    assert "ours" not in commands(session)
    assert session.prompt('SAY "all the same"').wait(60).text == "all the same"


def test_pi_runs_bash_and_is_aborted(directory: Path) -> None:
    session = piweb.open(directory, model="fake/fake-1")
    turn = session.prompt('CALL bash {"command": "echo from bash"}').wait(60)
    assert [call.name for call in turn.tool_calls] == ["bash"]
    assert "from bash" in turn.tool_calls[0].output
    pid = session.pid
    running = threading.Event()
    session.subscribe(lambda news: running.set() if isinstance(news.value, ToolStart) else None)
    endless = session.prompt('CALL bash {"command": "sleep 600"}')
    assert running.wait(60)
    endless.abort()
    assert endless.wait(60).aborted
    assert session.pid == pid

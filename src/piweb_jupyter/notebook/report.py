"""What `%piweb` tells in words: sessions, their state, versions, help.

The texts are outputs of notebooks, so they hold no times, ids, pids or absolute paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .options import CELL_OPTIONS, OPTIONS, START_OPTIONS, SUBCOMMANDS, allowed_options

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = [
    "Report",
    "describe_help",
    "describe_logs",
    "describe_session",
    "describe_sessions",
    "describe_started",
    "describe_versions",
    "show_path",
]

_INDENT = 11


class Report:
    """Text as a result of a cell."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__


def describe_sessions(sessions: Iterable[AgentSession], current: AgentSession | None) -> Report:
    """One line per session; the current one is marked."""
    rows = [
        (
            "*" if session is current else " ",
            session.name,
            session.lifecycle + (", busy" if session.busy else ""),
            ", ".join(session.surfaces) or "no surface",
            show_path(session.spec.path),
        )
        for session in sessions
    ]
    if not rows:
        return Report(["there is no session; start one: %piweb ./my_agent, or %piweb demo"])
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return Report(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def describe_session(session: AgentSession) -> Report:
    """How a session is, and what waits for an answer."""
    lines = [f"{session.name}: {session.lifecycle}" + (", busy" if session.busy else "")]

    def add(what: str, told: str) -> None:
        lines.append(f"  {what.ljust(_INDENT)}{told}")

    if session.detail:
        add("because", session.detail)
    add("source", f"{show_path(session.spec.path)} ({session.spec.kind})")
    if changes := session.look_for_changes():
        add("changed", f"{', '.join(changes)}; %piweb restart {session.name} runs the new code")
    add("model", session.model or "none; surfaces work without one")
    for domain in session.surfaces:
        surface = session.surface(domain)
        standing = f"rev {surface.rev}" if surface.rev >= 0 else "no state yet"
        add("surface", f"{domain}, {standing}" + ("" if surface.available else ", agent offline"))
    count = sum(message["role"] in ("user", "assistant") for message in session.transcript.messages)
    add("chat", f"{count} message{'s' * (count != 1)}")
    for question in session.questions.open:
        add("question", f"{question.method}: {question.title}")
        add("", f"answer it in the chat, or piweb.open(name={session.name!r}).answer(…)")
    return Report(lines)


def describe_started(session: AgentSession) -> Report:
    """What there is to do now, for who sees no view."""
    name = session.name
    lines = [f"{name}: {session.lifecycle}"]
    for domain in session.surfaces:
        spec = session.spec_of(domain)
        commands = ", ".join(command.name for command in spec.commands) if spec else ""
        lines.append(f"  surface {domain}" + (f": {commands}" if commands else ""))
        lines.append(f"  piweb.open(name={name!r}).surface({domain!r}).run(…)")
    lines.append("  %%piweb and a prompt on the next line to talk to it")
    return Report(lines)


def describe_logs(session: AgentSession, count: int) -> Report:
    """The last lines of the agent's stderr and of our own diagnostics."""
    lines = list(session.log)[-count:]
    return Report(lines or [f"{session.name} has written nothing to its stderr"])


def describe_versions() -> Report:
    """What is installed of all that takes part."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from .. import __version__

    lines = [f"piweb-jupyter {__version__}", f"Python {platform.python_version()}"]
    for package in ("ipykernel", "ipython", "ipywidgets", "anywidget", "jupyterlab", "pydantic-ai"):
        names = (package, f"{package}-slim")
        for name in names:
            try:
                lines.append(f"{package} {version(name)}")
                break
            except PackageNotFoundError:
                continue
        else:
            lines.append(f"{package} is not installed")
    return Report(lines)


def describe_help(subcommand: str | None = None) -> Report:
    """All of it, or one subcommand."""
    if subcommand is not None:
        entry = SUBCOMMANDS[subcommand]
        usage = f"%piweb {entry.name}" + (f" [{entry.operand}]" if entry.operand else "")
        return Report([usage, f"    {entry.help}", *_list_options(allowed_options(subcommand))])
    return Report(
        [
            "%piweb SOURCE [options]",
            "    Start the agent at SOURCE, or attach to the one that has its name, and show it.",
            "    SOURCE is a directory with an agent.py, a .py file, a pi-web agent (index.ts), or",
            "    any other directory, in which pi then works. Without SOURCE: show the session.",
            *_list_options(START_OPTIONS),
            "",
            "%%piweb [SOURCE] [options]",
            "    Send the rest of the cell to the agent; the answer streams into the output.",
            "    {expr} stands for the value of a variable or an expression. Returns the Turn.",
            *_list_options(CELL_OPTIONS),
            "",
            "%piweb SUBCOMMAND",
            *(
                f"    {f'{entry.name} {entry.operand}'.ljust(18)}{entry.help}"
                for entry in SUBCOMMANDS.values()
            ),
            "",
            "A path that is called like a subcommand is written with a ./ before it.",
            "From Python: piweb_jupyter.open(…). Defaults: %config PiwebMagics",
        ]
    )


def _list_options(names: Iterable[str]) -> list[str]:
    lines = []
    for name in names:
        option = OPTIONS[name]
        flags = f"{f'-{option.short}, ' if option.short else '    '}{option.flag} {option.value}"
        lines.append(f"    {flags.ljust(22)}{option.help}")
    return lines


def show_path(path: Path) -> str:
    """The path as one would type it here: relative if that is short, else from home or the root."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    ups = relative.split(os.sep).count("..")
    if ups <= 1 or (ups == 2 and len(relative) < len(str(path))):
        return relative if ups or relative == "." else f"./{relative}"
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)

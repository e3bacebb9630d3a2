"""From a path to an agent: find its file, run it, and say clearly what is wrong with it."""

from __future__ import annotations

import os.path
import sys
import types
from collections.abc import Callable
from typing import TypeVar

from ..agent.definition import Agent
from ..errors import AgentDefinitionError
from .model import ModelError
from .report import failure_text, innermost, is_ours

__all__ = ["StartFailure", "checked", "load_agent"]

T = TypeVar("T")


class StartFailure(Exception):  # noqa: N818 - it is printed, never raised at an author
    """The agent cannot start; the text is everything there is to say."""


def load_agent(path: str) -> tuple[Agent, str]:
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
    if others:
        raise StartFailure(
            f"{file} defines no `agent`, but `{others[0]}` is one\n"
            f"give it that name: agent = {others[0]}"
        )
    if agent is not None:
        raise StartFailure(
            f"`agent` in {file} is a {type(agent).__name__}, not an agent\n"
            "make it with: agent = define_agent(…)"
        )
    raise StartFailure(
        f"{file} defines no `agent`\n"
        "add: from piweb_jupyter.agent import define_agent\n"
        "     agent = define_agent(…)"
    )


def checked(build: Callable[[], T]) -> T:
    """Build a part of the running agent; a fault in its definition is a failed start.

    Raises:
        StartFailure: Instead of the AgentDefinitionError or ModelError.
    """
    try:
        return build()
    except (AgentDefinitionError, ModelError) as exc:
        raise StartFailure(str(exc)) from None


def _find_file(path: str) -> str:
    if os.path.isfile(path):
        return os.path.realpath(path)
    if not os.path.isdir(path):
        raise StartFailure(f"there is no {path}\ngive a directory with an agent.py, or a .py file")
    path = os.path.realpath(path)
    pyproject = os.path.join(path, "pyproject.toml")
    entry = _read_entry(pyproject) if os.path.isfile(pyproject) else None
    file = os.path.join(path, entry or "agent.py")
    if os.path.isfile(file):
        return file
    if entry:
        raise StartFailure(
            f"{pyproject} names the entry {entry!r}, and there is no such file\n"
            "correct the name, or write that file"
        )
    raise StartFailure(f"{path} has no agent.py\nwrite one, or name the agent's file")


def _read_entry(pyproject: str) -> str | None:
    import tomllib

    try:
        with open(pyproject, "rb") as file:
            table = tomllib.load(file)
    except (OSError, ValueError) as exc:
        raise StartFailure(f"cannot read {pyproject}: {exc}\ncorrect the file") from None
    for name in ("tool", "piweb"):
        table = table.get(name, {})
        if not isinstance(table, dict):
            return None
    entry = table.get("entry")
    return entry if isinstance(entry, str) and entry else None


def _run_file(file: str) -> types.ModuleType:
    """Execute the file as a module; its directory comes first on the path, as for a script."""
    directory, base = os.path.split(file)
    if directory not in sys.path[:1]:
        sys.path.insert(0, directory)
    name = base.partition(".")[0]
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"piweb_agent_{name}"  # it must not stand in for a module that others import
    module = types.ModuleType(name)
    module.__file__ = file
    try:
        with open(file, "rb") as source:
            code = compile(source.read(), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:  # ValueError: a null byte
        raise StartFailure(_describe_syntax(file, exc)) from None
    except OSError as exc:
        raise StartFailure(f"cannot read {file}: {exc.strerror}\ncheck its permissions") from None
    sys.modules[name] = module
    try:
        exec(code, vars(module))
    except SystemExit as exc:
        raise StartFailure(
            f"{file} ended the process (exit code {exc.code!r}) before there was an agent\n"
            "remove the call, or put it under: if __name__ == '__main__'"
        ) from None
    except BaseException as exc:
        raise StartFailure(_describe_failure(file, exc)) from None
    return module


def _describe_syntax(file: str, exc: BaseException) -> str:
    text = failure_text(exc).rstrip()
    return f"{file} has a syntax error\n{text}\ncorrect the file, then start the agent again"


def _describe_failure(file: str, exc: BaseException) -> str:
    where = innermost(exc.__traceback__, lambda filename: not is_ours(filename))
    place = f"{where[0]}:{where[1]}" if where else file
    if isinstance(exc, AgentDefinitionError):
        return f"{exc}\nin {place}"
    if isinstance(exc, SyntaxError):
        return _describe_syntax(exc.filename or file, exc)
    if isinstance(exc, ModuleNotFoundError) and exc.name:
        return (
            f"{place} imports `{exc.name}`, and there is no such module in this Python\n"
            f"correct the name, or install what provides it: "
            f"{sys.executable} -m pip install {exc.name.partition('.')[0]}"
        )
    text = failure_text(exc).rstrip()
    if isinstance(exc, ImportError):
        return f"{place} has an import that fails\n{text}\ncorrect the import"
    return f"{place} raised {type(exc).__name__}\n{text}\ncorrect it, then start the agent again"

"""From what the user typed to a LaunchSpec: look at the path, find the program that runs it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import SourceError
from .programs import (
    PI_PACKAGE,
    SCRIPTS,
    Programs,
    describe_no_node,
    find_node,
    find_pi,
    find_runner,
    name_program,
    read_package,
)
from .spec import LaunchSpec
from .words import split_words

__all__ = ["resolve_command", "resolve_source"]

_RUNNER_MODULE = "piweb_jupyter.runner"
_PIWEB_ENTRIES = ("index.ts", "index.js", "index.mjs")
_PIWEB_SUFFIXES = frozenset({".ts", ".js", ".mjs"})
_BLOCKING_STDOUT = Path(__file__).with_name("blocking-stdout.cjs")


def resolve_source(
    source: str | os.PathLike[str],
    *,
    model: str | None = None,
    programs: Programs | None = None,
    environ: Mapping[str, str] | None = None,
) -> LaunchSpec:
    """Decide what `source` is and how it is started. Nothing is executed.

    A directory with `agent.py` (or `[tool.piweb] entry` in its pyproject.toml) and a `.py` file run
    in our runner; a directory with pi-web's entry and a `.ts`, `.js` or `.mjs` file in pi-web's;
    any other directory gets `pi --mode rpc`.

    Raises:
        SourceError: If it is none of these, or the program for it is missing; says what to do.
    """
    programs = programs or Programs()
    environ = os.environ if environ is None else environ
    path = _existing_path(source)
    if path.is_file():
        return _resolve_file(path, model, programs, environ)
    if (entry := _find_python_entry(path)) is not None:
        return _python_spec(path, entry, model, programs, environ)
    if (found := _find_piweb_entry(path)) is not None:
        entry, title = found
        return _piweb_spec(path, entry, title, model, programs, environ)
    return _pi_spec(path, model, programs, environ)


def resolve_command(command: str, *, directory: str | os.PathLike[str] | None = None) -> LaunchSpec:
    """A command line that speaks the wire, run in `directory` (default: where we are).

    Raises:
        SourceError: If the line cannot be split into words, or its program does not exist.
    """
    cwd = _existing_path(directory) if directory is not None else Path.cwd()
    if not cwd.is_dir():
        raise SourceError(f"{cwd} is a file; with --cmd, SOURCE is the directory to run in")
    try:
        words = split_words(command)
    except ValueError as exc:
        raise SourceError(f"--cmd {command!r}: {exc}; close the quotation") from None
    if not words:
        raise SourceError('--cmd is empty; give it a command, as in --cmd "python my_agent.py"')
    program = shutil.which(words[0]) or shutil.which(str(cwd / Path(words[0]).expanduser()))
    if program is None:
        raise SourceError(
            f"--cmd: there is no program {words[0]!r}, neither on PATH nor in {cwd}; "
            "give its full path"
        )
    argv = (os.path.abspath(program), *words[1:])
    name = _name_command(words)
    return LaunchSpec("command", name, cwd, argv, cwd, title=shlex.join(words))


# ---------------------------------------------------------------- paths


def _existing_path(source: str | os.PathLike[str]) -> Path:
    text = os.fspath(source)
    if not text or "\0" in text:
        raise SourceError(f"{text!r} is no path; give a directory with an agent.py")
    path = Path(text).expanduser()
    try:
        return path.resolve(strict=True)
    except FileNotFoundError:
        raise SourceError(_describe_missing(text, path)) from None
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of links, up to Python 3.12
        raise SourceError(f"cannot open {text!r}: {exc}") from None


def _describe_missing(text: str, path: Path) -> str:
    where = "" if path.is_absolute() else f" in {Path.cwd()}"
    near = _find_nearest(path)
    if near is not None:
        return f"there is no {text!r}{where}; did you mean {_as_typed(near, text)!r}?"
    return f"there is no {text!r}{where}; `%piweb new {shlex.quote(text)}` writes a starter agent"


def _find_nearest(path: Path) -> Path | None:
    """The existing path whose parts are each the typed one, or much like it."""
    import difflib

    found = Path(path.anchor or ".")
    for part in path.parts[1:] if path.anchor else path.parts:
        if part == ".." or (found / part).exists():
            found /= part
            continue
        try:
            names = sorted(entry.name for entry in found.iterdir())
        except OSError:
            return None
        near = difflib.get_close_matches(part, names, n=1)
        if not near:
            return None
        found /= near[0]
    return found


def _as_typed(found: Path, text: str) -> str:
    return f"./{found}" if text.startswith("./") else str(found)


def _resolve_file(
    path: Path, model: str | None, programs: Programs, environ: Mapping[str, str]
) -> LaunchSpec:
    if path.suffix == ".py":
        return _python_spec(path, path, model, programs, environ)
    if path.suffix in _PIWEB_SUFFIXES:
        return _piweb_spec(path, path, "", model, programs, environ)
    raise SourceError(
        f"{path} is no agent: expected a directory, a .py file, or a pi-web entry (.ts, .js, .mjs)"
    )


def _find_python_entry(directory: Path) -> Path | None:
    named = _read_pyproject(directory).get("entry")
    if named is not None:
        entry = directory / str(named)
        if not entry.is_file():
            raise SourceError(
                f"{directory / 'pyproject.toml'} names the entry {str(named)!r} in [tool.piweb], "
                "and there is no such file; correct it or remove the line"
            )
        return entry
    entry = directory / "agent.py"
    return entry if entry.is_file() else None


def _read_pyproject(directory: Path) -> dict[str, Any]:
    path = directory / "pyproject.toml"
    if not path.is_file():
        return {}
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise SourceError(f"cannot read {path}: {exc}") from None
    ours = table.get("tool", {}).get("piweb", {})
    return ours if isinstance(ours, dict) else {}


def _find_piweb_entry(directory: Path) -> tuple[Path, str] | None:
    """pi-web's own probe: `pi-web.entry` in package.json, else an index file."""
    about = read_package(directory).get("pi-web")
    about = about if isinstance(about, dict) else {}
    title = about.get("title")
    title = title if isinstance(title, str) else ""
    named = about.get("entry")
    if isinstance(named, str) and named:
        entry = directory / named
        if not entry.is_file():
            raise SourceError(
                f"{directory / 'package.json'} names the entry {named!r} in pi-web.entry, and "
                "there is no such file; correct it or remove the line"
            )
        return entry, title
    for name in _PIWEB_ENTRIES:
        if (directory / name).is_file():
            return directory / name, title
    return None


# ---------------------------------------------------------------- the four kinds


def _python_spec(
    path: Path,
    entry: Path,
    model: str | None,
    programs: Programs,
    environ: Mapping[str, str],
) -> LaunchSpec:
    directory = path if path.is_dir() else path.parent
    python = programs.python or sys.executable
    if not python:
        raise SourceError(
            "this Python does not know its own program; name one with "
            "%config PiwebMagics.python = '/path/to/python'"
        )
    # -P: a module of the agent's directory must not stand in for one of the standard library's
    # while the runner starts. The runner puts the directory on sys.path when it loads the agent.
    argv = [python, "-P", "-m", _RUNNER_MODULE, "--agent", str(entry)]
    if model:
        argv += ["--model", model]
    title = _read_pyproject(directory).get("title") if path.is_dir() else None
    name = _name_path(path)
    # The kernel's inline backend draws into cells, and there are none in the agent.
    inline = environ.get("MPLBACKEND", "").startswith("module://")
    return LaunchSpec(
        "python",
        name,
        path,
        tuple(argv),
        directory,
        title=title if isinstance(title, str) else name,
        entry=entry,
        model=model,
        env={"MPLBACKEND": "agg"} if inline else {},
    )


def _piweb_spec(
    path: Path,
    entry: Path,
    title: str,
    model: str | None,
    programs: Programs,
    environ: Mapping[str, str],
) -> LaunchSpec:
    directory = path if path.is_dir() else path.parent
    named, where = name_program("runner", programs, environ)
    if not named:
        raise SourceError(
            f"{entry} is a pi-web agent and runs in pi-web's runner; point PIWEB_RUNNER (or "
            "%config PiwebMagics.runner) to pi-web's packages/runner/runner-bootstrap.mjs"
        )
    runner = find_runner(Path(named).expanduser(), where)
    if runner.suffix in SCRIPTS:
        node = find_node(programs, environ)
        if node is None:
            raise SourceError(describe_no_node(f"pi-web's runner {runner}"))
        argv = [node, "-r", str(_BLOCKING_STDOUT), str(runner)]
    else:
        argv = [str(runner)]
    argv += ["--agent", str(entry), "--cwd", str(directory)]
    if model:
        argv += ["--model", model]
    name = _name_path(path)
    return LaunchSpec(
        "pi-web",
        name,
        path,
        tuple(argv),
        directory,
        title=title or name,
        entry=entry,
        model=model,
    )


def _pi_spec(
    directory: Path, model: str | None, programs: Programs, environ: Mapping[str, str]
) -> LaunchSpec:
    command = find_pi(directory, programs, environ)
    if command is None:
        raise SourceError(
            f"{directory} has no agent.py, so it is a place for pi to work in, and pi is not "
            f"installed: `npm install -g {PI_PACKAGE}`, or point PIWEB_PI (or %config "
            f"PiwebMagics.pi) to it; `%piweb new {shlex.quote(directory.name)}_agent` writes a "
            "Python agent instead"
        )
    argv = [*command, "--mode", "rpc"]
    if model:
        argv += ["--model", model]
    name = _name_path(directory)
    return LaunchSpec("pi", name, directory, tuple(argv), directory, title=name, model=model)


# ---------------------------------------------------------------- names


def _name_path(path: Path) -> str:
    """A directory's name; a file's, unless it has the name that every agent's file has."""
    if path.is_file():
        if path.name in ("agent.py", *_PIWEB_ENTRIES):
            return path.parent.name or "agent"
        return path.stem
    return path.name or "agent"


def _name_command(words: list[str]) -> str:
    """The script's name if the program only interprets one, else the program's."""
    program = Path(words[0]).stem
    if program.rstrip("0123456789.") in ("python", "node", "deno", "bun", "sh", "bash", "env"):
        for word in words[1:]:
            if not word.startswith("-") and Path(word).suffix:
                return Path(word).stem
    return program

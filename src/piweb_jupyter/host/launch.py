"""Spawning: what is checked before, what is put before the command, and the pipes to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import AgentLaunchError

__all__ = ["Launch", "Spawned"]


@dataclass(frozen=True, slots=True)
class Spawned:
    """A child and the host's ends of its pipes, not blocking."""

    popen: subprocess.Popen[bytes]
    stdin: int
    stdout: int
    stderr: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that is ready to be spawned: checked, and its environment taken.

    Raises:
        AgentLaunchError: From `prepare` and `spawn`; names the program and the next action.
    """

    argv: tuple[str, ...]
    cwd: Path
    environ: Mapping[str, str]
    prefix: tuple[str, ...]

    @classmethod
    def prepare(cls, argv: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> Launch:
        """Check the command. Looks at files, so not on `piweb-io`."""
        _check(argv, cwd, environ)
        return cls(tuple(argv), cwd, environ, _die_with_parent())

    def spawn(self) -> Spawned:
        """Start it in a session of its own."""
        fds: list[int] = []
        try:
            for _ in range(3):
                fds += os.pipe()
            popen = subprocess.Popen(
                [*self.prefix, *self.argv],
                stdin=fds[0],
                stdout=fds[3],
                stderr=fds[5],
                cwd=self.cwd,
                env=self.environ,
                # An interrupt of the kernel goes to its process group; the agent is not in it.
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            for fd in fds:
                os.close(fd)
            raise AgentLaunchError(
                f"cannot start {self.argv[0]!r} in {str(self.cwd)!r}: {exc}; try it by hand there"
            ) from exc
        for fd in (fds[0], fds[3], fds[5]):
            os.close(fd)
        for fd in (fds[1], fds[2], fds[4]):
            os.set_blocking(fd, False)
        return Spawned(popen, stdin=fds[1], stdout=fds[2], stderr=fds[4])


@cache
def _die_with_parent() -> tuple[str, ...]:
    """What to put before a command so that it gets SIGTERM when this process dies.

    The signal comes when the *thread* that spawned it ends, which is why agents are spawned by
    `piweb-io`. setpriv does it without running Python code between fork and exec; busybox's and
    old ones can't.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "TERM", "--")
    try:
        trial = subprocess.run(
            [*prefix, "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=2
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return prefix if trial.returncode == 0 else ()


def _check(argv: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
    """Say what is wrong before setpriv would say it in its own words, as the agent's stderr."""
    if os.name != "posix":
        raise AgentLaunchError("agents need Linux or macOS; on Windows, start Jupyter inside WSL")
    if not argv:
        raise AgentLaunchError("cannot start the agent: its command is empty")
    program = argv[0]
    if not cwd.is_dir():
        raise AgentLaunchError(
            f"cannot start {program!r}: the working directory {str(cwd)!r} does not exist; create "
            "it or name another"
        )
    if os.sep in program:
        path = cwd / program
        if not path.is_file():
            reason, action = "there is no such file", "check the path"
        elif not os.access(path, os.X_OK):
            reason, action = "it is not executable", "make it so with chmod +x"
        else:
            return
    elif shutil.which(program, path=environ.get("PATH")) is None:
        reason, action = "it is not on PATH", "install it or give its full path"
    else:
        return
    raise AgentLaunchError(f"cannot start {program!r} in {str(cwd)!r}: {reason}; {action}")

"""The host's hold on the warden: it is started with the first agent and let go with the last."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .pump import Pump

__all__ = ["Guard"]

_log = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("warden.py")
# A warden that is killed while agents run is replaced, but something that kills every one of them
# is not fought for ever.
_REPLACEMENTS = 3


class Guard:
    """Tells the warden who is to be guarded. Everything here runs on `piweb-io`.

    Without a warden (it can't be started, or is killed time and again) agents still end by the
    host's ladder, by their parent death signal and by the end of their stdin.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._pipe = -1
        self._popen: subprocess.Popen[bytes] | None = None
        self._agents: dict[str, int] = {}
        self._replaced = 0
        self._environ: dict[str, str] = {}

    @property
    def is_standing(self) -> bool:
        """Does a warden listen?"""
        return self._pipe >= 0

    def prepare(self, pump: Pump, environ: Mapping[str, str]) -> None:
        """Before an agent is spawned: from its first moment on, a warden stands."""
        # It must outlive what it guards: to the warden of an outer kernel (one whose agent has
        # started this kernel), it is no descendant.
        kinship = ("PIWEB_KERNEL", "PIWEB_AGENT")
        self._environ = {name: environ[name] for name in environ if name not in kinship}
        if not self.is_standing and self._replaced <= _REPLACEMENTS:
            self._start(pump)

    def adopt(self, marker: str, pid: int) -> None:
        """An agent runs."""
        self._agents[marker] = pid
        self._tell(f"agent {marker} {pid}")

    def sweep(self, marker: str) -> None:
        """End what the agent has started, and whatever is left of it in 2 s."""
        self._tell(f"sweep {marker}")

    def release(self, marker: str) -> None:
        """The agent is gone (or never came to be). With the last one the warden goes."""
        self._agents.pop(marker, None)
        if not self._agents:
            self._tell("bye")
            self._hang_up()
            self._replaced = 0

    def forget(self) -> None:
        """In a forked copy of the kernel: the warden is not ours."""
        self._agents.clear()
        self._hang_up()

    def _start(self, pump: Pump) -> None:
        out, in_ = os.pipe()
        try:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid()), self._token],
                stdin=out,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=self._environ,
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            os.close(in_)
            _log.warning("agents run without a warden: %s", exc)
            return
        finally:
            os.close(out)
        os.set_blocking(in_, False)
        self._pipe = in_
        self._popen = popen

        def ended() -> None:
            popen.wait()
            # Not the pipe's number: the next warden's pipe may have got the same one.
            if self._popen is popen:  # nobody said bye
                self._hang_up()
                self._replace(pump)

        pump.watch_exit(popen.pid, ended)

    def _replace(self, pump: Pump) -> None:
        self._replaced += 1
        if not self._agents:
            return
        if self._replaced > _REPLACEMENTS:
            _log.warning("the warden does not stay; agents run without one")
            return
        _log.warning("the warden has ended; another one takes over")
        self._start(pump)
        for marker, pid in self._agents.items():
            self._tell(f"agent {marker} {pid}")

    def _tell(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, line.encode() + b"\n")
        except OSError as exc:  # it is gone and will be replaced, or it is stopped
            _log.debug("the warden was not told %r: %s", line, exc)

    def _hang_up(self) -> None:
        self._popen = None
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

"""What a test needs from the machine: it is there, or the test skips, or fails where CI=true."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from hatch_build import find_node
from tools import provision


def missing(what: str) -> NoReturn:
    """Skip the test on a user's machine; fail it where everything must be present."""
    reason = f"{what}; `make test-needs` brings it where that is possible"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_chromium() -> Path:
    return provision.find_chromium() or missing("no Chromium")


def require_kernel(name: str) -> str:
    """The name of a kernelspec below `provision.JUPYTER_PATH`, e.g. `ipykernel-6.31`."""
    if not (provision.JUPYTER_PATH / "kernels" / name / "kernel.json").exists():
        missing(f"no kernelspec {name}")
    return name


@dataclass(frozen=True)
class PiInstall:
    """A pi command line and the Node to start it with."""

    node: Path
    script: Path

    @property
    def argv(self) -> tuple[str, ...]:
        return (str(self.node), str(self.script))


def require_pi() -> PiInstall:
    script = provision.find_pi() or missing("no pi")
    return PiInstall(find_node()[0], script)

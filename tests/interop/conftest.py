"""A real pi, shut off from the network and from the user's files, and a model server for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.model_server import MODEL, ModelServer
from tests.leaks import MARK, RUN
from tests.needs import require_pi
from tools.provision import CACHE


@dataclass(frozen=True)
class Pi:
    """How to start pi: `argv` with anything appended, in `env`, from `cwd`."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    home: Path

    @property
    def rpc(self) -> tuple[str, ...]:
        """pi as a child that speaks its RPC protocol, on the scripted model."""
        return (*self.argv, "--mode", "rpc", "--model", f"fake/{MODEL}")


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as models:
        yield models


@pytest.fixture
def pi(model_server: ModelServer, tmp_path: Path) -> Pi:
    install = require_pi()
    home, project = tmp_path / "home", tmp_path / "project"
    settings = home / "agent"
    for directory in (settings, project):
        directory.mkdir(parents=True)
    (settings / "models.json").write_text(json.dumps(_models(model_server.url)), encoding="utf-8")
    compile_cache = CACHE / "node-compile-cache"  # halves the start of the next pi
    env = {
        "PATH": os.pathsep.join(
            [str(install.node.parent), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
        ),
        "HOME": str(home),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "PI_CODING_AGENT_DIR": str(settings),
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_TELEMETRY": "0",
        "NODE_COMPILE_CACHE": str(compile_cache),
        MARK: RUN,
    }
    return Pi(install.argv, env, project, home)


def _models(url: str) -> dict[str, object]:
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0}
    limits = {"contextWindow": 100_000, "maxTokens": 8_000, "cost": cost}
    about = {"name": "Scripted model", "reasoning": True, "input": ["text", "image"]}
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "none"}
    return {"providers": {"fake": {**provider, "models": [{"id": MODEL, **about, **limits}]}}}

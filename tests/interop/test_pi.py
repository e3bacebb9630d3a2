from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.interop.conftest import Pi
from tests.interop.model_server import ModelServer


def test_a_real_pi_answers_get_state(pi: Pi) -> None:
    answers = _talk(pi, {"id": "1", "type": "get_state"})
    state = answers[-1]["data"]
    assert state["isStreaming"] is False
    assert state["model"]["provider"] == "fake"


def test_a_real_pi_prompts_the_scripted_model(pi: Pi, model_server: ModelServer) -> None:
    lines = _talk(pi, {"id": "1", "type": "prompt", "message": 'SAY "as told"'}, until="agent_end")
    assert "as told" in json.dumps(lines[-1])
    assert model_server.requests[-1].prompt == 'SAY "as told"'
    assert "bash" in model_server.requests[-1].tools


def _talk(pi: Pi, command: dict[str, Any], until: str = "response") -> list[dict[str, Any]]:
    """Send one command; returns every line up to the first of the type `until`."""
    with subprocess.Popen(
        pi.rpc, cwd=pi.cwd, env=pi.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        lines = []
        for line in process.stdout:
            lines.append(json.loads(line))
            if lines[-1]["type"] == until:
                break
        process.stdin.close()
        process.stdout.read()
        assert process.wait(20) == 0
    return lines

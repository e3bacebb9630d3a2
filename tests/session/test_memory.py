"""A kernel whose view does not answer stays small, however much the agent says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_two_hundred_megabytes_of_events_with_a_paused_view_grow_a_kernel_by_less_than_eighty() -> (
    None
):
    command = [sys.executable, "-m", "benchmarks.memory", "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["grown_mb"] < 80
    assert found["fresh"]  # the view goes on with a present that has the end in it

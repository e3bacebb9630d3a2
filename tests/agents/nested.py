"""An agent whose tool runs a kernel with an agent (the named program) of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

inner = subprocess.Popen(
    [sys.executable, HERE / "stand_in_host.py", "1", HERE / sys.argv[1]],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    start_new_session=True,
)
assert inner.stdout is not None
inner.stdout.readline()
os.write(1, b"ready\n")
while True:
    signal.pause()

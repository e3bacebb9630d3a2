"""Ignores SIGTERM and never stops talking: it hangs in `write` whenever nobody reads."""

from __future__ import annotations

import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"ready\n")
while True:
    os.write(1, b"x" * 1000 + b"\n")

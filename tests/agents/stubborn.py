"""Deaf, and ignores every signal that can be ignored."""

from __future__ import annotations

import os
import signal

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"ready\n")
while True:
    signal.pause()

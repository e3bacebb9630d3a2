"""Closes its stdout and goes on living; `--deaf` closes its stdin as well."""

from __future__ import annotations

import os
import signal
import sys

os.write(1, b"ready\n")
os.close(0 if "--deaf" in sys.argv else 1)
os.write(2, b"closed\n")
while True:
    signal.pause()

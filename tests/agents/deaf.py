"""Never reads its stdin, so it does not see that it ends. SIGTERM ends it."""

from __future__ import annotations

import os
import signal

os.write(1, b"ready\n")
while True:
    signal.pause()

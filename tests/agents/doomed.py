"""Gets ready, then reads nothing more. `stubborn`: ignores SIGTERM too. Exits on SIGUSR1."""

from __future__ import annotations

import os
import signal
import sys

signal.signal(signal.SIGUSR1, lambda *_: os._exit(3))
if sys.argv[1:] == ["stubborn"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b'{"type":"runner_ready"}\n')
os.write(1, b'{"type":"piweb_state","key":"surface:demo","value":{"working":true},"rev":0}\n')
while True:
    signal.pause()

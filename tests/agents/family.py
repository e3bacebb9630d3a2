"""A tool's offspring: grandchildren in sessions of their own, one of which ignores SIGTERM.

They hold the agent's stdout and stderr open. The first line names their pids. The agent ends with
its stdin, or at once when it reads `exit`; `--stubborn` makes it like `stubborn.py`.
"""

from __future__ import annotations

import os
import signal
import sys


def grandchild(*, stubborn: bool, cut_off: bool = False) -> int:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        os.read(read, 1)
        return pid
    os.setsid()
    os.close(0)
    code = "import os,signal;os.write(int(os.environ['W']),b'.');signal.pause()"
    if stubborn:
        code = f"import signal;signal.signal(15,signal.SIG_IGN);{code}"
    environ = {} if cut_off else dict(os.environ)
    os.set_inheritable(write, True)
    os.execve(sys.executable, ["grandchild", "-ISc", code], environ | {"W": str(write)})


offspring = [grandchild(stubborn=False), grandchild(stubborn=True)]
if "--cut-off" in sys.argv:  # without the marker: found by descent alone
    offspring.append(grandchild(stubborn=True, cut_off=True))
if "--stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"ready %s\n" % " ".join(map(str, offspring)).encode())
while "--stubborn" in sys.argv:
    signal.pause()
sys.stdin.buffer.readline()

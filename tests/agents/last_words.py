"""Ends in the middle of a command: a megabyte of lines, a line without its end, stderr, code 7."""

from __future__ import annotations

import os
import sys

os.write(1, b"ready\n")
sys.stdin.buffer.readline()
for number in range(1000):
    sys.stdout.write(f"{number} {'x' * 1000}\n")
sys.stdout.write("no line end")
sys.stdout.flush()
sys.stderr.write("the end\n")
sys.exit(7)

"""Answers the line `COUNT SIZE` with COUNT lines of SIZE bytes: a number, and one byte repeated."""

from __future__ import annotations

import os
import sys

os.write(1, b"ready\n")
for request in sys.stdin.buffer:
    count, size = map(int, request.split())
    for number in range(count):
        head = b"%d " % number
        line = head + bytes((ord("a") + number % 26,)) * (size - len(head)) + b"\n"
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(1, rest) :]
    os.write(2, b"sent\n")

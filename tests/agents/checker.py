"""Reads lines `NUMBER LETTERS` and says of each what came: its number, its size, `whole` or `torn`.

`sync` is answered with `sync`, so that a sender can wait.
"""

from __future__ import annotations

import os
import sys

os.write(1, b"ready\n")
for line in sys.stdin.buffer:
    if line == b"sync\n":
        os.write(1, line)
        continue
    number, _, letters = line[:-1].partition(b" ")
    whole = number.isdigit() and letters == letters[:1] * len(letters)
    os.write(1, b"%s %d %s\n" % (number[:20], len(line), b"whole" if whole else b"torn"))

"""What crosses the pipe between host and agent. Pure: no I/O, no threads, no Jupyter."""

from __future__ import annotations

"""The kernel's side of one agent: its process, its state, its conversation. Knows no Jupyter."""

from __future__ import annotations

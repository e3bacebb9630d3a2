"""The child's main: one reader, one writer, the agent's surfaces and its conversation."""

from __future__ import annotations

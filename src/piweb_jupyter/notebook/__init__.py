"""What only a notebook has: the magic, its sessions, its completion, and variables in prompts."""

from __future__ import annotations

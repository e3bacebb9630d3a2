"""The work that every peer does, so that they can be compared: count up, and carry some weight."""

from __future__ import annotations

from typing import Any

__all__ = ["make_pad"]

_ITEM = {"id": 0, "role": "assistant", "text": "x" * 48, "done": True, "t": 1700000000.125}
_ITEM_BYTES = 103  # with its comma, compact

_pads: dict[int, list[dict[str, Any]]] = {}


def make_pad(size: int) -> list[dict[str, Any]]:
    """A list of chat-like messages that is about `size` bytes of JSON; the same one each time."""
    pad = _pads.get(size)
    if pad is None:
        count = max(1, round(size / _ITEM_BYTES))
        pad = _pads[size] = [{**_ITEM, "id": i % 10} for i in range(count)]
    return pad

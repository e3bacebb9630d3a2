"""A copy of a chat that is kept by applying operations, as the browser keeps its own."""

from __future__ import annotations

from typing import Any

import orjson

from piweb_jupyter.host.transcript import Op, Transcript

__all__ = ["ChatCopy", "part_of", "texts_of"]


class ChatCopy:
    """Applies operations verbatim, after a trip through JSON, and refuses those that don't fit."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        present = transcript.to_json()
        self.messages: list[dict[str, Any]] = present["messages"]
        self.meta: dict[str, Any] = present["meta"]
        self.seq: int = present["seq"]

    def take(self, ops: list[Op]) -> list[list[Any]]:
        """Apply them; return them as they came through JSON."""
        told: list[list[Any]] = orjson.loads(orjson.dumps(ops))
        for op in told:
            self._apply(*op)
            self.seq += 1
        return told

    def check(self) -> None:
        """The copy is what the transcript is."""
        present = self.transcript.to_json()
        assert present["messages"] == self.messages
        assert present["meta"] == self.meta
        assert present["seq"] == self.seq

    def _apply(self, kind: str, *args: Any) -> None:
        match kind, args:
            case "message", (i, message):
                _put(self.messages, i, message)
            case "part", (i, p, part):
                _put(self.messages[i]["parts"], p, part)
            case "append", (i, p, name, text):
                self.messages[i]["parts"][p][name] += text
            case "meta", (fields,):
                assert fields.keys() <= self.meta.keys()
                self.meta.update(fields)
            case "clear", ():
                self.messages.clear()
            case _:
                raise AssertionError(f"no operation: {kind} {args}")


def _put(items: list[Any], i: int, item: Any) -> None:
    assert 0 <= i <= len(items)
    items[i : i + 1] = [item]


def texts_of(message: dict[str, Any]) -> str:
    """The text parts of a message, joined."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def part_of(messages: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The only part of that type."""
    [part] = [p for message in messages for p in message["parts"] if p["type"] == kind]
    assert isinstance(part, dict)
    return part

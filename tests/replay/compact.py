"""A chat in a few lines of text, for expectations that a person can check."""

from __future__ import annotations

from typing import Any

import orjson

__all__ = ["compact", "compact_meta"]

_WIDTH = 60


def compact(messages: list[dict[str, Any]]) -> list[str]:
    """One line a message, `role: text`, with its status if that is not `done`; one for each card,
    `name(arguments) status: output`; and one for an error."""
    lines: list[str] = []
    for message in messages:
        status = "" if message["status"] == "done" else f" {message['status']}"
        texts: list[str] = []
        for part in message["parts"]:
            match part["type"]:
                case "text" | "notice":
                    texts.append(part["text"])
                case "thinking":
                    texts.append(f"({part['text']})")
                case "image":
                    texts.append(f"<{part['mimeType']}>")
            if message["role"] == "notice":
                times = f" x{part['count']}" if "count" in part else ""
                status = f" {part['level']}{times}"
        lines.append(f"{message['role']}{status}: {_short(' '.join(texts))}")
        if "error" in message and message["role"] != "notice":
            lines.append(f"  ! {_short(message['error'])}")
        for part in message["parts"]:
            if part["type"] == "tool":
                arguments = ", ".join(
                    f"{key}={value}" for key, value in (part["args"] or {}).items()
                )
                call = f"{part['name']}({_short(arguments)})"
                lines.append(f"  {call} {part['status']}: {_short(part['output'])}")
    return lines


def compact_meta(meta: dict[str, Any]) -> list[str]:
    """What is beside the messages and not as it was at the start; without sums of tokens."""
    fields = {key: value for key, value in meta.items() if key not in ("usage", "stats")}
    if not any(fields["queue"].values()):
        del fields["queue"]
    return [
        f"* {key}: {value if isinstance(value, str) else orjson.dumps(value).decode()}"
        for key, value in fields.items()
        if value
    ]


def _short(text: str) -> str:
    shown = text.replace("\n", "\\n")
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 20]}…{shown[-20:]}"

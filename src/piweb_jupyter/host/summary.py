"""What a run came to, read off its messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..wire.json import JSON
from .messages import Message

__all__ = ["RunSummary", "ToolCall", "summarise"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a run. `status` is `pending`, `running`, `done`, `error` or `aborted`."""

    name: str
    args: JSON
    status: str
    output: str


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The assistant's last text, the tools on the way, what it cost and how it ended."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: dict[str, float] | None = None
    error: str | None = None
    aborted: bool = False


def summarise(messages: Iterable[Message]) -> RunSummary:
    text = ""
    calls: list[ToolCall] = []
    usage: dict[str, float] = {}
    error: str | None = None
    aborted = False
    for message in messages:
        if message["role"] == "notice" and (message.get("error") or message["status"] == "aborted"):
            error, aborted = message.get("error"), message["status"] == "aborted"
        if message["role"] != "assistant":
            continue
        # A later answer makes up for an earlier failure.
        error = message.get("error")
        aborted = message["status"] == "aborted"
        text = "".join(p["text"] for p in message["parts"] if p["type"] == "text") or text
        calls += [
            ToolCall(part["name"], part["args"], part["status"], part["output"])
            for part in message["parts"]
            if part["type"] == "tool"
        ]
        for key, value in (message.get("usage") or {}).items():
            usage[key] = usage.get(key, 0) + value
    return RunSummary(text, tuple(calls), usage or None, error, aborted)

"""What an engine is to the conversation: one request in, one stream of typed events out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol, TypeAlias

from ..wire.events import ContentDelta, ContentEnd, ContentStart
from ..wire.record import Record, field
from .model import Entry, Fields

__all__ = [
    "Backend",
    "ModelEvent",
    "ModelRequest",
    "ModelStop",
    "ModelUsage",
    "ToolSpec",
    "clean_text",
]


def clean_text(text: str) -> str:
    """Text that UTF-8 can carry: halves of a character are joined, a lone one becomes U+FFFD.

    Providers cut between the halves, and a tool may return what it found in a file name.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class ModelUsage(Record):
    """What one response cost, in tokens and, where it is known, in dollars."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    def to_json(self) -> Fields:
        total = self.input + self.output + self.cache_read + self.cache_write
        return {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
            "totalTokens": total,
            "cost": {
                "input": 0,
                "output": 0,
                "cacheRead": 0,
                "cacheWrite": 0,
                "total": self.cost,
            },
        }


class ModelStop(Record):
    """The response is complete. `native` is the engine's own form of it, for later requests."""

    reason: Literal["stop", "length", "toolUse"]
    native: object = None


ModelEvent: TypeAlias = ContentStart | ContentDelta | ContentEnd | ModelUsage | ModelStop


class ToolSpec(Record):
    """A tool as the model sees it. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Fields


class ModelRequest(Record):
    """Everything one response is made from. `thinking` is a level of pi's, or None: as it likes."""

    system_prompt: str
    entries: list[Entry]
    tools: list[ToolSpec] = field(default_factory=list)
    thinking: str | None = None


class Backend(Protocol):
    """An engine that answers requests for one model."""

    @property
    def info(self) -> Fields:
        """The model in pi's form, with what the engine knows of it."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """ONE response of the model: its blocks, then a usage, then a stop.

        Raises:
            ModelError: If the provider refuses or the stream breaks off.
        """

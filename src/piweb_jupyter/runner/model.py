"""What a model is to the conversation: a name, one request, one stream of typed events.

Light on purpose: the RPC loop answers questions about models before any engine is imported.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ..wire.json import JSON
from ..wire.rpc import ContentDelta, ContentEnd, ContentStart

__all__ = [
    "NO_MODEL",
    "NO_MODEL_INFO",
    "STUB",
    "THINKING_LEVELS",
    "Backend",
    "Entry",
    "Fields",
    "ModelError",
    "ModelEvent",
    "ModelRef",
    "ModelRequest",
    "ModelStop",
    "ModelUsage",
    "ToolSpec",
    "describe_model",
]

Fields: TypeAlias = dict[str, JSON]

# pi's levels, from least to most.
THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")

NO_MODEL = (
    "No model is configured. Set one with define_agent(model=...), --model or set_model: "
    '"stub" works offline, "provider:name" (for example "openai:gpt-5-mini") needs '
    "pip install 'piweb-jupyter[llm]'."
)


class ModelError(Exception):
    """A model cannot be used or broke off; the message names the next action where there is one."""


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which model: a provider and the provider's own name of it."""

    provider: str
    id: str

    @classmethod
    def parse(cls, text: str) -> ModelRef:
        """Read `stub` or `provider:name`.

        Raises:
            ModelError: If it is neither.
        """
        if text == "stub":
            return STUB
        provider, _, name = text.partition(":")
        if not provider or not name:
            raise ModelError(
                f"{text!r} names no model: write provider:name, for example "
                '"openai:gpt-5-mini", or "stub" for the offline model.'
            )
        return cls(provider, name)

    def __str__(self) -> str:
        return "stub" if self == STUB else f"{self.provider}:{self.id}"


STUB = ModelRef("stub", "stub")

# Big enough for any demo, small enough that a long chat moves the gauge.
_STUB_WINDOW = 32_000


@dataclass(slots=True)
class ModelUsage:
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


@dataclass(slots=True)
class ModelStop:
    """The response is complete. `native` is the engine's own form of it, for later requests."""

    reason: Literal["stop", "length", "toolUse"]
    native: object = None


ModelEvent: TypeAlias = ContentStart | ContentDelta | ContentEnd | ModelUsage | ModelStop


@dataclass(slots=True)
class Entry:
    """One message of the session, in pi's format. `native`: see `ModelStop`."""

    id: str
    message: Fields
    native: object = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Fields


@dataclass(slots=True)
class ModelRequest:
    """Everything one response is made from."""

    system_prompt: str
    entries: list[Entry]
    tools: list[ToolSpec] = field(default_factory=list)
    thinking: str = "off"


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


def describe_model(ref: ModelRef, **known: JSON) -> Fields:
    """A model in pi's form. What nobody knows is zero, as in pi's own placeholder."""
    name = "Stub (offline)" if ref == STUB else ref.id
    return {
        "id": ref.id,
        "name": name,
        "api": "piweb-stub" if ref == STUB else "pydantic-ai",
        "provider": ref.provider,
        "baseUrl": "",
        "reasoning": True,
        "input": ["text", "image"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": _STUB_WINDOW if ref == STUB else 0,
        "maxTokens": 0,
        **known,
    }


# What pi answers when there is no model.
NO_MODEL_INFO: Fields = {
    **describe_model(ModelRef("unknown", "unknown")),
    "api": "unknown",
    "reasoning": False,
    "input": [],
}

"""Which model: its name, its form on the wire, and what is wrong with it.

Imported at the agent's start, so it stands on nothing heavy; `backend` is what a prompt needs.
"""

from __future__ import annotations

from typing import TypeAlias

from ..wire.json import JSON
from ..wire.record import Record

__all__ = [
    "NO_MODEL",
    "NO_MODEL_INFO",
    "STUB",
    "THINKING_LEVELS",
    "Entry",
    "Fields",
    "ModelError",
    "ModelRef",
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


class ModelRef:
    """Which model: a provider and the provider's own name of it. `str` gives what `parse` reads."""

    __slots__ = ("id", "provider")

    def __init__(self, provider: str, id_: str) -> None:
        self.provider = provider
        self.id = id_

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

    def __repr__(self) -> str:
        return f"<ModelRef {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModelRef):
            return NotImplemented
        return self.provider == other.provider and self.id == other.id

    def __hash__(self) -> int:
        return hash((self.provider, self.id))


STUB = ModelRef("stub", "stub")

# Big enough for any demo, small enough that a long chat moves the gauge.
_STUB_WINDOW = 32_000


class Entry(Record):
    """One message of the session, in pi's format. `native` is an engine's own form of it."""

    id: str
    message: Fields
    native: object = None


def describe_model(ref: ModelRef, **known: JSON) -> Fields:
    """A model in pi's form. What nobody knows is zero, as in pi's own placeholder."""
    return {
        "id": ref.id,
        "name": "Stub (offline)" if ref == STUB else ref.id,
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

"""pydantic models where they meet JSON; pydantic itself is not imported here."""

from __future__ import annotations

from typing import Any

from ..errors import StateValueError
from ..wire.json import JSON, dumps_strict

__all__ = ["dump_model", "encode_value", "is_model"]


def is_model(cls: type[Any]) -> bool:
    """Is it a pydantic model? Asked without importing pydantic."""
    return hasattr(cls, "__pydantic_serializer__") and hasattr(cls, "model_validate")


def dump_model(value: Any, what: str) -> JSON:
    """A model as JSON values; a field whose value is not of its type is an error here.

    Raises:
        StateValueError: Naming the field, in pydantic's words.
    """
    try:
        return value.model_dump(mode="json", warnings="error")
    except (ValueError, TypeError, RecursionError) as exc:  # pydantic's errors are ValueErrors
        reason = " ".join(str(exc).split()).removeprefix("Pydantic serializer warnings: ")
        raise StateValueError(f"{what}: {reason}") from None


def encode_value(value: Any, what: str) -> bytes:
    """What a handler returned, as JSON; models may be anywhere in it.

    Raises:
        StateValueError: Naming the place that JSON cannot carry.
    """
    try:
        if type(value) is not dict and is_model(type(value)):
            value = dump_model(value, what)
        return dumps_strict(value, what)
    except StateValueError as refusal:
        if not isinstance(value, dict | list | tuple):
            raise
        try:
            plain = _without_models(value, what)
        except RecursionError:
            raise refusal from None
        return dumps_strict(plain, what)


def _without_models(value: Any, what: str) -> Any:
    if isinstance(value, dict):
        return {key: _without_models(entry, f"{what}.{key}") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_models(entry, f"{what}[{index}]") for index, entry in enumerate(value)]
    return dump_model(value, what) if is_model(type(value)) else value

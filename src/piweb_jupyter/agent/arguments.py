"""From a function's annotations: the JSON Schema of its arguments, and the check of what comes in.

Signatures that JSON itself can express (`int`, `list[str]`, `Literal["a", "b"]`, …) are read
without pydantic, so that a small agent starts without importing it. Everything else is pydantic's
business, and so is every value that the quick check does not recognise: it alone says what an
annotation means.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ..errors import AgentDefinitionError, SurfaceCommandError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from ..wire.json import JSON

__all__ = ["Arguments", "locate"]

Fields: typing.TypeAlias = dict[str, Any]
Reader: typing.TypeAlias = Callable[[Any], Any]

_SCALARS: dict[object, Fields] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


class _Miss(Exception):  # noqa: N818 - an outcome, not a fault
    """The quick check does not know; pydantic decides."""


class Arguments:
    """The keyword arguments of one function. `schema` is a JSON Schema of type object."""

    def __init__(self, function: Callable[..., Any], *, skip: int, what: str) -> None:
        """Read the signature, leaving out its first `skip` parameters.

        Raises:
            AgentDefinitionError: If JSON arguments cannot be passed to this function.
        """
        self._function = function
        self._what = what
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as exc:
            raise AgentDefinitionError(f"{what}: {exc}") from None
        parameters = list(signature.parameters.values())[skip:]
        self._open = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self._parameters = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        for parameter in self._parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise AgentDefinitionError(
                    f"{what} ({locate(function)}): arguments come by name, so it cannot take "
                    f"`{parameter}`; make it an ordinary parameter"
                )
        self._annotations = _read_hints(function, self._parameters, what)
        self._model: type[BaseModel] | None = None
        self._fields: dict[str, str] = {}
        self._pydantic_defaults: set[str] = set()
        self._required = [p.name for p in self._parameters if p.default is p.empty]
        self._quick = self._read_quick()
        self.schema: Fields = self._plain_schema() if self.is_plain else self.full_schema()

    @property
    def is_plain(self) -> bool:
        """Is pydantic not needed for values that fit?"""
        return self._quick is not None

    @property
    def names(self) -> list[str]:
        return list(self._annotations)

    def bind(self, args: JSON) -> dict[str, Any]:
        """Keyword arguments for the function, checked.

        Raises:
            SurfaceCommandError: `invalid_args`; the message names the field, and
                `details["fields"]` has a reason per field.
        """
        if args is None:
            args = {}
        elif type(args) is not dict:
            raise SurfaceCommandError(
                "invalid_args", f"the arguments must be an object, not {_name_json(args)}"
            )
        quick = self._quick
        if quick is not None:
            try:
                bound = {name: quick[name](value) for name, value in args.items()}
                for name in self._required:
                    bound[name]
            except (KeyError, _Miss):
                return self._bind_fully(args)
            return bound
        return self._bind_fully(args)

    def _bind_fully(self, args: Fields) -> dict[str, Any]:
        from pydantic import ValidationError

        model = self._load_model()
        try:
            bound = model.model_validate(args)
        except ValidationError as exc:
            raise self._refusal(exc) from None
        fields = vars(bound)
        if len(fields) == len(bound.model_fields_set) and not self._fields and not self._open:
            return fields  # everything was given, under its own name
        # What was not given has the function's own default, unless that is a `Field(...)`.
        names = bound.model_fields_set | self._pydantic_defaults
        values = {self._fields.get(name, name): getattr(bound, name) for name in names}
        return {**values, **bound.model_extra} if bound.model_extra else values

    def _refusal(self, exc: ValidationError) -> SurfaceCommandError:
        reasons: dict[str, str] = {}
        for error in exc.errors(include_url=False, include_context=False):
            place = ".".join(str(step) for step in error["loc"]) or "arguments"
            match error["type"]:
                case "missing":
                    reason = "is required"
                case "extra_forbidden":
                    takes = ", ".join(self.names)
                    reason = f"is no argument of it; it takes {takes or 'none'}"
                case _:
                    reason = error["msg"][:1].lower() + error["msg"][1:]
                    reason += f", not {_shorten(error['input'])}"
            reasons.setdefault(place, reason)
        text = "; ".join(f"{place}: {reason}" for place, reason in reasons.items())
        return SurfaceCommandError("invalid_args", text, details={"fields": reasons})

    # ------------------------------------------------------------ without pydantic

    def _read_quick(self) -> dict[str, Reader] | None:
        if self._open:
            return None
        readers: dict[str, Reader] = {}
        for parameter in self._parameters:
            reader = _plain_reader(self._annotations[parameter.name])
            if reader is None or _is_field(parameter.default):
                return None
            readers[parameter.name] = reader
        return readers

    def _plain_schema(self) -> Fields:
        properties = {name: _plain_schema(hint) for name, hint in self._annotations.items()}
        self._add_defaults(properties)
        schema: Fields = {"type": "object", "properties": properties, "additionalProperties": False}
        if self._required:
            schema["required"] = self._required
        return schema

    def _add_defaults(self, properties: dict[str, Fields]) -> None:
        for parameter in self._parameters:
            if isinstance(parameter.default, str | int | float | bool | list | dict | None):
                properties[parameter.name]["default"] = parameter.default

    # ------------------------------------------------------------ with pydantic

    def full_schema(self) -> Fields:
        """The schema as pydantic makes it."""
        from pydantic.errors import PydanticUserError

        try:
            return _full_schema(self._load_model())
        except (PydanticUserError, TypeError, ValueError, NameError) as exc:
            reason = str(exc).splitlines()[0]
            raise AgentDefinitionError(
                f"{self._what} ({locate(self._function)}): its annotations say no JSON: {reason}"
            ) from None

    def _load_model(self) -> type[BaseModel]:
        if self._model is None:
            from pydantic import BaseModel, ConfigDict, Field, create_model

            config = ConfigDict(
                extra="allow" if self._open else "forbid",
                protected_namespaces=(),
                validate_by_name=True,
                validate_by_alias=True,
            )
            fields: dict[str, Any] = {}
            for parameter in self._parameters:
                name, hint = parameter.name, self._annotations[parameter.name]
                if hasattr(BaseModel, name) or name.startswith("_"):
                    # pydantic has such a name for itself; the author need not know.
                    hint = typing.Annotated[hint, Field(alias=name)]
                    name = f"argument{name}"
                    self._fields[name] = parameter.name
                if _is_field(parameter.default):
                    self._pydantic_defaults.add(name)
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[name] = (hint, default)
            self._model = create_model("arguments", __config__=config, **fields)
        return self._model


def _read_hints(
    function: Callable[..., Any], parameters: list[inspect.Parameter], what: str
) -> dict[str, Any]:
    """The annotations of these parameters alone: what others say need not exist at run time."""
    given = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    holder = types.SimpleNamespace(__annotations__=given)
    try:
        hints = typing.get_type_hints(holder, names, include_extras=True)
    except Exception as exc:
        raise AgentDefinitionError(
            f"{what} ({locate(function)}): its annotations cannot be read: {exc}; "
            "import the name, or define it"
        ) from None
    return {p.name: hints.get(p.name, Any) for p in parameters}


def _plain_reader(hint: Any) -> Reader | None:
    """What pydantic makes of a value that fits; the reader raises `_Miss` for every other value.

    None if the annotation is not plain.
    """
    if hint is Any:
        return lambda value: value
    if hint is float:
        return _read_float
    if hint in (int, str, bool, type(None), dict, list):
        return _exact_reader(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal and all(type(choice) is str for choice in inner):
        return _choice_reader(frozenset(inner))
    if origin in (typing.Union, types.UnionType):
        readers = [_plain_reader(option) for option in inner]
        # Which of int and float a 3 becomes is a finer question.
        if None in readers or {int, float} <= set(inner):
            return None
        return _union_reader([reader for reader in readers if reader is not None])
    if origin is list and (item := _plain_reader(inner[0])) is not None:
        return _list_reader(item)
    if origin is dict and inner[0] is str and (item := _plain_reader(inner[1])) is not None:
        return _dict_reader(item)
    return None


def _read_float(value: JSON) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise _Miss


def _exact_reader(kind: type[Any]) -> Reader:
    def read(value: JSON) -> JSON:
        if type(value) is kind:
            return value
        raise _Miss

    return read


def _choice_reader(choices: frozenset[str]) -> Reader:
    def read(value: JSON) -> JSON:
        if type(value) is str and value in choices:
            return value
        raise _Miss

    return read


def _union_reader(readers: list[Reader]) -> Reader:
    def read(value: JSON) -> JSON:
        for reader in readers:
            try:
                return reader(value)
            except _Miss:
                continue
        raise _Miss

    return read


def _list_reader(item: Reader) -> Reader:
    def read(value: JSON) -> JSON:
        if type(value) is list:
            return [item(entry) for entry in value]
        raise _Miss

    return read


def _dict_reader(item: Reader) -> Reader:
    def read(value: JSON) -> JSON:
        if type(value) is dict:
            return {key: item(entry) for key, entry in value.items()}
        raise _Miss

    return read


def _plain_schema(hint: Any) -> Fields:
    """What pydantic's generator says of a plain annotation."""
    if hint is Any:
        return {}
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if hint is list:
        return {"type": "array", "items": {}}
    if hint is dict:
        return {"type": "object", "additionalProperties": True}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        choice: Fields = {"enum": list(inner)} if len(inner) > 1 else {"const": inner[0]}
        return {**choice, "type": "string"}
    if origin is list:
        return {"type": "array", "items": _plain_schema(inner[0])}
    if origin is dict:
        items = _plain_schema(inner[1])
        return {"type": "object", "additionalProperties": items or True}
    return {"anyOf": [_plain_schema(option) for option in inner]}


def _full_schema(model: type[BaseModel]) -> Fields:
    """The model's JSON Schema without the titles that pydantic makes from the names."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    schema = model.model_json_schema(schema_generator=Untitled)
    schema.pop("title", None)
    return schema


def _is_field(default: object) -> bool:
    return type(default).__module__ == "pydantic.fields"


def _name_json(value: JSON) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number"}
    return names.get(type(value), "a number")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def locate(function: object) -> str:
    """`agent.py:12`, for a message; the function's name if it has no code of its own."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", repr(function))
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"

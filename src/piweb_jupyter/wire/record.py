"""Records that cost nothing at import: some fifty kinds cross the pipe, and agents start often.

A `dataclass` takes 0.5 ms to make (it compiles four methods), fifty of them a quarter of a small
agent's start. A `Record` takes 0.02 ms: its `__init__` is compiled when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, dataclass_transform

__all__ = ["Record", "field"]


class _Field:
    __slots__ = ("default", "factory", "repr")

    def __init__(self, default: Any, factory: Callable[[], Any] | None, repr: bool) -> None:
        self.default = default
        self.factory = factory
        self.repr = repr


def field(
    *, default: Any = None, default_factory: Callable[[], Any] | None = None, repr: bool = True
) -> Any:
    """A default that is made anew for every record, or a field that is not shown."""
    return _Field(default, default_factory, repr)


@dataclass_transform(field_specifiers=(field,))
class _RecordType(type):
    _names: tuple[str, ...]
    _defaults: dict[str, Any]

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        names = tuple(body.get("__annotations__", ()))
        defaults = {name: body.pop(name) for name in names if name in body}
        body["__slots__"] = body["__match_args__"] = names
        cls = super().__new__(mcs, name, bases, body)
        cls._names, cls._defaults = names, defaults
        return cls


class Record(metaclass=_RecordType):
    """A slotted class of the fields that its body annotates; compared and shown by them.

    It can be matched by position, and is not meant to be inherited from twice.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = type(self)._names
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # it may change

    def __repr__(self) -> str:
        cls = type(self)
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name in cls._names
            if not (type(given := cls._defaults.get(name)) is _Field and not given.repr)
        ]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _compile_init(cls: type[Record]) -> Callable[..., None]:
    parameters, lines = ["self"], []
    known: dict[str, Any] = {}
    for name in cls._names:
        parameter = value = name
        if name in cls._defaults:
            default = cls._defaults[name]
            if type(default) is _Field and default.factory is not None:
                known[f"_make_{name}"] = default.factory
                value = f"_make_{name}() if {name} is _{name} else {name}"
            elif type(default) is _Field:
                default = default.default
            known[f"_{name}"] = default
            parameter = f"{name}=_{name}"
        parameters.append(parameter)
        lines.append(f"    self.{name} = {value}\n")
    made: dict[str, Any] = {}
    # The source has nothing in it but the names of fields, from the class bodies beside this file.
    exec(f"def __init__({', '.join(parameters)}):\n{''.join(lines) or '    pass'}", known, made)
    init: Callable[..., None] = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init

"""From annotations to a schema and a check, as pydantic has them, and mostly without pydantic."""

from __future__ import annotations

import functools
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from piweb_jupyter.agent import AgentDefinitionError, SurfaceCommandError, create_surface
from piweb_jupyter.agent.arguments import Arguments

# Annotations that are read without pydantic.
PLAIN: list[Any] = [
    Any,
    int,
    float,
    str,
    bool,
    list,
    dict,
    None,
    list[int],
    list[float],
    list[dict[str, bool]],
    list[Any],
    dict[str, str],
    dict[str, Any],
    dict[str, list[int | None]],
    Literal["a", "b"],
    Literal["only"],
    int | None,
    Optional[str],  # noqa: UP045 - authors write it
    Union[str, int],  # noqa: UP007
    str | list[str],
    float | None,
]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


# Annotations that pydantic reads.
FULL: list[Any] = [
    Annotated[int, Field(ge=1)],
    Colour,
    Point,
    date,
    tuple[int, str],
    set[int],
    int | float,
    Literal[1, 2],
    bytes,
    list[Point],
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.sampled_from(["a", "b", "only", "1", "1.5", "red", "true", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


def taking(hint: Any, default: Any = ...) -> Arguments:
    """The arguments of a function of one parameter `x`."""

    def function(ctx: Any, x: Any) -> None: ...

    function.__annotations__ = {"x": hint}
    if default is not ...:
        function.__defaults__ = (default,)
    return Arguments(function, skip=1, what="command `f` of surface `s`")


@pytest.mark.parametrize("hint", PLAIN, ids=str)
def test_a_plain_annotation_has_the_schema_that_pydantic_would_make(hint: Any) -> None:
    arguments = taking(hint)
    assert arguments.is_plain
    assert arguments.schema == arguments.full_schema()


@pytest.mark.parametrize("default", [None, 1, 1.5, "a", [1], {}, False])
def test_a_default_is_in_the_schema(default: Any) -> None:
    arguments = taking(Any, default)
    assert arguments.schema == arguments.full_schema()
    assert arguments.schema["properties"]["x"]["default"] == default
    assert "required" not in arguments.schema


@pytest.mark.parametrize("hint", [*PLAIN, *FULL], ids=str)
@settings(deadline=None, max_examples=40)
@given(value=json_values)
def test_every_value_is_taken_or_refused_as_pydantic_would(hint: Any, value: Any) -> None:
    arguments = taking(hint)
    try:
        expected = TypeAdapter(hint).validate_python(value)
    except ValidationError:
        with pytest.raises(SurfaceCommandError) as caught:
            arguments.bind({"x": value})
        assert caught.value.code == "invalid_args"
        assert caught.value.message.startswith("x")
        assert caught.value.details["fields"]
    else:
        found = arguments.bind({"x": value})["x"]
        assert (found, type(found)) == (expected, type(expected))


def test_a_function_without_arguments_takes_none_or_an_empty_object() -> None:
    def function(ctx: Any) -> None: ...

    arguments = Arguments(function, skip=1, what="command")
    assert arguments.bind(None) == arguments.bind({}) == {}
    assert arguments.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    with pytest.raises(SurfaceCommandError, match="x: is no argument of it; it takes none"):
        arguments.bind({"x": 1})


@pytest.mark.parametrize("args", [[], [1], "x", 7, True])
def test_arguments_are_an_object(args: Any) -> None:
    with pytest.raises(SurfaceCommandError, match="the arguments must be an object, not a"):
        taking(int).bind(args)


def test_a_required_argument_is_named_when_it_is_missing() -> None:
    for hint in (int, Point):
        with pytest.raises(SurfaceCommandError, match="x: is required"):
            taking(hint).bind({})


def test_the_functions_own_default_applies() -> None:
    assert taking(int, 5).bind({}) == {}
    assert taking(Annotated[int, Field(ge=1)], 5).bind({}) == {}
    given = taking(int, Field(7, ge=1, description="how many"))
    assert given.bind({}) == {"x": 7}
    assert given.bind({"x": 2}) == {"x": 2}
    assert given.schema["properties"]["x"] == {
        "type": "integer",
        "minimum": 1,
        "default": 7,
        "description": "how many",
    }


def test_names_that_pydantic_has_for_itself_are_an_authors_to_use() -> None:
    def function(
        ctx: Any, copy: Annotated[int, Field(ge=1)], model_dump: str, _x: int = 0
    ) -> None: ...

    arguments = Arguments(function, skip=1, what="command")
    args = {"copy": 1, "model_dump": "a", "_x": 3}
    assert arguments.bind(args) == args
    assert sorted(arguments.schema["properties"]) == ["_x", "copy", "model_dump"]
    with pytest.raises(SurfaceCommandError, match="copy: input should be greater"):
        arguments.bind({**args, "copy": 0})


def test_a_function_may_take_what_it_does_not_name() -> None:
    def function(ctx: Any, x: int = 0, **rest: Any) -> None: ...

    arguments = Arguments(function, skip=1, what="command")
    assert arguments.bind({"x": "1", "y": [2]}) == {"x": 1, "y": [2]}
    assert arguments.schema["additionalProperties"] is True


def test_only_the_annotations_of_the_arguments_need_exist() -> None:
    def function(ctx: Nowhere, x: int) -> Nobody: ...  # type: ignore[name-defined]  # noqa: F821

    assert Arguments(function, skip=1, what="command").bind({"x": 1}) == {"x": 1}


def test_wrapped_functions_and_methods_and_partials_are_read() -> None:
    class Handlers:
        def go(self, ctx: Any, x: int) -> None: ...

    def plain(ctx: Any, y: str, x: int) -> None: ...

    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    for function, names in (
        (Handlers().go, ["x"]),
        (wrapped, ["y", "x"]),
        (functools.partial(plain, y="a"), ["y", "x"]),
    ):
        arguments = Arguments(function, skip=1, what="command")
        assert list(arguments.schema["properties"]) == names


def test_positional_parameters_are_refused() -> None:
    def variadic(ctx: Any, *x: int) -> None: ...

    def positional(ctx: Any, x: int, /) -> None: ...

    for function in (variadic, positional):
        with pytest.raises(AgentDefinitionError, match=r"test_arguments.py:\d+\).* come by name"):
            Arguments(function, skip=1, what="command")


def test_a_surface_can_be_tried_without_a_runner() -> None:
    demo = create_surface("demo", {"count": 0})

    @demo.command
    def increment(ctx: Any, by: int = 1) -> int:
        """Add."""
        state: dict[str, int] = ctx.set_state(lambda s: {"count": s["count"] + by})
        return state["count"]

    class Trial:
        set_state = staticmethod(demo.update)

    assert increment(Trial(), by=2) == 2
    assert demo.state == {"count": 2}
    assert [command.name for command in demo.commands.values()] == ["increment"]
    with pytest.raises(AgentDefinitionError, match="`increment` of surface `demo` is there twice"):
        demo.command(increment)


@pytest.mark.parametrize("domain", ["", "a:b", "line\nbreak", "\u202e"])
def test_a_domain_is_a_word(domain: str) -> None:
    with pytest.raises(AgentDefinitionError, match="cannot be the domain"):
        create_surface(domain, {})

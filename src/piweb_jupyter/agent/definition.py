"""An agent as its author defines it. Only what it says of itself; the runner makes it live."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from ..errors import AgentDefinitionError
from ..wire.json import JSON
from .arguments import locate
from .surface import Surface
from .tools import Tool

__all__ = ["METHODS", "Agent", "Request", "Route", "define_agent"]

F = TypeVar("F", bound=Callable[..., Any])

# pi-web's pattern; it refuses everything else when it loads an agent.
_ROUTE_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
METHODS = ("GET", "POST")


class Request:
    """A call to a route: `name`, `method`, `query` (texts) and `body` (JSON, or None)."""

    __slots__ = ("body", "method", "name", "query")

    def __init__(self, name: str, method: str, query: dict[str, str], body: JSON = None) -> None:
        self.name = name
        self.method = method
        self.query = query
        self.body = body

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.name}>"


class Route:
    """A read-only view of the agent's data: `handler(request)` returns a JSON value."""

    __slots__ = ("description", "handler", "methods", "name")

    def __init__(
        self,
        name: str,
        handler: Callable[[Request], Any],
        methods: Sequence[str] = ("GET",),
        description: str | None = None,
    ) -> None:
        if not _ROUTE_NAME.fullmatch(name):
            raise AgentDefinitionError(
                f"route {name!r}: a name has small letters, digits and hyphens only"
            )
        if not callable(handler):
            raise AgentDefinitionError(f"route `{name}`: its handler is not a function")
        self.name = name
        self.handler = handler
        self.methods = tuple(str(method).upper() for method in methods)
        if not self.methods or not set(self.methods) <= set(METHODS):
            raise AgentDefinitionError(
                f"route `{name}` ({locate(handler)}): its methods are GET and POST, "
                f"not {list(methods)}"
            )
        self.description = (handler.__doc__ or "").strip() if description is None else description

    def to_json(self) -> dict[str, JSON]:
        out: dict[str, JSON] = {"name": self.name, "methods": list(self.methods)}
        if self.description:
            out["description"] = self.description
        return out


class Agent:
    """What `define_agent` returns. Tools and routes may be added until the agent starts."""

    def __init__(
        self,
        *,
        system_prompt: str,
        model: str | None,
        thinking: str | None,
        surfaces: Iterable[Surface[Any]],
        tools: Iterable[Callable[..., Any]],
        routes: Mapping[str, Callable[[Request], Any]] | None,
        slash_completions: Iterable[str | Mapping[str, str]],
        name: str | None,
    ) -> None:
        self.system_prompt = system_prompt
        self.model = model
        self.thinking = thinking
        self.name = name
        self.surfaces: tuple[Surface[Any], ...] = tuple(surfaces)
        self.tools: list[Tool] = []
        self.routes: dict[str, Route] = {}
        self.slash_completions = [_read_completion(item) for item in slash_completions]
        _check_surfaces(self.surfaces)
        for function in tools:
            self.tool(function)
        for route_name, handler in (routes or {}).items():
            self.route(route_name)(handler)

    def __repr__(self) -> str:
        domains = ", ".join(surface.domain for surface in self.surfaces) or "no surface"
        return f"<Agent {self.name or ''}: {domains}>"

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Any:
        """Make a function a tool of the model: `@agent.tool`, or `@agent.tool(name=…)`.

        Its parameters and their annotations are the tool's arguments; a first parameter called
        `ctx` is given the tool's context. Its docstring tells the model what it is for.
        """

        def add(function: F) -> F:
            tool = Tool(function, name=name, description=description)
            if any(tool.name == other.name for other in self.tools):
                raise AgentDefinitionError(
                    f"tool `{tool.name}` ({locate(function)}) is there twice; "
                    "give one of them another name"
                )
            self.tools.append(tool)
            return function

        return add if function is None else add(function)

    def route(
        self, name: str, *, methods: Sequence[str] = ("GET",), description: str | None = None
    ) -> Callable[[F], F]:
        """Make a function the answer to a route: it gets a `Request` and returns a JSON value."""

        def add(function: F) -> F:
            if name in self.routes:
                raise AgentDefinitionError(
                    f"route `{name}` ({locate(function)}) is there twice; "
                    "give one of them another name"
                )
            self.routes[name] = Route(name, function, methods, description)
            return function

        return add


def define_agent(
    *,
    system_prompt: str = "",
    model: str | None = None,
    thinking: str | None = None,
    surfaces: Iterable[Surface[Any]] = (),
    tools: Iterable[Callable[..., Any]] = (),
    routes: Mapping[str, Callable[[Request], Any]] | None = None,
    slash_completions: Iterable[str | Mapping[str, str]] = (),
    name: str | None = None,
) -> Agent:
    """Define the agent. The runner looks for it under the name `agent` in the agent's file.

    `model` is `provider:name`, or `stub` for the model that needs no key; without one, surfaces
    work and a prompt says what to do. `slash_completions` are names, or mappings with `name`,
    `description` and `insertText`.

    Raises:
        AgentDefinitionError: If the parts do not fit together, for instance two surfaces of one
            domain; the message names them.
    """
    return Agent(
        system_prompt=system_prompt,
        model=model,
        thinking=thinking,
        surfaces=surfaces,
        tools=tools,
        routes=routes,
        slash_completions=slash_completions,
        name=name,
    )


def _check_surfaces(surfaces: tuple[Surface[Any], ...]) -> None:
    seen: set[str] = set()
    for surface in surfaces:
        if not isinstance(surface, Surface):
            raise AgentDefinitionError(
                f"surfaces has a {type(surface).__name__} in it; "
                "make surfaces with create_surface(…)"
            )
        if surface.domain in seen:
            raise AgentDefinitionError(
                f"two surfaces have the domain `{surface.domain}`; give one of them another"
            )
        seen.add(surface.domain)


def _read_completion(item: str | Mapping[str, str]) -> dict[str, str]:
    entry = {"name": item} if isinstance(item, str) else item
    if not isinstance(entry, Mapping):
        raise AgentDefinitionError(f"slash completion {item!r}: give a name or a mapping")
    name = entry.get("name")
    if not isinstance(name, str) or not name or name.startswith("/"):
        raise AgentDefinitionError(
            f"slash completion {item!r}: its name is a word without the leading slash"
        )
    unknown = set(entry) - {"name", "description", "insertText"}
    if unknown or not all(isinstance(value, str) for value in entry.values()):
        raise AgentDefinitionError(
            f"slash completion `{name}`: it may have description and insertText, both texts"
        )
    return dict(entry)

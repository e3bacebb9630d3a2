"""A surface as its author writes it: a domain, a state, and the commands that change it."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

from ..errors import AgentDefinitionError, StateValueError
from ..wire.json import loads, strict_encoder
from ..wire.surface import VIEW_LIMIT, CommandSpec, SurfaceSpec
from .arguments import Arguments, locate
from .models import dump_model, is_model

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .context import Context, Spawned

__all__ = ["Command", "Home", "Surface", "create_surface"]

S = TypeVar("S")
M = TypeVar("M", bound="BaseModel")
F = TypeVar("F", bound=Callable[..., Any])


class Home(Protocol[S]):
    """Where a surface lives while its agent runs."""

    domain: str

    def get(self) -> S: ...
    def set_state(self, reducer: Callable[[S], S] | S, context: Context[S] | None) -> S: ...
    def spawn(self, work: Coroutine[Any, Any, Any], context: Context[S]) -> Spawned: ...
    def cancel_spawned(self) -> int: ...


class Command:
    """One entry of a surface's command table."""

    __slots__ = (
        "arguments",
        "concurrent",
        "confirm",
        "description",
        "function",
        "guard",
        "is_async",
        "llm",
        "name",
        "result_name",
        "title",
    )

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        domain: str,
        title: str = "",
        description: str | None = None,
        confirm: str = "",
        guard: bool = False,
        concurrent: bool = False,
        llm: bool = True,
        raw: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.title = title
        documented = inspect.getdoc(function) if inspect.isroutine(function) else None
        self.description = (documented or "") if description is None else description
        self.confirm = confirm
        self.guard = guard
        # A cancel that waits for what it is to end would be none.
        self.concurrent = concurrent or name == "cancel"
        self.llm = llm
        self.is_async = inspect.iscoroutinefunction(function)
        self.result_name = f"result of `{name}`"
        what = f"command `{name}` of surface `{domain}`"
        # None: pi-web's form, `handler(args, ctx)`, which gets the arguments as they came.
        self.arguments = (
            None if _is_raw(function, raw, what) else Arguments(function, skip=1, what=what)
        )

    def to_spec(self) -> CommandSpec:
        return CommandSpec(
            self.name,
            self.title,
            self.description,
            None if self.arguments is None else self.arguments.schema,
            self.confirm,
            self.guard,
            self.concurrent,
        )


class Surface(Generic[S]):
    """One authoritative state and its commands. Its `state` lives in the agent, nowhere else.

    `commands` fills up through the `command` decorator. Before the agent runs, `state` is the
    initial state.
    """

    def __init__(
        self,
        domain: str,
        initial: S,
        *,
        title: str = "",
        hydrate: Callable[[], Any] | None = None,
        view: str | None = None,
        css: str | None = None,
    ) -> None:
        self.domain = domain
        self.title = title
        self.hydrate_with = hydrate
        self.model: type[Any] | None = type(initial) if is_model(type(initial)) else None
        self._what = f"state of surface `{domain}`"
        self._encode_plain = strict_encoder(self._what)
        self._initial = self.encode(initial)
        self._pending: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []
        self._commands: dict[str, Command] | None = None
        self._view = view
        self._css = css
        self._home: Home[S] | None = None

    def __repr__(self) -> str:
        return f"<Surface {self.domain!r}: {', '.join(name for name, _, _ in self._pending)}>"

    # ------------------------------------------------------------ for the author

    @overload
    def command(self, function: F, /) -> F: ...
    @overload
    def command(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        title: str = "",
        description: str | None = None,
        confirm: str = "",
        guard: bool = False,
        concurrent: bool = False,
        llm: bool = True,
    ) -> Callable[[F], F]: ...
    def command(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        title: str = "",
        description: str | None = None,
        confirm: str = "",
        guard: bool = False,
        concurrent: bool = False,
        llm: bool = True,
    ) -> Any:
        """Make a function a command: `@surface.command`, or with options `@surface.command(…)`.

        The function is `(ctx, …)` with one parameter per argument, or `(args, ctx)`. `confirm` is a
        question that the view asks first; a `guard` command is refused when the state has changed
        since it was asked for; a `concurrent` one does not wait for the others; with
        `llm=False` it is no tool for the model.
        """

        options = {
            "title": title,
            "description": description,
            "confirm": confirm,
            "guard": guard,
            "concurrent": concurrent,
            "llm": llm,
        }

        def add(function: F) -> F:
            self._add(name or function.__name__, function, options)
            return function

        return add if function is None else add(function)

    def hydrate(self, function: F) -> F:
        """Decorate the function that brings the state from where it is kept; it returns the state.

        It runs once, at the start. Commands wait for it, at most five seconds.
        """
        self.hydrate_with = function
        return function

    @property
    def state(self) -> S:
        """The present state. Do not change it in place: nobody would see that."""
        return self._home.get() if self._home is not None else self.decode(self._initial)

    def update(self, reducer: Callable[[S], S] | S) -> S:
        """Replace the state from outside a command, as `Context.set_state` does. Any thread.

        Raises:
            StateValueError: If JSON cannot carry the new state; nothing has changed.
        """
        if self._home is not None:
            return self._home.set_state(reducer, None)
        state = reducer(self.state) if callable(reducer) else reducer
        self._initial = self.encode(state)
        return state

    # ------------------------------------------------------------ for the runner

    @property
    def commands(self) -> Mapping[str, Command]:
        """The command table. Annotations are read here, when all names in them exist."""
        if self._commands is None:
            self._commands = {
                name: Command(name, function, domain=self.domain, **options)
                for name, function, options in self._pending
            }
        return self._commands

    def settle(self, home: Home[S]) -> bytes:
        """Give the surface its home; return the initial state, encoded."""
        self._home = home
        return self._initial

    def encode(self, state: S) -> bytes:
        """The state as JSON.

        Raises:
            StateValueError: Naming the place that JSON cannot carry.
        """
        if self.model is None:
            return self._encode_plain(state)
        what = self._what
        if type(state) is not self.model and not isinstance(state, self.model):
            raise StateValueError(
                f"{what}: it must be a {self.model.__name__}, not {type(state).__name__}"
            )
        return self._encode_plain(dump_model(state, what))

    def encoder(self) -> Callable[[S], bytes]:
        """`encode` for whoever calls it a hundred thousand times in a second."""
        return self.encode if self.model is not None else self._encode_plain

    def decode(self, encoded: bytes) -> S:
        """The state anew from its JSON."""
        value: S = loads(encoded)
        return value if self.model is None else cast("S", self.model.model_validate(value))

    def to_spec(self) -> SurfaceSpec:
        """What the surface declares of itself; reads the view's files.

        Raises:
            AgentDefinitionError: If a view's file is missing, too large or no text.
        """
        return SurfaceSpec(
            domain=self.domain,
            title=self.title,
            commands=tuple(command.to_spec() for command in self.commands.values()),
            state_schema=None if self.model is None else self.model.model_json_schema(),
            view_module=_read_text(self._view, self.domain),
            view_css=_read_text(self._css, self.domain),
        )

    def _add(self, name: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
        what = f"command `{name}` of surface `{self.domain}`"
        if not callable(function):
            raise AgentDefinitionError(f"{what} is a {type(function).__name__}, not a function")
        if any(name == other for other, _, _ in self._pending):
            raise AgentDefinitionError(f"{what} is there twice; give one of them another name")
        self._pending.append((name, function, options))
        self._commands = None


@overload
def create_surface(
    domain: str,
    state: type[M],
    *,
    commands: Mapping[str, Callable[..., Any]] | None = None,
    title: str = "",
    hydrate: Callable[[], Any] | None = None,
    view: str | os.PathLike[str] | None = None,
    css: str | os.PathLike[str] | None = None,
) -> Surface[M]: ...
@overload
def create_surface(
    domain: str,
    state: S,
    *,
    commands: Mapping[str, Callable[..., Any]] | None = None,
    title: str = "",
    hydrate: Callable[[], Any] | None = None,
    view: str | os.PathLike[str] | None = None,
    css: str | os.PathLike[str] | None = None,
) -> Surface[S]: ...
def create_surface(
    domain: str,
    state: Any,
    *,
    commands: Mapping[str, Callable[..., Any]] | None = None,
    title: str = "",
    hydrate: Callable[[], Any] | None = None,
    view: str | os.PathLike[str] | None = None,
    css: str | os.PathLike[str] | None = None,
) -> Surface[Any]:
    """A surface for `define_agent(surfaces=[…])`.

    `state` is the initial state: a pydantic model (the class, if all its fields have defaults) or
    any JSON value. `commands` maps names to handlers `(args, ctx)` or `(ctx, …)`; more may be
    added with `@surface.command`. `view` and `css` are files beside the agent: an ES module that
    draws the surface, and its style.

    Raises:
        AgentDefinitionError: If the domain is no name, or the state none that JSON can carry.
    """
    if not domain or not domain.isprintable() or ":" in domain:
        raise AgentDefinitionError(f"{domain!r} cannot be the domain of a surface; use a word")
    if isinstance(state, type):
        state = _instantiate(state, domain)
    caller = sys._getframe(1)  # noqa: SLF001 - a view's files lie beside the author's
    directory = os.path.dirname(caller.f_globals.get("__file__", ""))
    try:
        surface: Surface[Any] = Surface(
            domain,
            state,
            title=title,
            hydrate=hydrate,
            view=None if view is None else os.path.join(directory, view),
            css=None if css is None else os.path.join(directory, css),
        )
    except StateValueError as exc:
        raise AgentDefinitionError(f"the initial {exc}") from None
    for name, handler in (commands or {}).items():
        surface._add(name, handler, {"raw": True})  # noqa: SLF001 - the module's own
    return surface


def _instantiate(cls: type[Any], domain: str) -> Any:
    if not is_model(cls):
        raise AgentDefinitionError(
            f"surface `{domain}`: the class {cls.__name__} is no pydantic model; "
            "derive it from pydantic.BaseModel, or give a dict"
        )
    try:
        return cls()
    except ValueError as exc:
        reason = " ".join(str(exc).split())
        raise AgentDefinitionError(
            f"surface `{domain}`: {cls.__name__} needs values to start with ({reason:.120}); "
            f"give its fields defaults, or pass an instance: {cls.__name__}(…)"
        ) from None


def _is_raw(function: Callable[..., Any], mapped: bool, what: str) -> bool:
    """Is the handler `(args, ctx)`? In a mapping it is, unless its first parameter is `ctx`."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True
    if names[:1] == ["ctx"]:
        return False
    if len(names) == 2 and (mapped or names == ["args", "ctx"]):
        return True
    takes = ", ".join(names) or "nothing"
    raise AgentDefinitionError(
        f"{what} ({locate(function)}) takes ({takes}); it must take (ctx, …) or (args, ctx)"
    )


def _read_text(path: str | None, domain: str) -> str:
    if path is None:
        return ""
    try:
        with open(path, "rb") as file:
            data = file.read()
        text = data.decode()
    except OSError as exc:
        raise AgentDefinitionError(
            f"surface `{domain}`: cannot read its view {path}: {exc.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise AgentDefinitionError(f"surface `{domain}`: its view {path} is not UTF-8") from None
    if len(data) > VIEW_LIMIT:
        raise AgentDefinitionError(
            f"surface `{domain}`: its view {path} has {len(data) // 1024} KB, and "
            f"{VIEW_LIMIT // 1024} are allowed; load large things as attachments"
        )
    return text

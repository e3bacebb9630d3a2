"""Tools: functions of the agent that the model may call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import AgentDefinitionError
from ..wire.json import JSON
from .arguments import Arguments, locate

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Tool", "ToolContext"]

# What every provider accepts as the name of a tool.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Tool:
    """One function as a tool. A `def` runs in a thread of its own, an `async def` on the loop.

    `arguments` reads the annotations when it is first asked for: at the first prompt, when all
    names in them exist, and not at the agent's start.
    """

    __slots__ = ("_arguments", "description", "function", "is_async", "name", "takes_context")

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        if not callable(function):
            raise AgentDefinitionError(
                f"a tool must be a function, not a {type(function).__name__}"
            )
        self.name: str = name or str(getattr(function, "__name__", ""))
        if not _NAME.fullmatch(self.name):
            raise AgentDefinitionError(
                f"tool {self.name!r} ({locate(function)}): a name has letters, digits, `_` and `-` "
                "only, at most 64; give it one with @agent.tool(name=…)"
            )
        self.function = function
        documented = inspect.getdoc(function) if inspect.isroutine(function) else None
        self.description = (documented or "") if description is None else description
        self.is_async = inspect.iscoroutinefunction(function)
        try:
            self.takes_context = list(inspect.signature(function).parameters)[:1] == ["ctx"]
        except (TypeError, ValueError) as exc:
            raise AgentDefinitionError(f"tool `{self.name}`: {exc}") from None
        self._arguments: Arguments | None = None

    @property
    def arguments(self) -> Arguments:
        """The schema of the arguments and their check.

        Raises:
            AgentDefinitionError: If the annotations cannot be read or say no JSON.
        """
        if self._arguments is None:
            skip = 1 if self.takes_context else 0
            self._arguments = Arguments(self.function, skip=skip, what=f"tool `{self.name}`")
        return self._arguments


class ToolContext:
    """What a tool is given as its first parameter, if that is called `ctx`.

    `cancelled` turns true when the turn is aborted: a `def` tool, which nothing can interrupt,
    should look at it; an `async def` one gets `asyncio.CancelledError` where it waits.
    """

    __slots__ = ("_progress", "call_id", "cancelled", "name")

    def __init__(self, name: str, call_id: str, progress: Callable[[str, JSON], None]) -> None:
        self.name = name
        self.call_id = call_id
        self.cancelled = False
        self._progress = progress

    def __repr__(self) -> str:
        return f"<ToolContext {self.name} {self.call_id}>"

    @property
    def ui(self) -> ModuleType:
        """Questions and notices for the person: `await ctx.ui.confirm("Sure?")`."""
        from . import ui

        return ui

    def progress(self, text: str, details: JSON = None) -> None:
        """Show the output so far; it replaces what was shown before. Safe from any thread."""
        self._progress(text, details)

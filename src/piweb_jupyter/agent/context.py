"""What a command's handler is given: the state, who asked, and how to go on after the answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from types import ModuleType

    from ..wire.surface import Actor
    from .surface import Home

__all__ = ["Context", "Spawned"]

S = TypeVar("S")


class Context(Generic[S]):
    """One command's hold on its surface. Safe from any thread, also after the command's answer.

    `cancelled` turns true when somebody has asked for the command to stop. `actor` says who
    asked for it: `user` (a view), `llm` (a tool call) or `cell`.
    """

    __slots__ = ("_home", "action", "actor", "cancelled", "correlation_id")

    def __init__(self, home: Home[S], action: str, actor: Actor, correlation_id: str) -> None:
        self._home = home
        self.action = action
        self.actor: Actor = actor
        self.correlation_id = correlation_id
        self.cancelled = False

    def __repr__(self) -> str:
        return f"<Context {self._home.domain}.{self.action} for {self.actor}>"

    def get(self) -> S:
        """The present state. Do not change it in place: nobody would see that."""
        return self._home.get()

    def set_state(self, reducer: Callable[[S], S] | S) -> S:
        """Replace the state by what `reducer` makes of it, or by a value; return the new one.

        The snapshot is on its way when this returns. If the reducer raises, or JSON cannot carry
        what it made, nothing has changed.

        Raises:
            StateValueError: Naming the place in the state that JSON cannot carry.
        """
        return self._home.set_state(reducer, self)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> Spawned:
        """Start work that outlives this command; it reports through the state.

        It ends by itself, by `Spawned.cancel`, by `cancel_spawned`, or with the agent.
        """
        return self._home.spawn(work, self)

    def cancel_spawned(self) -> int:
        """End all work that commands of this surface have spawned; say how many there were."""
        return self._home.cancel_spawned()

    @property
    def ui(self) -> ModuleType:
        """Questions and notices for the person: `await ctx.ui.confirm("Sure?")`."""
        from . import ui

        return ui


class Spawned:
    """Work that outlives its command."""

    __slots__ = ("_cancel", "cancelled", "done")

    def __init__(self, cancel: Callable[[Spawned], None]) -> None:
        self._cancel = cancel
        self.cancelled = False
        self.done = False

    def cancel(self) -> None:
        """End it soon: `asyncio.CancelledError` is raised where it waits. Safe from any thread."""
        self._cancel(self)

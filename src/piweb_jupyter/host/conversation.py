"""From a surface into the conversation: operations told to the model as messages, with a way down.

An operation takes the first channel there is: `prompt` (a user message, for the model's judgement
and the chat's record), `command` (the operation's fallback, straight to the surface), or
`unavailable`. What became of it is a value, never an exception; what comes back comes through the
state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ..wire.json import JSON

__all__ = [
    "Channel",
    "ConversationBridge",
    "Fallback",
    "OpResult",
    "Submit",
    "SurfaceOp",
    "render_surface_op",
]

_log = logging.getLogger(__name__)

Channel: TypeAlias = Literal["prompt", "command", "unavailable"]


class Submit(Protocol):
    """Sends a user message; returns whatever its sender wants to wait for."""

    def __call__(self, text: str, *, attachment_ids: Sequence[str] = ()) -> Any: ...


@dataclass(frozen=True, slots=True)
class Fallback:
    """The surface command that stands for an operation when no conversation can take it."""

    action: str
    args: JSON = None


@dataclass(frozen=True, slots=True)
class SurfaceOp:
    """Something done in a view that the conversation should know of, or decide."""

    title: str
    tool: str
    params: Sequence[tuple[str, str | None]] = ()
    fence: str = "surface-op"
    fallback: Fallback | None = None


@dataclass(frozen=True, slots=True)
class OpResult:
    """What became of an operation. `value` is what its channel gave: a turn, a command's result.

    `ok` speaks of the operation's delivery: a command that was run and failed says so in `value`.
    `code` is `no_fallback` or `unavailable`.
    """

    ok: bool
    channel: Channel
    value: Any = None
    code: str = ""
    message: str = ""


def render_surface_op(op: SurfaceOp) -> str:
    """The user message that tells an operation: a title, and a fenced block of its parameters.

    Parameters without a value are left out; every other value stands there as it is.
    """
    lines = [f"{key}: {value}" for key, value in op.params if value]
    return "\n".join([op.title, "", f"```{op.fence}", f"tool: {op.tool}", *lines, "```"])


class ConversationBridge:
    """One surface's way into the conversation.

    Args:
        submit: Sends a user message; None where the host has no conversation.
        submit_text: The same for text alone; taken where `submit` is missing.
        run: Runs a command `(action, args)` of the surface.
        is_available: Whether the surface takes commands now.
    """

    def __init__(
        self,
        *,
        submit: Submit | None = None,
        submit_text: Callable[[str], Any] | None = None,
        run: Callable[[str, JSON], Any] | None = None,
        is_available: Callable[[], bool] = lambda: True,
    ) -> None:
        self._submit = submit
        self._submit_text = submit_text
        self._run = run
        self._is_available = is_available
        self._listeners: dict[Callable[[], None], int] = {}
        self._signal: object = None
        self._signalled = False

    @property
    def op_channel(self) -> Channel:
        """Where an operation goes now. Whether it has a fallback makes no difference."""
        if self._submit is not None or self._submit_text is not None:
            return "prompt"
        if self._run is not None and self._is_available():
            return "command"
        return "unavailable"

    def submit_op(self, op: SurfaceOp) -> OpResult:
        """Take an operation where it can go. Errors of the submitting itself reach the caller."""
        match self.op_channel:
            case "prompt":
                text = render_surface_op(op)
                if self._submit is not None:
                    return OpResult(True, "prompt", self._submit(text))
                assert self._submit_text is not None
                return OpResult(True, "prompt", self._submit_text(text))
            case "command":
                if op.fallback is None:
                    message = f"{op.title}: there is no conversation, and no command stands for it"
                    return OpResult(False, "command", code="no_fallback", message=message)
                assert self._run is not None
                return OpResult(True, "command", self._run(op.fallback.action, op.fallback.args))
            case _:
                return _unavailable("neither the conversation nor the surface can take it")

    def bring_to_conversation(self, refs: Sequence[str], summary: str = "") -> OpResult:
        """Tell the conversation of attachments. Text alone cannot carry them."""
        if self._submit is None:
            return _unavailable("there is no conversation that takes attachments")
        count = len(refs)
        text = summary or f"Here {'is' if count == 1 else 'are'} {count} item{'s'[: count != 1]}."
        return OpResult(True, "prompt", self._submit(text, attachment_ids=tuple(refs)))

    def on_turn_end(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Have `fn()` called at the end of each turn; returns how to undo that.

        Registered twice it is called once, and until it was undone twice.
        """
        self._listeners[fn] = self._listeners.get(fn, 0) + 1
        undone = False

        def unsubscribe() -> None:
            nonlocal undone
            if undone or fn not in self._listeners:
                return
            undone = True
            self._listeners[fn] -= 1
            if not self._listeners[fn]:
                del self._listeners[fn]

        return unsubscribe

    def sync(self, signal: object) -> None:
        """Observe the host's end-of-turn signal: another one than before is an end.

        The first one observed is none. Numbers and texts are compared by value, others by identity.
        """
        before, known = self._signal, self._signalled
        self._signal, self._signalled = signal, True
        same = signal is before or (isinstance(signal, int | float | str) and signal == before)
        if not known or same:
            return
        for fn in list(self._listeners):
            try:
                fn()
            except Exception:
                _log.exception("a callback for the end of a turn failed")


def _unavailable(message: str) -> OpResult:
    return OpResult(False, "unavailable", code="unavailable", message=message)

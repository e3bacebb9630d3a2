"""`submitOp` and `bringToConversation` of an own view, and what became of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import RequestError
from ..host import letters
from ..host.command import Command
from ..host.conversation import ConversationBridge, Fallback, OpResult, SurfaceOp
from ..wire.json import JSON

if TYPE_CHECKING:
    from ..host.session import AgentSession
    from .messages import Operation

__all__ = ["operate"]

Done: TypeAlias = Callable[[JSON], None]


def operate(session: AgentSession, domain: str, operation: Operation, done: Done) -> None:
    """Take an operation into the conversation, or have its command run.

    Never waits; `done` is called with what the view's promise resolves to, at once or later.

    Raises:
        PiwebError: If the conversation or the agent refuses it.
    """
    surface = session.surface(domain)
    bridge = ConversationBridge(
        submit_text=(lambda text: say(session, text)) if surface.channel == "prompt" else None,
        run=lambda action, args: surface.submit(action, args, actor="user"),
        is_available=lambda: surface.available,
    )
    fields = operation.fields
    if isinstance(fields.get("refs"), list):
        refs = [str(ref) for ref in fields["refs"]]
        done(_tell(bridge.bring_to_conversation(refs, _text(fields.get("summary")))))
        return
    op = _read_op(fields.get("op"))
    if op is None:
        message = "an operation needs a title and a tool"
        done({"ok": False, "error": {"code": "invalid_args", "message": message}})
        return
    result = bridge.submit_op(op)
    if isinstance(result.value, Command):
        result.value.add_done_callback(
            lambda command: done({**_tell(result), "result": letters.describe_outcome(command)})
        )
    else:
        done(_tell(result))


def say(session: AgentSession, text: str) -> None:
    """Prompt, or steer an agent that is at work already."""
    try:
        session.prompt(text)
    except RequestError:
        session.steer(text)


def _tell(result: OpResult) -> dict[str, JSON]:
    told: dict[str, JSON] = {"ok": result.ok, "channel": result.channel}
    if not result.ok:
        told["error"] = {"code": result.code, "message": result.message}
    return told


def _read_op(value: JSON) -> SurfaceOp | None:
    match value:
        case {"title": str(title), "tool": str(tool)} if title and tool:
            given: Any = value
            return SurfaceOp(
                title,
                tool,
                _read_params(given.get("params")),
                _text(given.get("fence")) or "surface-op",
                _read_fallback(given.get("fallback")),
            )
    return None


def _read_params(value: JSON) -> list[tuple[str, str | None]]:
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [
        (str(pair[0]), None if pair[1] is None else str(pair[1]))
        for pair in pairs
        if isinstance(pair, list | tuple) and len(pair) == 2
    ]


def _read_fallback(value: JSON) -> Fallback | None:
    match value:
        case {"action": str(action)} if action:
            return Fallback(action, value.get("args"))
    return None


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

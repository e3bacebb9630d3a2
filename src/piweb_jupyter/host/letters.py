"""What the kernel tells a view, in words: the contents of messages, made from the session's parts.

The other direction is `views/messages.py`; the browser's half of both is `views/model.ts`. No
message carries an `id` of its own at the top: ipykernel 7.4 remembers every one it ever published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ..errors import AgentExitedError, PiwebError, SurfaceCommandError
from ..wire.json import JSON, dumps
from .mirror import Snapshot

if TYPE_CHECKING:
    from .command import Command
    from .session import AgentSession

__all__ = [
    "Message",
    "chat_body",
    "describe_error",
    "describe_outcome",
    "events",
    "list_questions",
    "pong",
    "present",
    "questions",
    "result",
    "stage",
    "state",
    "tip",
]

# The content and the buffers of one custom message.
Message: TypeAlias = tuple[dict[str, JSON], list[bytes]]

# A result larger than this travels by itself, as bytes.
INLINE = 16 * 1024


def pong(page: str, version: tuple[int, int], seq: int) -> Message:
    """An answer to a page's hello: what was sent last, so that the page sees what it missed."""
    epoch, rev = version
    return {"kind": "pong", "to": page, "epoch": epoch, "rev": rev, "seq": seq}, []


def tip(version: tuple[int, int]) -> Message:
    """The newest version there is, for a page whose last snapshot was lost on the way."""
    return {"kind": "tip", "epoch": version[0], "rev": version[1]}, []


def state(page: str, held: Snapshot | None, epoch: int) -> Message:
    """The state itself, for one page: assigning equal bytes again would send nothing."""
    if held is None:
        return {"kind": "state", "to": page, "epoch": epoch, "rev": -1, "stale": False}, [b""]
    content = {"epoch": held.epoch, "rev": held.rev, "stale": held.stale}
    return {"kind": "state", "to": page, **content}, [b"" if held.deleted else held.line]


def present(page: str, seq: int, body: bytes) -> Message:
    """The whole chat, and the number of the last event that is in it. To `*`: to every page."""
    return {"kind": "present", "to": page, "seq": seq}, [body]


def events(first: int, last: int, items: list[bytes]) -> Message:
    """Events `first` to `last`; an empty batch tells that those before `first` were dropped."""
    return {"kind": "events", "from": first, "seq": last}, [b"[%s]" % b",".join(items)]


def stage(command: Command) -> bytes:
    """The event: a command has come that far."""
    return dumps(("stage", command.id, command.stage))


def result(command: Command) -> bytes | Message:
    """What became of a settled command: an event, or a message of its own where it is large."""
    outcome = dumps(describe_outcome(command))
    if len(outcome) <= INLINE:
        return b'["result",%s,%s]' % (dumps(command.id), outcome)
    return {"kind": "result", "of": command.id}, [outcome]


def describe_outcome(command: Command) -> dict[str, JSON]:
    """A settled command: its stage, and `data` or `error`."""
    if command.error is None:
        return {"ok": True, "stage": command.stage, "data": command.data}
    return {"ok": False, "stage": command.stage, "error": describe_error(command.error)}


def describe_error(error: PiwebError) -> dict[str, JSON]:
    """An error as a view shows it: a code for programs, a sentence for people."""
    match error:
        case SurfaceCommandError():
            told: dict[str, JSON] = {"code": error.code, "message": error.message}
            return {**told, "details": error.details} if error.details else told
        case AgentExitedError():
            return {"code": "exited", "message": str(error)}
        case _:
            return {"code": type(error).__name__, "message": str(error)}


def questions(session: AgentSession) -> bytes:
    """The event: these questions are open now."""
    return dumps(("questions", list_questions(session)))


def list_questions(session: AgentSession) -> list[JSON]:
    """The open questions, oldest first, as a card needs them."""
    return [question.to_json() for question in session.questions.open]


def chat_body(transcript: bytes, questions: list[JSON]) -> bytes:
    """A present's body, around a transcript that is JSON already."""
    return b'{"chat":%s,"questions":%s}' % (transcript, dumps(questions))

"""What a page tells the kernel: each custom message as a type. Nothing else reads those dicts.

The other direction is `host/letters.py`; the browser's half of both is `model.ts`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..wire.json import JSON

__all__ = [
    "Abort",
    "Ack",
    "Answer",
    "AskLogs",
    "AskView",
    "Cancel",
    "Forget",
    "Hello",
    "Operation",
    "PageMessage",
    "Prompt",
    "PromptMode",
    "Restart",
    "Resync",
    "RunCommand",
    "Stop",
    "TakeQueue",
    "decode_message",
]

PromptMode: TypeAlias = Literal["prompt", "steer", "followUp"]

# Ids are a random word of the page and a counter; whatever is longer is not ours.
_ID_SIZE = 100


@dataclass(slots=True, frozen=True)
class Hello:
    """A page has mounted the view, or wonders whether anybody is there."""

    page: str


@dataclass(slots=True, frozen=True)
class Ack:
    """A page has drawn that version, or applied the events up to that number."""

    page: str
    version: tuple[int, int] | None
    seq: int | None


@dataclass(slots=True, frozen=True)
class Resync:
    """A page knows that it has missed something."""

    page: str


@dataclass(slots=True, frozen=True)
class RunCommand:
    """A click. `epoch` is the agent life whose state was on the screen."""

    id: str
    action: str
    args: JSON
    epoch: int | None
    if_rev: int | None


@dataclass(slots=True, frozen=True)
class Cancel:
    id: str


@dataclass(slots=True, frozen=True)
class Forget:
    """Nobody waits for that command any more."""

    id: str


@dataclass(slots=True, frozen=True)
class Operation:
    """An own view's `submitOp` or `bringToConversation`."""

    id: str
    fields: dict[str, JSON]


@dataclass(slots=True, frozen=True)
class Prompt:
    id: str
    page: str
    text: str
    mode: PromptMode


@dataclass(slots=True, frozen=True)
class Abort:
    page: str


@dataclass(slots=True, frozen=True)
class TakeQueue:
    """The queued messages are wanted back in the composer."""

    page: str


@dataclass(slots=True, frozen=True)
class Answer:
    """The answer to a question; None cancels it."""

    question: str
    value: str | bool | None


@dataclass(slots=True, frozen=True)
class AskLogs:
    page: str


@dataclass(slots=True, frozen=True)
class AskView:
    """The text of the agent's own view module is wanted."""

    page: str


@dataclass(slots=True, frozen=True)
class Restart:
    """The agent is to be ended and started again."""


@dataclass(slots=True, frozen=True)
class Stop:
    """The agent is to be ended."""


PageMessage: TypeAlias = (
    Hello
    | Ack
    | Resync
    | RunCommand
    | Cancel
    | Forget
    | Operation
    | Prompt
    | Abort
    | TakeQueue
    | Answer
    | AskLogs
    | AskView
    | Restart
    | Stop
)

Fields: TypeAlias = dict[str, Any]


def decode_message(content: object) -> PageMessage | None:
    """Read one message of a page; None for what no page of ours would send."""
    if not isinstance(content, dict):
        return None
    decoder = _DECODERS.get(content["kind"]) if isinstance(content.get("kind"), str) else None
    try:
        return None if decoder is None else decoder(content)
    except (KeyError, TypeError):
        return None


def _ack(fields: Fields) -> Ack:
    version = None
    if "rev" in fields:
        version = (_int(fields["epoch"]), _int(fields["rev"]))
    return Ack(_id(fields["page"]), version, _int(fields["seq"]) if "seq" in fields else None)


def _run(fields: Fields) -> RunCommand:
    epoch, if_rev = fields.get("epoch"), fields.get("ifRev")
    return RunCommand(
        _id(fields["id"]),
        _text(fields["action"]),
        fields.get("args"),
        None if epoch is None else _int(epoch),
        None if if_rev is None else _int(if_rev),
    )


def _prompt(fields: Fields) -> Prompt:
    mode = fields.get("mode", "prompt")
    if mode not in ("prompt", "steer", "followUp"):
        raise TypeError
    return Prompt(_id(fields["id"]), _id(fields["page"]), _text(fields["text"]), mode)


def _answer(fields: Fields) -> Answer:
    value = fields["value"]
    if value is not None and not isinstance(value, str | bool):
        raise TypeError
    return Answer(_text(fields["question"]), value)


def _operation(fields: Fields) -> Operation:
    return Operation(_id(fields["id"]), dict(fields))


def _id(value: object) -> str:
    text = _text(value)
    if not text or len(text) > _ID_SIZE:
        raise TypeError
    return text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


_DECODERS: dict[str, Callable[[Fields], PageMessage]] = {
    "hello": lambda f: Hello(_id(f["page"])),
    "ack": _ack,
    "resync": lambda f: Resync(_id(f["page"])),
    "command": _run,
    "cancel": lambda f: Cancel(_id(f["id"])),
    "forget": lambda f: Forget(_id(f["id"])),
    "op": _operation,
    "prompt": _prompt,
    "abort": lambda f: Abort(_id(f["page"])),
    "queue": lambda f: TakeQueue(_id(f["page"])),
    "answer": _answer,
    "logs": lambda f: AskLogs(_id(f["page"])),
    "view": lambda f: AskView(_id(f["page"])),
    "restart": lambda f: Restart(),
    "stop": lambda f: Stop(),
}

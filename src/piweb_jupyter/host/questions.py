"""Questions that the agent has asked and nobody has answered yet.

They are sticky: a question stays until it is answered, cancelled or out of time, however often a
page is reloaded. Each is answered exactly once, by whoever is first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..wire.json import JSON
from ..wire.rpc import QUESTION_METHODS, UiAnswer, UiRequest
from .section import section

__all__ = ["Question", "Questions"]

# pi-web's structured questions ride on `select`: the answer to one is not among its options.
_STRUCTURED = "PIAQ:v1:"


@dataclass(frozen=True, slots=True)
class Question:
    """One open question. `method` is `select`, `confirm`, `input` or `editor`.

    A question of any other method can only be cancelled. `timeout` is in milliseconds; at
    `deadline` (monotonic seconds) the agent goes on without an answer. One that `withdraws` is
    withdrawn by its agent when nobody waits for the answer any more.
    """

    id: str = field(repr=False)
    method: str
    title: str
    message: str = field(default="", repr=False)
    options: tuple[str, ...] = field(default=(), repr=False)
    placeholder: str = field(default="", repr=False)
    prefill: str = field(default="", repr=False)
    timeout: float | None = field(default=None, repr=False)
    deadline: float | None = field(default=None, repr=False, compare=False)
    withdraws: bool = field(default=False, repr=False)

    @property
    def answerable(self) -> bool:
        """Whether it can be answered, or only cancelled."""
        return self.method in QUESTION_METHODS

    def to_json(self) -> dict[str, JSON]:
        """What a view shows; empty fields are left out."""
        fields: dict[str, JSON] = {
            "message": self.message,
            "options": list(self.options),
            "placeholder": self.placeholder,
            "prefill": self.prefill,
            "timeout": self.timeout,
        }
        told = {key: value for key, value in fields.items() if value}
        return {"id": self.id, "method": self.method, "title": self.title, **told}


class Questions:
    """The open questions of one agent. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = section()
        self._open: dict[str, Question] = {}

    def __repr__(self) -> str:
        return f"<Questions {len(self._open)} open>"

    def __len__(self) -> int:
        return len(self._open)

    @property
    def open(self) -> tuple[Question, ...]:
        """The open questions, oldest first."""
        with self._lock:
            return tuple(self._open.values())

    def add(self, request: UiRequest) -> Question:
        """Open the question that `request` asks. Asked twice while it is open, it is one."""
        question = _read(request)
        with self._lock:
            return self._open.setdefault(question.id, question)

    def answer(self, id_: str, value: str | bool | None) -> UiAnswer | None:
        """Close a question and return the answer to send; None if it is not open (any more).

        A `value` of None cancels. A `select` takes one of its options, a `confirm` True or False,
        `input` and `editor` a text.

        Raises:
            ValueError: If the value does not fit; the question stays open.
        """
        with self._lock:
            question = self._open.get(id_)
            if question is None:
                return None
            answer = _fit(question, value)
            del self._open[id_]
            return answer

    def expire(self, question: Question) -> bool:
        """Close a question that is out of time; False if it was closed before.

        Nothing is sent: the agent has gone on by itself.
        """
        with self._lock:
            if self._open.get(question.id) is not question:
                return False
            del self._open[question.id]
            return True

    def withdraw(self, id_: str) -> bool:
        """Close a question that its agent has withdrawn; False if it was closed before."""
        with self._lock:
            return self._open.pop(id_, None) is not None

    def cancel_with_run(self) -> list[UiAnswer]:
        """Close the questions that may belong to the run; return the cancellations to send.

        pi's `abort` hangs while a dialog is open, and a dialog that pi withdraws is never reported:
        so it is done before an abort and at the end of a run. A question that `withdraws` stays: a
        click may have asked it, and what the run has asked, the agent withdraws.
        """
        with self._lock:
            closed = [question.id for question in self._open.values() if not question.withdraws]
            for id_ in closed:
                del self._open[id_]
        return [UiAnswer(id_, cancelled=True) for id_ in closed]

    def close(self) -> None:
        """Close every question: there is no agent any more."""
        with self._lock:
            self._open = {}


def _fit(question: Question, value: str | bool | None) -> UiAnswer:
    """The answer in the form that the question's method has; any other leaves pi hanging."""
    if value is None:
        return UiAnswer(question.id, cancelled=True)
    asked = f"the question {question.title!r}"
    match question.method:
        case "confirm":
            if isinstance(value, bool):
                return UiAnswer(question.id, confirmed=value)
            raise ValueError(f"{asked} takes True or False, not {value!r}")
        case "select":
            if isinstance(value, str) and (
                value in question.options or question.title.startswith(_STRUCTURED)
            ):
                return UiAnswer(question.id, value=value)
            choices = ", ".join(map(repr, question.options))
            raise ValueError(f"{asked} takes one of {choices}, not {value!r}")
        case "input" | "editor":
            if isinstance(value, str):
                return UiAnswer(question.id, value=value)
            raise ValueError(f"{asked} takes a text, not {value!r}")
    raise ValueError(
        f"{asked} is of an unknown kind ({question.method}); it can be cancelled: None"
    )


def _read(request: UiRequest) -> Question:
    fields = request.fields
    options = fields.get("options")
    timeout = fields.get("timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        timeout = None
    return Question(
        request.id,
        request.method,
        _text(fields.get("title")),
        message=_text(fields.get("message")),
        options=tuple(map(str, options)) if isinstance(options, list) else (),
        placeholder=_text(fields.get("placeholder")),
        prefill=_text(fields.get("prefill")),
        timeout=timeout,
        deadline=None if timeout is None else time.monotonic() + timeout / 1000,
        withdraws=fields.get("withdraws") is True,
    )


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

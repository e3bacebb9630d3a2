"""The view of the conversation. Nothing of it is in a trait: a page asks for the present."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ..errors import PiwebError, RequestError
from ..host import letters
from ..wire.json import JSON, dumps
from ..wire.surface import CommandSpec
from . import fallback
from .messages import (
    Abort,
    Ack,
    Answer,
    PageMessage,
    Prompt,
    Resync,
    TakeQueue,
)
from .picture import Pictures
from .widget import AgentView, read_bundle

if TYPE_CHECKING:
    from ..host.session import AgentSession
    from ..host.turn import Turn

__all__ = ["ChatView"]

# Prompts remembered, so that one sent again is not asked again.
_PROMPTS = 200

# A placeholder that is longer is not read.
_HINT_SIZE = 60


class ChatView(AgentView):
    """Shows a session's conversation: text as it streams, tools, questions, a composer."""

    _esm = read_bundle("chat.js")
    _css = read_bundle("chat.css")

    def __init__(self, session: AgentSession, *, pictures: Pictures | None = None) -> None:
        self._prompts: OrderedDict[str, tuple[JSON, ...]] = OrderedDict()
        super().__init__(session, key=None, chat=True, pictures=pictures)

    def __repr__(self) -> str:
        return f"<ChatView of {self.session.name}>"

    def paint(self) -> str:
        return fallback.chat_html(self.session)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "hint": _hint(self.session)}

    def refresh(self) -> None:
        super().refresh()
        self.note_change()

    def take(self, message: PageMessage) -> None:
        feed, session = self.feed, self.session
        match message:
            case Resync(page):
                feed.want_present(page)
            case Ack(page, _, seq):
                feed.ack(page, seq=seq)
            case Prompt():
                self._prompt(message)
            case Abort(page):
                self._return(page, session.abort())
            case TakeQueue(page):
                steering, follow_up = session.chat.take_queue(lambda: None)
                self._return(page, [*steering, *follow_up])
            case Answer(question, value):
                self._answer(question, value)
            case _:
                super().take(message)

    def _prompt(self, prompt: Prompt) -> None:
        outcome = self._prompts.get(prompt.id)
        if outcome is None:
            outcome = self._ask(prompt)
            self._prompts[prompt.id] = outcome
            if len(self._prompts) > _PROMPTS:
                self._prompts.popitem(last=False)
        self.feed.tell(*outcome)

    def _ask(self, prompt: Prompt) -> tuple[JSON, ...]:
        session = self.session
        try:
            match prompt.mode:
                case "prompt":
                    return self._start_turn(prompt)
                case "steer":
                    session.chat.say("steer", prompt.text, or_start=True)
                case "followUp":
                    session.chat.say("follow_up", prompt.text, or_start=True)
        except PiwebError as exc:
            return ("refused", prompt.id, letters.describe_error(exc))
        return ("received", prompt.id)

    def _start_turn(self, prompt: Prompt) -> tuple[JSON, ...]:
        try:
            turn = self.session.prompt(prompt.text)
        except RequestError:
            # The page did not know yet that the agent is at work.
            self.session.chat.say("steer", prompt.text, or_start=True)
            return ("queued", prompt.id)
        turn.add_done_callback(lambda turn: self._settle(prompt, turn))
        return ("received", prompt.id)

    def _settle(self, prompt: Prompt, turn: Turn) -> None:
        """A prompt that never showed up in the transcript is not on its way for ever."""
        if not turn.started and turn.error is not None:
            self._return(prompt.page, [prompt.text])
        self.feed.tell("settled", prompt.id)

    def _answer(self, question: str, value: str | bool | None) -> None:
        try:
            was_open = self.session.answer(question, value)
        except ValueError as exc:
            self.feed.tell("refused", question, {"code": "invalid_answer", "message": str(exc)})
            return
        if not was_open:
            self.feed.note_questions()

    def _return(self, page: str, texts: list[str]) -> None:
        if texts:
            self.feed.tell("returned", page, texts)


def _hint(session: AgentSession) -> str:
    """What to type, where that is not plain: the offline stub needs to be told what to do."""
    if session.model.rpartition("/")[2] != "stub":
        return ""
    for domain in session.surfaces:
        spec = session.spec_of(domain)
        for command in spec.commands if spec is not None else ():
            if (call := _call_without_thinking(command)) is not None:
                return f"Offline stub. Type anything, or: {call}"
    return "Offline stub. Type anything, or: SAY hello"


def _call_without_thinking(command: CommandSpec) -> str | None:
    """A call of a command that needs nothing but its defaults; its schema is the agent's word."""
    schema = command.args if isinstance(command.args, dict) else {}
    if schema.get("required"):
        return None
    given = schema.get("properties")
    fields = given.items() if isinstance(given, dict) else ()
    args = {name: f["default"] for name, f in fields if isinstance(f, dict) and "default" in f}
    call = f"CALL {command.name} {dumps(args).decode()}"
    return call if len(call) <= _HINT_SIZE else None

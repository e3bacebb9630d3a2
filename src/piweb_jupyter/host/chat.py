"""The conversation plane of one session: prompts up; events down, folded; questions answered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..errors import AgentExitedError, PiwebError, RequestError
from ..wire.events import AgentStart, Event
from ..wire.frames import ClearQueueResult, QuestionWithdrawn, RouteResult
from ..wire.host_frames import encode_clear_queue
from ..wire.json import JSON
from ..wire.rpc import TELL_METHODS, Response, UiRequest, encode_ui_answer
from .messages import Op
from .questions import Question, Questions
from .requests import Request, Requests
from .section import section
from .summary import RunSummary
from .transcript import Transcript
from .turn import Turn

if TYPE_CHECKING:
    from .session import AgentSession

__all__ = ["Chat"]

# How a prompt says what it is to do if a run goes on.
_BEHAVIORS = {"steer": "steer", "follow_up": "followUp"}

# pi-web's time for a slash command to start a run; if it does not, it was none.
_SLASH_PATIENCE = 1.5

# Commands after which another conversation stands in the place of this one.
_REPLACING = frozenset({"new_session", "switch_session", "fork", "clone"})

R = TypeVar("R")


class Chat:
    """What is said in one session. The transcript changes under one lock, mostly on `piweb-io`."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._lock = section()
        self._ids = itertools.count(1)
        self._turn: Turn | None = None
        self._results: dict[str, Callable[[], None]] = {}
        self.transcript = Transcript()
        self.questions = Questions()

    @property
    def session(self) -> AgentSession:
        return self._session

    @property
    def busy(self) -> bool:
        return self.transcript.busy

    @property
    def model(self) -> str:
        return self.transcript.model

    @property
    def _queue(self) -> tuple[list[str], list[str]]:
        queue = self.transcript.meta["queue"]
        return list(queue["steering"]), list(queue["followUp"])

    def read(self, fn: Callable[[Transcript], R]) -> R:
        """Read the transcript while nothing changes it, and the listener has heard all of it."""
        with self._lock:
            return fn(self.transcript)

    def change(self, fn: Callable[[Transcript], list[Op]]) -> None:
        """Change the transcript, and tell it."""
        with self._lock:
            self._session.news.transcript(fn(self.transcript))

    # ------------------------------------------------------------ up

    @property
    def _requests(self) -> Requests:
        return self._session.requests

    def prompt(self, text: str, images: tuple[dict[str, str], ...]) -> Turn:
        session = self._session
        with self._lock:
            if self.busy or (self._turn is not None and not self._turn.done):
                raise RequestError(
                    "prompt",
                    f"{session.name} is still answering; wait for the turn, or use "
                    "session.steer(text) to reach it now or session.follow_up(text) for afterwards",
                )
            turn = self._turn = Turn(self, text, self.transcript.mark())
        fields: dict[str, JSON] = {"message": text}
        if images:
            fields["images"] = list(images)

        def go(error: PiwebError | None) -> None:
            if error is not None:
                self._finish(turn, error)
                return
            with self._lock:
                if not turn.done:  # stopped while the agent was starting
                    self._requests.send("prompt", fields, lambda r: self._on_prompt_answer(turn, r))

        if not session.when_ready(go):
            go(session.gone())
        return turn

    def say(self, command: str, text: str, *, or_start: bool = False) -> None:
        """`steer` or `follow_up`; a refusal shows in the chat.

        An agent that has become idle meanwhile keeps it for the next prompt; with `or_start` it
        begins a run with it.
        """
        session = self._session

        def queue() -> None:
            self._requests.send(command, {"message": text}, self._note_refusal)

        def queue_if_refused(request: Request) -> None:
            # pi takes no prompt while it makes room in the context.
            if request.response is not None and not request.response.success:
                queue()

        def go(error: PiwebError | None) -> None:
            if error is not None:
                self.change(lambda t: t.note("error", str(error)))
            elif or_start:
                fields: dict[str, JSON] = {"streamingBehavior": _BEHAVIORS[command]}
                self._requests.send("prompt", {"message": text, **fields}, queue_if_refused)
            else:
                queue()

        if not session.when_ready(go):
            if (gone := session.gone()) is not None:
                raise gone
            go(None)

    def abort(self) -> list[str]:
        session = self._session
        # pi's abort waits for an open dialog, so that goes first; and pi keeps its queue over an
        # abort and sends it with the next prompt, so that is taken back.
        self._cancel_questions()
        steering, follow_up = self._queue
        returned = steering + follow_up
        if returned:
            self.take_queue(lambda: None)
        with self._lock:
            turn = self._turn
            if session.lifecycle == "starting" and turn is not None and not turn.done:
                # Its prompt waits here for the agent, and shall not be sent any more.
                self._turn = None
                turn.finish(RunSummary(aborted=True))
        if session.lifecycle == "ready":
            self._requests.send("abort", {})
        return returned

    def take_queue(self, then: Callable[[], None]) -> tuple[list[str], list[str]]:
        """Empty the agent's queue; what was in it, as last heard. `then` runs on `piweb-io`."""
        session = self._session
        texts = self._queue
        if session.spec.kind == "pi-web":
            # pi 0.80, inside pi-web's runner, has no command for it; pi-web has a frame.
            id_ = f"q{next(self._ids)}"
            self._results[id_] = then
            session.write_quietly(encode_clear_queue(id_))
        else:
            self._requests.send("clear_queue", {}, lambda _: then())
        return texts

    def answer(self, question_id: str, value: str | bool | None) -> bool:
        answer = self.questions.answer(question_id, value)
        if answer is None:
            return False
        self._session.write_quietly(encode_ui_answer(answer))
        self._session.news.question()
        return True

    def request(self, command: str, timeout: float, fields: dict[str, JSON]) -> JSON:
        since = self.transcript.mark()

        def answered(request: Request) -> None:
            self._on_answer(request, since)

        def named(id_: str) -> None:
            if command == "bash" and isinstance(fields.get("command"), str):
                self.change(lambda t: t.start_bash(id_, fields["command"]))

        return self._requests.send(command, fields, answered, named).wait(timeout)

    # ------------------------------------------------------------ down

    def take_event(self, event: Event) -> None:
        was_busy = self.busy
        if type(event) is AgentStart and self._turn is not None:
            self._turn.started = True
        self.change(lambda t: t.apply(event))
        if was_busy and not self.busy:
            self._cancel_questions()
            if (turn := self._turn) is not None and turn.started:
                self._finish(turn, None)
        self._session.news.event(event)

    def take_ui_request(self, request: UiRequest) -> None:
        if request.method in TELL_METHODS:
            self.change(lambda t: t.apply_ui(request))
            return
        question = self.questions.add(request)
        if question.timeout is not None:
            # pi resolves it by itself and says nothing, so the timer is ours.
            self._session.later(question.timeout / 1000, lambda: self._expire(question))
        self._session.news.question(question.id)

    def take_withdrawal(self, withdrawn: QuestionWithdrawn) -> None:
        if self.questions.withdraw(withdrawn.id):
            self._session.news.question()

    def take_result(self, result: ClearQueueResult | RouteResult) -> None:
        if (then := self._results.pop(result.id, None)) is not None:
            then()

    def take_answer(self, response: Response) -> None:
        """Learn what answers tell and events do not: the model, the level, the statistics."""
        self.change(lambda t: t.apply_response(response))
        self._session.news.lifecycle()

    def take_messages(self, request: Request) -> None:
        data = request.response.data if request.response is not None else None
        if type(data) is dict and type(data.get("messages")) is list:
            messages = data["messages"]
            if messages:
                self.change(lambda t: t.load(messages))

    def end(self, error: PiwebError) -> None:
        """The agent is gone: the turn, the questions and whoever waits are told."""
        self.questions.close()
        self._session.news.question()
        # Without an exit code it did not fail: it was stopped.
        stopped = isinstance(error, AgentExitedError) and error.returncode is None
        self.change(lambda t: t.end(str(error), "info" if stopped else "error"))
        if (turn := self._turn) is not None:
            self._finish(turn, error)
        waiting, self._results = self._results, {}
        for then in waiting.values():
            then()

    def _on_prompt_answer(self, turn: Turn, request: Request) -> None:
        response = request.response
        if response is not None:
            self.take_answer(response)
        if response is None:
            self._finish(turn, request.error)
        elif not response.success:
            error = response.error or "the agent refused the prompt"
            self.change(lambda t: t.note("error", error))
            self._finish(turn, RequestError("prompt", error))
        elif type(response.data) is dict and response.data.get("disposition") == "handled":
            self._finish(turn, None)
        elif turn.prompt.startswith("/") and not turn.started:
            self._session.later(
                _SLASH_PATIENCE, lambda: None if turn.started else self._finish(turn, None)
            )

    def _finish(self, turn: Turn, error: PiwebError | None) -> None:
        with self._lock:
            if self._turn is turn:
                self._turn = None
        turn.finish(self.transcript.run_summary(turn.start), error)

    def call(self, fn: Callable[..., None], turn: Turn) -> None:
        """Hand a callback of the user's to the callback thread."""
        self._session.news.call(fn, turn)

    def _note_refusal(self, request: Request) -> None:
        response = request.response
        if response is not None and not response.success:
            self.change(lambda t: t.note("error", response.error))

    def _on_answer(self, request: Request, since: int) -> None:
        response = request.response
        if response is None:
            return
        self.take_answer(response)
        if not response.success or request.command not in _REPLACING:
            return
        if type(response.data) is dict and response.data.get("cancelled"):
            return
        # pi emits no event for it: what the new conversation holds has to be asked for.
        self.change(lambda t: t.clear(since))
        self._requests.send("get_state", {}, self._take_if_answered)
        if request.command != "new_session":
            self._requests.send("get_messages", {}, self.take_messages)

    def _take_if_answered(self, request: Request) -> None:
        if request.response is not None:
            self.take_answer(request.response)

    def _cancel_questions(self) -> None:
        answers = self.questions.cancel_with_run()
        for answer in answers:
            self._session.write_quietly(encode_ui_answer(answer))
        if answers:
            self._session.news.question()

    def _expire(self, question: Question) -> None:
        if self.questions.expire(question):
            self._session.news.question()

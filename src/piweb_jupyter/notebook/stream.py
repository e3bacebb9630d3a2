"""A turn in a cell: shown while it goes on, waited for, and told in plain text when it is over.

In a notebook the chat's widget streams; in a terminal the text does. The cell blocks meanwhile, so
a question of the agent needs a way to its user: by click where clicks get through, else asked in
the cell, else cancelled where nobody is.
"""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import PiwebError
from ..wire.events import ContentDelta, ToolEnd, ToolStart

if TYPE_CHECKING:
    from ..host.news import SessionNews
    from ..host.questions import Question
    from ..host.session import AgentSession
    from ..host.summary import ToolCall
    from ..host.turn import Turn
    from ..sources.trust import Ask
    from .show import Audience

__all__ = ["follow_turn", "tell_turn", "tell_turn_html"]

# An aborted turn ends when the agent says so; a deaf one must not hold the cell.
_ABORT_PATIENCE = 5.0

# How often the end is looked for, in case nobody tells of it.
_GLANCE = 1.0

_LONGEST_ARGUMENTS = 200


def follow_turn(
    session: AgentSession,
    prompt: str,
    *,
    audience: Callable[[], Audience],
    ask: Ask,
    write: Callable[[str], object] | None,
) -> Turn:
    """Send a prompt and wait for the end of its turn. `write` gets the text as it streams.

    A KeyboardInterrupt aborts the turn, waits for that, and goes on as one; the agent lives.
    """
    inbox: queue.SimpleQueue[SessionNews | None] = queue.SimpleQueue()
    printer = _Printer(write) if write is not None else None
    turn: Turn | None = None
    # Subscribed before the prompt, so that nothing of the turn is missed.
    unsubscribe = session.subscribe(inbox.put)
    try:
        turn = session.prompt(prompt)
        turn.add_done_callback(lambda _: inbox.put(None))
        _answer_all(session, audience, ask)
        for news in _each(inbox, turn):
            if news.kind == "question":
                _answer_all(session, audience, ask)
            elif news.kind == "event" and printer is not None:
                printer.event(news.value)
    except KeyboardInterrupt:
        session.abort()
        if turn is not None:
            _wait_quietly(turn)
        raise
    finally:
        unsubscribe()
        if printer is not None:
            printer.finish()
    return turn


def _each(inbox: queue.SimpleQueue[SessionNews | None], turn: Turn) -> Iterator[SessionNews]:
    """The news until the end of the turn. Both come by `piweb-callbacks`, in order."""
    while True:
        try:
            news = inbox.get(timeout=_GLANCE)
        except queue.Empty:
            # The queue of that thread is bounded: the word of the end may have been dropped.
            if turn.done:
                return
            continue
        if news is None:
            return
        yield news


def _wait_quietly(turn: Turn) -> None:
    try:
        turn.wait(_ABORT_PATIENCE)
    except (PiwebError, TimeoutError):
        return


def _answer_all(session: AgentSession, audience: Callable[[], Audience], ask: Ask) -> None:
    for question in session.questions.open:
        who = audience()
        if who == "click":
            return
        if who == "nobody":
            sys.stderr.write(f"{session.name} asked {question.title!r}; nobody is here, so no.\n")
            session.answer(question.id, None)
        else:
            session.answer(question.id, _ask_in_cell(question, ask))


def _ask_in_cell(question: Question, ask: Ask) -> str | bool | None:
    """The answer typed in the cell; an empty one cancels."""
    text = f"{question.title}\n{question.message}".strip()
    try:
        match question.method:
            case "confirm":
                return ask(f"{text}\n[y]es, [N]o: ").strip().lower() in ("y", "yes")
            case "select":
                options = list(question.options)
                listed = "\n".join(f"  {i}  {option}" for i, option in enumerate(options, 1))
                chosen = ask(f"{text}\n{listed}\nnumber: ").strip()
                if chosen.isdecimal() and 1 <= int(chosen) <= len(options):
                    return str(options[int(chosen) - 1])
                return chosen if chosen in options else None
            case "input" | "editor":
                hint = f" ({question.placeholder})" if question.placeholder else ""
                return ask(f"{text}{hint}: ") or question.prefill or None
            case _:
                return None
    except (EOFError, NotImplementedError):
        return None


class _Printer:
    """Text and tool calls as lines, for where no widget is."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._at_line_start = True

    def event(self, event: object) -> None:
        match event:
            case ContentDelta("text", _, delta):
                self._put(delta)
            case ToolStart(_, name, args):
                self._line(f"· {name} {_show_arguments(args)}")
            case ToolEnd(_, name, result, is_error):
                self._line(
                    f"  {name} {'failed' if is_error else 'returned'} {_show_result(result)}"
                )

    def finish(self) -> None:
        if not self._at_line_start:
            self._put("\n")

    def _line(self, text: str) -> None:
        self.finish()
        self._put(text + "\n")

    def _put(self, text: str) -> None:
        if text:
            self._write(text)
            self._at_line_start = text.endswith("\n")


def tell_turn(turn: Turn) -> str:
    """A turn in plain text: whose it is, the tools it ran, the answer."""
    lines = [turn.session.name, *map(_tell_call, turn.tool_calls)]
    lines += [text for text in (turn.text, _tell_end(turn)) if text]
    return "\n".join(lines if len(lines) > 1 else [*lines, "(no answer)"])


def tell_turn_html(turn: Turn) -> str:
    """The same with the answer's Markdown as structure."""
    from html import escape

    from .markdown import render_markdown

    told = [f"<b>{escape(turn.session.name)}</b>"]
    told += [f"<br><code>{escape(_tell_call(call))}</code>" for call in turn.tool_calls]
    end = _tell_end(turn)
    body = render_markdown(turn.text) + (f"<p><i>{escape(end)}</i></p>" if end else "")
    return f"<div>{''.join(told)}{body or '<p><i>(no answer)</i></p>'}</div>"


def _tell_call(call: ToolCall) -> str:
    outcome = "" if call.status == "done" else f" ({call.status})"
    output = _cut(" ".join(call.output.split()))
    return f"· {call.name} {_show_arguments(call.args)}{outcome} → {output}"


def _tell_end(turn: Turn) -> str:
    if turn.aborted:
        return "(aborted)"
    return f"({turn.error})" if turn.error else ""


def _show_arguments(args: Any) -> str:
    if args in (None, {}):
        return "{}"
    return _cut(json.dumps(args, ensure_ascii=False))


def _show_result(result: Any) -> str:
    content = result.get("content") if isinstance(result, dict) else None
    texts = [
        part["text"]
        for part in (content if isinstance(content, list) else [])
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    return _cut(" ".join(" ".join(texts).split()))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_ARGUMENTS else text[: _LONGEST_ARGUMENTS - 1] + "…"

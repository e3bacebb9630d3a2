"""One assistant message while it arrives: model events in, pi's events out, deltas joined.

A model that is faster than `COALESCE` gets one event per that time, with the text that came in
it: 2,000 tokens/s cost as much as 100.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal, TypeAlias

from ..wire.events import ContentDelta, ContentEnd, ContentStart, MessageEnd, MessageStart
from ..wire.json import loads
from .backend import ModelEvent, ModelStop, ModelUsage, clean_text
from .chat import Emit
from .model import Fields

__all__ = ["COALESCE", "AssistantStream", "StopReason"]

StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]

# Seconds between two updates of one message: 100 events/s are more than a page can draw.
COALESCE = 0.01

_TEXT_FIELD = {"text": "text", "thinking": "thinking"}


class AssistantStream:
    """Builds the message and tells about it. Belongs to the event loop.

    After `finish` nothing more is emitted, whatever a backend that does not stop still feeds.
    """

    def __init__(self, emit: Emit, head: Fields) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._content: list[Fields] = []
        self._texts: list[list[str]] = []
        self._open: dict[int, int] = {}
        self._pending: list[str] = []
        self._pending_index = -1
        self._timer: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._started = self._finished = False
        self._usage = ModelUsage()
        self._head = head
        self.stop: ModelStop | None = None

    def feed(self, event: ModelEvent) -> None:
        """Take the model's next event."""
        if self._finished:
            return
        if not self._started:
            self._start()
        match event:
            case ContentDelta(_, index, delta):
                self._delta(index, delta, event)
            case ContentStart(kind, index, id_, name):
                self._begin(kind, index, id_, name)
            case ContentEnd(_, index):
                self._end(index)
            case ModelUsage():
                self._usage = event
            case ModelStop():
                self.stop = event

    def finish(self, reason: StopReason, error: str = "") -> Fields:
        """Close what is open, end the message, return it."""
        if not self._started:
            self._start()
        for index in list(self._open):
            self._end(index)
        self._finished = True
        if self._timer is not None:
            self._timer.cancel()
        message = self._message(reason)
        if error:
            message["errorMessage"] = error
        self._emit(MessageEnd(message))
        return message

    def _start(self) -> None:
        self._started = True
        self._emit(MessageStart({**self._message("pending"), "content": []}))

    def _message(self, reason: str) -> Fields:
        return {
            "role": "assistant",
            "content": self._content,
            **self._head,
            "usage": self._usage.to_json(),
            "stopReason": reason,
            "timestamp": int(time.time() * 1000),
        }

    def _begin(self, kind: str, index: int, id_: str, name: str) -> None:
        self._flush()
        at = self._open[index] = len(self._content)
        self._texts.append([])
        if kind == "toolcall":
            block: Fields = {"type": "toolCall", "id": id_, "name": name, "arguments": {}}
            self._emit(ContentStart("toolcall", at, id_, name))
        else:
            block = {"type": kind, _TEXT_FIELD[kind]: ""}
            self._emit(ContentStart("text" if kind == "text" else "thinking", at))
        self._content.append(block)

    def _delta(self, index: int, delta: str, event: ContentDelta) -> None:
        at = self._open.get(index)
        if at is None:
            self._begin(event.kind, index, "", "")
            at = self._open[index]
        if not delta:
            return
        self._texts[at].append(delta)
        if self._pending_index != at:
            self._flush()
            self._pending_index = at
        self._pending.append(delta)
        if self._timer is None:
            wait = self._flushed_at + COALESCE - self._loop.time()
            if wait <= 0:
                self._flush()
            else:
                self._timer = self._loop.call_later(wait, self._flush)

    def _flush(self) -> None:
        """Tell the deltas held back so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            at, text = self._pending_index, clean_text("".join(self._pending))
            self._pending.clear()
            self._flushed_at = self._loop.time()
            self._emit(ContentDelta(_kind(self._content[at]), at, text))

    def _end(self, index: int) -> None:
        self._flush()
        at = self._open.pop(index, None)
        if at is None:
            return
        block, text = self._content[at], clean_text("".join(self._texts[at]))
        if block["type"] == "toolCall":
            _read_arguments(block, text)
            self._emit(ContentEnd("toolcall", at, tool_call=block))
        else:
            block[_TEXT_FIELD[block["type"]]] = text
            self._emit(ContentEnd(_kind(block), at, content=text))


def _kind(block: Fields) -> Literal["text", "thinking", "toolcall"]:
    kind = block["type"]
    if kind == "toolCall":
        return "toolcall"
    return "text" if kind == "text" else "thinking"


def _read_arguments(block: Fields, text: str) -> None:
    """The call's arguments from their JSON text; what is no object is kept as an error."""
    try:
        arguments = loads(text) if text.strip() else {}
    except ValueError:
        block["argumentsError"] = f"the arguments are not JSON: {text[:200]}"
        return
    if isinstance(arguments, dict):
        block["arguments"] = arguments
    else:
        block["argumentsError"] = f"the arguments must be an object: {text[:200]}"

"""The message that is being written: an agent's answer as it streams, or what somebody says."""

from __future__ import annotations

from ..wire import events
from ..wire.json import JSON, Fields
from .ambient import Ambient
from .content import (
    OUTPUT_LIMIT,
    TEXT_LIMIT,
    Part,
    compact_usage,
    cut,
    image_part,
    notice_part,
    parts_of,
    set_args,
    text_part,
    thinking_part,
    tool_part,
)
from .messages import Messages, Op, Stream
from .toolcards import ToolCards

__all__ = ["Writing", "is_hidden"]


class Writing:
    """At most one message is written at a time: `current`, with what grows in it, by content index.

    Starts and ends may be missing: a word without a start starts a message, and whatever comes next
    ends one whose end was never told.
    """

    def __init__(self, messages: Messages, cards: ToolCards, ambient: Ambient) -> None:
        self._messages = messages
        self._cards = cards
        self._ambient = ambient
        self.current: int | None = None
        self.streams: dict[int, Stream] = {}

    @property
    def answer(self) -> int | None:
        """The message that is being written, if it is the assistant's."""
        n = self.current
        return n if n is not None and self._messages[n]["role"] == "assistant" else None

    def forget(self) -> None:
        """What was written is gone."""
        self.current = None
        self.streams.clear()

    def check(self) -> None:
        """Thousands of notices may have come while it was written, and it may have been dropped."""
        if self.current is not None and self.current not in self._messages:
            self.forget()

    def start(self, message: Fields) -> list[Op]:
        role = message.get("role")
        if role not in ("user", "assistant", "custom") or is_hidden(message):
            return []
        ops = self.close()
        content = message.get("content")
        if role == "assistant":
            n = self._messages.add("assistant", [], "streaming", message)
            self._fill(n, content)
        else:
            n = self._messages.add(role, parts_of(content), "done", message)
        self.current = n
        return [*ops, self._messages.tell(n)]

    def end(self, message: Fields) -> list[Op]:
        role = message.get("role")
        if role == "assistant":
            return self.end_assistant(message)
        if role not in ("user", "custom") or is_hidden(message):
            return []
        parts = parts_of(message.get("content"))
        n = self.current
        if n is None or self._messages[n]["role"] != role:
            ops = self.close()
            return [*ops, self._messages.tell(self._messages.add(role, parts, "done", message))]
        self.current = None
        if self._messages[n]["parts"] == parts:
            return []
        self._messages.replace(n, parts)
        return [self._messages.tell(n)]

    def end_assistant(self, message: Fields) -> list[Op]:
        ops: list[Op] = []
        n = self.answer
        if n is None:
            ops = self.close()
            n = self._messages.add("assistant", [], "streaming", message)
        self.finish(n, message)
        self.forget()
        return [*ops, self._messages.tell(n), *self._ambient.count_usage(message)]

    def finish(self, n: int, message: Fields) -> None:
        """Give an assistant's message its final form."""
        self._fill(n, message.get("content"))
        self._messages.close_streams(n)
        target = self._messages[n]
        for part in target["parts"]:
            if part["type"] == "thinking":
                part["done"] = True
        reason = message.get("stopReason")
        target["status"] = reason if reason in ("error", "aborted") else "done"
        target.pop("error", None)
        if reason == "error":
            error = message.get("errorMessage")
            target["error"] = error if error and isinstance(error, str) else "the model failed"
        if reason == "length":
            text = "The answer was cut off at the model's length limit."
            self._messages.add_part(n, notice_part("warning", text))
        if isinstance(message.get("model"), str):
            target["model"] = message["model"]
        if usage := compact_usage(message.get("usage")):
            target["usage"] = usage

    def _fill(self, n: int, content: JSON) -> None:
        """Make the parts of an assistant's message from its content, keeping its tool cards."""
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            return
        old = self._messages[n]["parts"]
        cards = {part["id"]: part for part in old if part["type"] == "tool"}
        parts: list[Part] = []
        for item in content:
            match item:
                case {"type": "text", "text": str(text)} if text:
                    parts.append(text_part(text))
                case {"type": "thinking", "thinking": str(text)} if text:
                    parts.append(thinking_part(text, done=True))
                case {"type": "toolCall", "id": str(id_), "name": str(name)}:
                    part = dict(cards.pop(id_, None) or tool_part(id_, name))
                    part["name"] = name
                    set_args(part, item.get("arguments"))
                    parts.append(part)
                case {"type": "image"}:
                    parts.append(image_part(item))
        self._messages.replace(n, parts + list(cards.values()))
        self._cards.enroll(n)

    def close(self) -> list[Op]:
        """End the message that is being written as it stands: its own end was never told."""
        n, self.current = self.current, None
        self.streams.clear()
        if n is None:
            return []
        self._messages.close_streams(n)
        message = self._messages[n]
        if message["status"] == "streaming":
            message["status"] = "done"
        for part in message["parts"]:
            if part["type"] == "thinking":
                part["done"] = True
        return [self._messages.tell(n)] if message["role"] == "assistant" else []

    def grow(self, kind: str, index: int, delta: str) -> list[Op]:
        """A word, whose block may not have been announced."""
        ops = self.start_content(kind, index)
        return ops + self._messages.grow(self.streams[index], delta)

    def start_content(self, kind: str, index: int, id_: str = "", name: str = "") -> list[Op]:
        stream = self.streams.get(index)
        if stream is not None and stream.kind == kind:
            return []
        ops: list[Op] = []
        n = self.answer
        if n is None:
            ops = self.close()
            n = self.current = self._messages.add("assistant", [], "streaming")
            ops.append(self._messages.tell(n))
        if kind != "thinking":
            ops += self._collapse_thinking(n)
        part, field, room = text_part(), "text", TEXT_LIMIT
        if kind == "thinking":
            part = thinking_part()
        elif kind == "toolcall":
            part, field, room = tool_part(id_, name), "argsText", OUTPUT_LIMIT
            part["argsText"] = ""
        p = self._messages.add_part(n, part)
        if kind == "toolcall":
            self._cards.enroll(n)
        self.streams[index] = self._messages.open_stream(Stream(n, p, kind, field, room))
        return [*ops, self._messages.tell_part(n, p)]

    def _collapse_thinking(self, n: int) -> list[Op]:
        """Thinking is over when something else begins. With some providers its own end is told
        only after the answer."""
        ops: list[Op] = []
        for p, part in enumerate(self._messages[n]["parts"]):
            if part["type"] == "thinking" and not part["done"]:
                part["done"] = True
                ops.append(self._messages.tell_part(n, p))
        return ops

    def end_content(self, event: events.ContentEnd) -> list[Op]:
        ops: list[Op] = []
        stream = self.streams.get(event.index)
        if stream is None or stream.kind != event.kind:
            if self.current is None:
                return []
            ops = self.start_content(event.kind, event.index)
            stream = self.streams[event.index]
        with self._messages.editing(stream.n, stream.p) as part:
            before = dict(part)
            if event.kind == "toolcall":
                call = event.tool_call or {}
                for key in ("id", "name"):
                    part[key] = call[key] if isinstance(call.get(key), str) else part[key]
                set_args(part, call.get("arguments"))
            else:
                if event.content and event.content != part["text"] and "cut" not in part:
                    part["text"] = cut(event.content, TEXT_LIMIT)
                if event.kind == "thinking":
                    part["done"] = True
        if event.kind == "toolcall":
            self._cards.enroll(stream.n)
        return ops if part == before else [*ops, self._messages.tell_part(stream.n, stream.p)]

    def break_off(self, reason: str, error: str) -> list[Op]:
        n = self.answer
        if n is None:
            return []
        # It stays the current one: pi tells its end, too.
        message = self._messages[n]
        message["status"] = "aborted" if reason == "aborted" else "error"
        if reason != "aborted":
            message["error"] = error or "the model failed"
        return [self._messages.tell(n)]


def is_hidden(message: Fields) -> bool:
    """Whether an extension keeps this message out of the chat."""
    return message.get("role") == "custom" and message.get("display") is False

"""The conversation as data: messages, queues, model and levels, readable from any thread.

The RPC loop answers from here without an event loop; the conversation writes here from its own.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from ..wire.events import AgentEnd, AgentSettled, Event, QueueUpdate
from ..wire.json import JSON
from ..wire.record import Record, field
from .model import NO_MODEL_INFO, STUB, Entry, Fields, ModelRef, describe_model

__all__ = ["Chat", "Emit", "QueueKind", "QueueMode", "UserInput", "last_text", "text_of"]

Emit: TypeAlias = Callable[[Event], None]
QueueKind: TypeAlias = Literal["steer", "followUp"]
QueueMode: TypeAlias = Literal["all", "one-at-a-time"]


class UserInput(Record):
    """What a person sent: a text, and images in pi's form."""

    text: str
    images: list[Fields] = field(default_factory=list)

    def to_message(self, timestamp: int) -> Fields:
        content: list[Fields] = [{"type": "text", "text": self.text}, *self.images]
        return {"role": "user", "content": content, "timestamp": timestamp}


class Chat:
    """One session's conversation. Every method is safe from any thread.

    `put` gives an event its place among the lines, which happens under the lock: the order of the
    queue events is the order of the changes. `flush` sends them, and may wait for the host.
    """

    def __init__(
        self,
        put: Emit,
        flush: Callable[[], None],
        *,
        model: ModelRef | None = None,
        thinking: str | None = None,
        session_id: str = "",
    ) -> None:
        self.session_id = session_id or str(uuid.uuid4())
        self.session_name = ""
        # None: nobody has chosen a level, and the model does as it does by itself.
        self.thinking = thinking
        self.steering_mode: QueueMode = "one-at-a-time"
        self.follow_up_mode: QueueMode = "one-at-a-time"
        self._put = put
        self._flush = flush
        self._default_model = model
        self._model = model
        self._infos: dict[ModelRef, Fields] = {}
        for ref in (model, STUB):
            if ref is not None:
                self._infos[ref] = describe_model(ref)
        self._lock = threading.RLock()
        self._entries: list[Entry] = []
        self._counter = 0
        self._steering: deque[UserInput] = deque()
        self._follow_up: deque[UserInput] = deque()
        self._busy = False
        self._settled: list[Callable[[], None]] = []

    # ------------------------------------------------------------ model

    @property
    def level(self) -> str:
        """The thinking level as pi tells it; pi knows no "nobody has chosen"."""
        return self.thinking or "off"

    @property
    def model(self) -> ModelRef | None:
        return self._model

    @property
    def models(self) -> list[ModelRef]:
        """Every model this session has met, in the order of meeting, and the stub."""
        return list(self._infos)

    def set_model(self, ref: ModelRef, info: Fields) -> None:
        with self._lock:
            self._model = ref
            self._infos[ref] = info

    def learn_model(self, ref: ModelRef, info: Fields) -> None:
        """Take over what the engine knows of a model."""
        with self._lock:
            self._infos[ref] = info

    def model_info(self, ref: ModelRef | None) -> Fields:
        return NO_MODEL_INFO if ref is None else self._infos[ref]

    # ------------------------------------------------------------ messages

    def entries(self) -> list[Entry]:
        with self._lock:
            return list(self._entries)

    def messages(self) -> list[Fields]:
        return [entry.message for entry in self.entries()]

    def add(self, message: Fields, native: object = None) -> None:
        with self._lock:
            self._counter += 1
            self._entries.append(Entry(f"m{self._counter}", message, native))

    def fork(self, entry_id: str) -> str | None:
        """Go back to before a user message, as a new session; return its text, or None."""
        with self._lock:
            for index, entry in enumerate(self._entries):
                if entry.id == entry_id and entry.message["role"] == "user":
                    del self._entries[index:]
                    self.session_id, self.session_name = str(uuid.uuid4()), ""
                    return text_of(entry.message)
        return None

    def reset(self) -> None:
        """A new session: no messages, nothing queued, the default model."""
        with self._lock:
            self._entries.clear()
            self._model = self._default_model
            self.session_id, self.session_name = str(uuid.uuid4()), ""
        self.clear_queue()

    # ------------------------------------------------------------ queues

    @property
    def pending(self) -> int:
        return len(self._steering) + len(self._follow_up)

    def enqueue(self, kind: QueueKind, item: UserInput, *, if_busy: bool = False) -> bool:
        """Queue a message; with `if_busy`, only during a run. Was it queued?"""
        with self._lock:
            if if_busy and not self._busy:
                return False
            (self._steering if kind == "steer" else self._follow_up).append(item)
            self._announce()
        self._flush()
        return True

    def clear_queue(self) -> tuple[list[str], list[str]]:
        with self._lock:
            taken = ([i.text for i in self._steering], [i.text for i in self._follow_up])
            if any(taken):
                self._steering.clear()
                self._follow_up.clear()
                self._announce()
        self._flush()
        return taken

    def take_steering(self) -> list[UserInput]:
        """What joins the conversation before the next response; announce it with `announce`."""
        with self._lock:
            return _take(self._steering, self.steering_mode)

    def take_follow_up(self) -> list[UserInput]:
        with self._lock:
            return _take(self._follow_up, self.follow_up_mode)

    def announce(self) -> None:
        """Tell both queues as they are now."""
        with self._lock:
            self._announce()
        self._flush()

    def _announce(self) -> None:
        self._put(QueueUpdate([i.text for i in self._steering], [i.text for i in self._follow_up]))

    # ------------------------------------------------------------ busy

    @property
    def busy(self) -> bool:
        return self._busy

    def claim(self) -> bool:
        """Begin a run; False if there is one already."""
        with self._lock:
            if self._busy:
                return False
            self._busy = True
            return True

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call once the present run is over; now, if there is none."""
        with self._lock:
            if self._busy:
                self._settled.append(call)
                return
        call()

    def release(self, tell: Callable[[], None]) -> None:
        """End a run that never started: no events. `tell` says so, before who waits for the end."""
        with self._lock:
            self._busy = False
            waiting, self._settled = self._settled, []
        for call in (tell, *waiting):
            call()

    def settle(self, messages: list[JSON], *, aborted: bool = False, failed: bool = False) -> bool:
        """End the run, unless something was queued in the meantime: then False, and it goes on.

        One step under the lock, so that nothing can be queued after the last look at the queues
        and before the run is over: it would wait there for the next prompt. After an abort or an
        error the queues stay as they are, as in pi.
        """
        with self._lock:
            if self.pending and not aborted and not failed:
                return False
            self._put(AgentEnd(messages))
            self._busy = False
            self._put(AgentSettled(aborted))
            waiting, self._settled = self._settled, []
        self._flush()
        for call in waiting:
            call()
        return True

    # ------------------------------------------------------------ what get_* answers

    def state(self) -> Fields:
        with self._lock:
            out: Fields = {
                "model": self.model_info(self._model),
                "thinkingLevel": self.level,
                "isStreaming": self._busy,
                "isCompacting": False,
                "steeringMode": self.steering_mode,
                "followUpMode": self.follow_up_mode,
                "sessionId": self.session_id,
                "autoCompactionEnabled": False,
                "messageCount": len(self._entries),
                "pendingMessageCount": self.pending,
            }
            if self.session_name:
                out["sessionName"] = self.session_name
            return out

    def stats(self) -> Fields:
        messages = self.messages()
        assistants = [m for m in messages if m["role"] == "assistant"]
        tokens = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        cost = 0.0
        for message in assistants:
            usage = message["usage"]
            for key in tokens:
                tokens[key] += usage[key]
            cost += usage["cost"]["total"]
        out: Fields = {
            "sessionId": self.session_id,
            "userMessages": sum(m["role"] == "user" for m in messages),
            "assistantMessages": len(assistants),
            "toolCalls": sum(b["type"] == "toolCall" for m in assistants for b in m["content"]),
            "toolResults": sum(m["role"] == "toolResult" for m in messages),
            "totalMessages": len(messages),
            "tokens": {**tokens, "total": sum(tokens.values())},
            "cost": cost,
        }
        window = self.model_info(self._model)["contextWindow"]
        if window:
            # What the last response read and wrote is what the next request starts from.
            used = assistants[-1]["usage"]["totalTokens"] if assistants else 0
            out["contextUsage"] = {
                "tokens": used,
                "contextWindow": window,
                "percent": round(100 * used / window, 2),
            }
        return out


def _take(queue: deque[UserInput], mode: QueueMode) -> list[UserInput]:
    if not queue:
        return []
    if mode == "all":
        taken = list(queue)
        queue.clear()
        return taken
    return [queue.popleft()]


def text_of(message: Fields) -> str:
    """The text blocks of a message, joined."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content or () if block.get("type") == "text")


def last_text(messages: list[Fields]) -> str | None:
    """The text of the last assistant message that has one."""
    for message in reversed(messages):
        if message["role"] == "assistant" and (text := text_of(message)):
            return text
    return None

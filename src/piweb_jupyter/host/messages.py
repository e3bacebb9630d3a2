"""The messages of a transcript, kept in bounds, and the operations that tell of each change.

A message has a number for good: the first is 0, and its id is `m1`. Operations address it by its
place among the messages that are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from ..wire.json import JSON, Fields
from .content import CUT, Part, shed, weight

__all__ = ["ENDED", "MESSAGE_LIMIT", "TOTAL_LIMIT", "Message", "Messages", "Op", "Stream"]

Op: TypeAlias = tuple[JSON, ...]
Message: TypeAlias = dict[str, JSON]

# Bytes kept in all, about; when there are more, the oldest messages are cut to stubs.
TOTAL_LIMIT = 20 * 1024 * 1024

# Messages kept; when there are more, the oldest fifth is dropped.
MESSAGE_LIMIT = 5000

ENDED = frozenset({"done", "error", "aborted"})


@dataclass(slots=True)
class Stream:
    """A text that is still growing: a field of part `p` of message `n`, with `room` characters to
    go. Its pieces are joined only when somebody looks: appending to the part itself would copy
    the whole text at every delta."""

    n: int
    p: int
    kind: str
    name: str
    room: int
    pieces: list[str] = field(default_factory=list)


class Messages:
    """The messages themselves. Not thread-safe: the transcript locks."""

    def __init__(self) -> None:
        self.seq = 0  # how many operations were told
        self.kept: list[Message] = []
        self._born: list[int] = []  # `seq` when each of them came to be
        self.first = 0  # the number of the first one kept
        self._weight = 0
        self._shed_to = 0  # every message before this one is a stub
        self._streams: list[Stream] = []

    def __getitem__(self, n: int) -> Message:
        return self.kept[n - self.first]

    def __contains__(self, n: int) -> bool:
        return n >= self.first

    @property
    def end(self) -> int:
        """The number that the next message will have."""
        return self.first + len(self.kept)

    def since(self, mark: int) -> list[Message]:
        """The messages that came to be at `seq` `mark` or later."""
        return self.kept[bisect_left(self._born, mark) :]

    # ------------------------------------------------------------ changing

    def add(
        self, role: str, parts: list[Part], status: str = "done", source: Fields | None = None
    ) -> int:
        """Append a message and return its number. `source` is the message as pi has it."""
        message: Message = {"id": f"m{self.end + 1}", "role": role, "parts": [], "status": status}
        if source is not None:
            if role == "custom" and isinstance(source.get("customType"), str):
                message["customType"] = source["customType"]
            when = source.get("timestamp")
            if isinstance(when, int | float) and when > 0:
                message["time"] = when
        self.kept.append(message)
        self._born.append(self.seq)
        n = self.end - 1
        self.replace(n, parts)
        return n

    def add_part(self, n: int, part: Part) -> int:
        """Append a part and return its place."""
        parts = self[n]["parts"]
        parts.append(part)
        self._weight += weight(part)
        return len(parts) - 1

    def replace(self, n: int, parts: list[Part]) -> None:
        """Give a message other parts; what grew in the old ones grows no more."""
        self.close_streams(n)
        message = self[n]
        self._weight += sum(map(weight, parts)) - sum(map(weight, message["parts"]))
        message["parts"] = parts

    @contextmanager
    def editing(self, n: int, p: int) -> Iterator[Part]:
        """Change a part."""
        self.join()
        part = self[n]["parts"][p]
        self._weight -= weight(part)
        try:
            yield part
        finally:
            self._weight += weight(part)
            for stream in self._streams:
                if (stream.n, stream.p) == (n, p) and stream.name not in part:
                    stream.room = 0  # arguments that are known grow no more

    def open_stream(self, stream: Stream) -> Stream:
        self._streams.append(stream)
        return stream

    def close_streams(self, n: int) -> None:
        """Nothing grows in message `n` any more."""
        self.join()
        self._streams = [stream for stream in self._streams if stream.n != n]

    def grow(self, stream: Stream, delta: str) -> list[Op]:
        """Append to a growing text, as far as it has room."""
        size = len(delta)
        if not size:
            return []
        if size >= stream.room:
            return self._fill_up(stream, delta)
        stream.room -= size
        stream.pieces.append(delta)
        self._weight += size
        return [("append", stream.n - self.first, stream.p, stream.name, delta)]

    def _fill_up(self, stream: Stream, delta: str) -> list[Op]:
        if stream.room <= 0:
            return []
        with self.editing(stream.n, stream.p) as part:
            part[stream.name] += f"{delta[: stream.room]}\n{CUT}"
            part["cut"] = True
        stream.room = 0
        return [self.tell_part(stream.n, stream.p)]

    def join(self) -> None:
        """Put every growing text into its part, so that the messages can be read."""
        for stream in self._streams:
            if stream.pieces:
                part = self[stream.n]["parts"][stream.p]
                grown = "".join(stream.pieces)
                self._weight -= weight(part) + len(grown)
                part[stream.name] += grown
                self._weight += weight(part)
                stream.pieces.clear()

    def restart(self, keep: Iterable[Message] = ()) -> list[Op]:
        """Drop all messages but these."""
        end = self.end
        self.kept = list(keep)
        self.first = self._shed_to = end - len(self.kept)
        self._born = [self.seq] * len(self.kept)
        self._streams.clear()
        self._weight = sum(weight(part) for message in self.kept for part in message["parts"])
        return self.tell_all()

    # ------------------------------------------------------------ telling

    def tell(self, n: int) -> Op:
        self.join()
        message = self[n]
        parts = [dict(part) for part in message["parts"]]
        return ("message", n - self.first, {**message, "parts": parts})

    def tell_part(self, n: int, p: int) -> Op:
        self.join()
        return ("part", n - self.first, p, dict(self[n]["parts"][p]))

    def tell_growth(self, n: int, p: int, name: str, text: str) -> Op:
        return ("append", n - self.first, p, name, text)

    def tell_all(self) -> list[Op]:
        return [("clear",), *(self.tell(self.first + i) for i in range(len(self.kept)))]

    def told(self, ops: list[Op]) -> list[Op]:
        """Count what is about to be told, with what it takes to stay in bounds."""
        if self._weight > TOTAL_LIMIT:
            ops += self._relieve()
        if len(self.kept) > MESSAGE_LIMIT:
            ops += self._trim()
        self.seq += len(ops)
        return ops

    def _relieve(self) -> list[Op]:
        """Cut the oldest messages to stubs until a quarter of the room is free again."""
        ops: list[Op] = []
        live = {stream.n for stream in self._streams}
        while self._weight > TOTAL_LIMIT * 3 // 4 and self._shed_to < self.end - 1:
            n = self._shed_to
            self._shed_to += 1
            if n in live:
                continue
            for p, part in enumerate(self[n]["parts"]):
                before = weight(part)
                if part.get("status") not in ("pending", "running") and shed(part):
                    self._weight += weight(part) - before
                    ops.append(self.tell_part(n, p))
        return ops

    def _trim(self) -> list[Op]:
        """Drop the oldest messages and tell the rest anew."""
        self.join()
        count = len(self.kept) - MESSAGE_LIMIT * 4 // 5
        for message in self.kept[:count]:
            self._weight -= sum(map(weight, message["parts"]))
        del self.kept[:count], self._born[:count]
        self.first += count
        self._shed_to = max(self._shed_to, self.first)
        for stream in self._streams:
            if stream.n not in self:
                stream.room = 0
        self._streams = [stream for stream in self._streams if stream.n in self]
        return self.tell_all()

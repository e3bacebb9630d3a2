"""Sessions without a process, a view that records, and a clock: what feeds are tested with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from piweb_jupyter.host.feed import Feed
from piweb_jupyter.host.mirror import Snapshot
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.wire.frames import StateFrame, encode_state
from piweb_jupyter.wire.surface import surface_key
from tests.host.opening import spec

__all__ = ["KEY", "Clock", "RecordingView", "drain", "put_state", "quiet_session"]

KEY = surface_key("demo")


@contextmanager
def quiet_session() -> Iterator[AgentSession]:
    """A session of an agent that never runs: the test says what the agent says."""
    session = AgentSession(spec("counter"))
    session.epoch = 1
    session.mirror.begin_epoch(1)
    try:
        yield session
    finally:
        session.close()


def put_state(session: AgentSession, rev: int, value: object = None) -> bytes:
    """The agent sends a state; returns its line."""
    body = {"count": rev} if value is None else value
    line = encode_state(KEY, rev, orjson.dumps(body))
    assert session.mirror.apply(StateFrame(KEY, rev, body, False, None, line))
    return line


class Clock:
    """Time that passes when it is told to. `install` gives it to a module."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> float:
        self.now += seconds
        return self.now


class RecordingView:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.assigned: list[Snapshot | None] = []
        self.sent: list[dict[str, Any]] = []
        self.refreshed = 0

    def refresh(self) -> None:
        self.refreshed += 1

    def assign(self, held: Snapshot | None) -> None:
        self.assigned.append(held)

    def send(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        message = dict(content)
        if buffers and len(buffers) == 1:
            message["body"] = orjson.loads(buffers[0]) if buffers[0] else None
            message["size"] = len(buffers[0])
        self.sent.append(message)

    @property
    def revs(self) -> list[int]:
        return [-1 if held is None else held.rev for held in self.assigned]

    def kinds(self) -> list[str]:
        return [message["kind"] for message in self.sent]

    def take(self, kind: str) -> list[dict[str, Any]]:
        """The messages of one kind since the last time."""
        found = [message for message in self.sent if message["kind"] == kind]
        self.sent = [message for message in self.sent if message["kind"] != kind]
        return found


def drain(feed: Feed, clock: Clock, until: float = 0.0) -> int:
    """Send what is due, and what becomes due within `until` seconds. Returns how many messages."""
    end = clock.now + until
    count = 0
    while (due := feed.due(clock.now)) is not None and due <= end:
        clock.now = max(clock.now, due)
        feed.emit(clock.now)
        count += 1
        assert count < 10_000, "this feed never rests"
    clock.now = end
    return count

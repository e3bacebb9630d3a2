"""The news of one view: what it has not been sent yet, and when the next of it may go.

A snapshot says what is and may be skipped; an event happened once and is numbered. Pages
acknowledge both, so a view is never sent more than its pages can take. No thread of its own:
`piweb-io` and the views' handlers add, `piweb-publisher` asks `due` and calls `emit`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..wire.json import JSON, dumps
from ..wire.surface import surface_key
from . import letters
from .letters import Message
from .mirror import Snapshot
from .pages import EVENT_BYTES, EVENT_PATIENCE, NOTHING, Pages, Version
from .section import section

if TYPE_CHECKING:
    from .command import Command
    from .session import AgentSession
    from .transcript import Op, Transcript

__all__ = ["Feed", "Onlooker", "StateView", "View"]

# A screen shows no more, and it is the sweet spot between lag and cost (10 to 60 Hz measured).
INTERVAL = 1 / 30

# While no page follows, the trait is still kept current, for a page that comes later.
LATE_INTERVAL = 1.0

# Seconds after a snapshot at which its version is told again.
TIPS = (2.0, 5.0)

# A stage that a command has left by then was not worth a message.
STAGE_DELAY = 0.05


class Onlooker(Protocol):
    """Who is told that something about a session has changed. On `piweb-publisher`, always."""

    def refresh(self) -> None:
        """Look at the session again: lifecycle, title, model, declarations."""


@runtime_checkable
class View(Onlooker, Protocol):
    """An onlooker with pages, which say hello, ask and acknowledge."""

    def send(self, content: dict[str, JSON], buffers: list[bytes] | None = None) -> None:
        """Send one custom message to every page."""


@runtime_checkable
class StateView(View, Protocol):
    """A view that draws a state."""

    def assign(self, held: Snapshot | None) -> None:
        """Show this snapshot. It may be a tombstone; None if nothing was ever held."""


class Feed:
    """What one view still has to be told. Safe from any thread.

    `key` is the state it draws, None for none; with `chat` it follows the transcript and the open
    questions; `interval` is the least time between two refreshes. Nothing is queued while no page
    listens: a page that arrives asks for the present.

    Raises:
        TypeError: If the view is no `StateView` and there is a `key`, or no `View` with `chat`.
    """

    def __init__(
        self,
        session: AgentSession,
        view: Onlooker,
        wake: Callable[[], None],
        *,
        key: str | None = None,
        chat: bool = False,
        interval: float = INTERVAL,
    ) -> None:
        self.session = session
        self.view = view
        self._send_message = view.send if isinstance(view, View) else None
        self._assign = view.assign if isinstance(view, StateView) else None
        if key is not None and self._assign is None:
            raise TypeError(f"{view!r} draws no state")
        if chat and self._send_message is None:
            raise TypeError(f"{view!r} has no pages")
        self.key = key
        self.chat = chat
        self.detached = False
        self._wake = wake
        self._lock = section()
        self._pages = Pages()
        self._letters: deque[Callable[[], Message]] = deque()

        self._refresh = True
        self._refresh_interval = interval
        self._refreshed_at = float("-inf")

        self._dirty = key is not None
        self._assigned_at = float("-inf")
        self._tips: list[float] = []

        self._stages: dict[Command, float] = {}
        self._items: list[bytes] = []
        self._item_bytes = 0
        self._oldest = 0.0
        self._last = 0  # the number of the last event there was, sent or not
        self._sent_at = float("-inf")
        self._behind = False

    def follows(self, domain: str) -> bool:
        """Whether the commands of that surface are this view's."""
        return self.key == surface_key(domain)

    # ------------------------------------------------------------ from the session

    def note_state(self) -> None:
        """The mirror has something newer."""
        if not self._dirty:
            self._dirty = True
            self._wake()

    def note_lifecycle(self) -> None:
        """Something about the session has changed."""
        if not self._refresh:
            self._refresh = True
            self._wake()

    def note_ops(self, ops: list[Op]) -> None:
        """The transcript has changed.

        Encoded here and now: parts of these ops are the transcript's own, and it goes on.
        """
        if self._pages and not self._behind:
            self._add([dumps(op) for op in ops])
        else:
            with self._lock:
                self._last += len(ops)

    def note_questions(self) -> None:
        """A question was asked or answered: all open ones are told again."""
        self._add([letters.questions(self.session)])

    def note_command(self, command: Command) -> None:
        """A command of a page has come further.

        Read here and now: what is large does not stay with a finished command.
        """
        if not command.done:
            with self._lock:
                if self._pages:
                    self._stages.setdefault(command, time.monotonic() + STAGE_DELAY)
            self._wake()
            return
        with self._lock:
            self._stages.pop(command, None)
        if isinstance(told := letters.result(command), bytes):
            self._add([told])
        else:
            self.post(told)

    # ------------------------------------------------------------ from the pages

    def hello(self, page: str) -> None:
        """A page is there (again) and listens from now on; what it missed it asks for."""
        with self._lock:
            self._pages.hello(page, self._last)
        self.post(lambda: self._pong(page))

    def ack(self, page: str, *, version: Version | None = None, seq: int | None = None) -> None:
        """A page has drawn that version, or applied the events up to that number."""
        with self._lock:
            self._pages.ack(page, version, seq, time.monotonic())
        self._wake()

    def post(self, letter: Message | Callable[[], Message]) -> None:
        """Queue a message of its own; it goes before everything else.

        One that is given as a function is written when its turn comes, on `piweb-publisher`.
        """
        self._letters.append(letter if callable(letter) else lambda: letter)
        self._wake()

    def tell(self, *item: JSON) -> None:
        """Queue an event of the view's own making."""
        self._add([dumps(item)])

    def want_state(self, page: str) -> None:
        """Answer a page that has missed a snapshot."""
        self.post(lambda: letters.state(page, self._held(), self.session.epoch))

    def want_present(self, page: str) -> None:
        """Answer a page that knows nothing, or too little, of the chat."""
        self.post(lambda: self._present(page))

    # ------------------------------------------------------------ for the publisher

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._letters)

    def due(self, now: float) -> float | None:
        """When the next message may go; None if there is nothing to send."""
        if self._letters:
            return now
        times = [self._refreshed_at + self._refresh_interval] if self._refresh else []
        with self._lock:
            both = (self._events_due(now), self._snapshot_due(now))
            times += [at for at in both if at is not None]
            if self._tips and self._pages:
                times.append(self._tips[0])
        return min(times, default=None)

    def emit(self, now: float) -> int:
        """Send the one message that is due first; return about how many bytes that was."""
        if self._letters:
            return self._send(self._letters.popleft()())
        if self._refresh and self._refreshed_at + self._refresh_interval <= now:
            self._refresh = False
            self._refreshed_at = now
            self.view.refresh()
            return 1000
        with self._lock:
            events_due, snapshot_due = self._events_due(now), self._snapshot_due(now)
            # The state that a command made goes before its result, as on the wire: the page draws
            # the first of the two at once, and the second in its next frame.
            is_state = snapshot_due is not None and snapshot_due <= now
            is_event = not is_state and events_due is not None and events_due <= now
            events = self._take_events(now) if is_event else None
        if is_state:
            return self._emit_snapshot(now)
        if events is not None:
            return self._send(events)
        if is_event:
            return self._send(self._present("*"))
        return self._emit_tip(now)

    def _send(self, message: Message) -> int:
        content, buffers = message
        assert self._send_message is not None  # no page has said hello to an onlooker
        self._send_message(content, buffers)
        return 300 + sum(map(len, buffers))

    # ------------------------------------------------------------ snapshots

    def _held(self) -> Snapshot | None:
        return None if self.key is None else self.session.mirror.tombstone(self.key)

    def _snapshot_due(self, now: float) -> float | None:
        if not self._dirty:
            return None
        if self._assigned_at == float("-inf"):
            return now
        free_at = self._pages.snapshots_from(now)
        if free_at is None:
            return self._assigned_at + LATE_INTERVAL
        return max(free_at, self._assigned_at + INTERVAL)

    def _emit_snapshot(self, now: float) -> int:
        # Cleared first: what arrives while the mirror is read is newer than what is read.
        self._dirty = False
        held = self._held()
        version = NOTHING if held is None else held.version
        with self._lock:
            self._pages.note_snapshot(version, now)
            self._assigned_at = now
            # While states flow one tip stays where it is, the others move on with the last state.
            flowing = self._tips[:1] if len(self._tips) > len(TIPS) else [now + TIPS[0]]
            self._tips = [*flowing, *(now + after for after in TIPS)]
        assert self._assign is not None
        self._assign(held)
        return 300 if held is None else 300 + len(held.line)

    def _emit_tip(self, now: float) -> int:
        with self._lock:
            self._tips = [at for at in self._tips if at > now]
            newest = self._pages.newest
        return self._send(letters.tip(newest))

    # ------------------------------------------------------------ events

    def _add(self, items: list[bytes]) -> None:
        """Queue events. A view that is too far behind is better served by the whole present."""
        now = time.monotonic()
        with self._lock:
            self._last += len(items)
            if not self._pages or self._behind:
                return
            if not self._items:
                self._oldest = now
            self._items += items
            self._item_bytes += sum(map(len, items))
            if self._item_bytes > EVENT_BYTES or now - self._oldest > EVENT_PATIENCE:
                self._drop_events()
        self._wake()

    def _drop_events(self) -> None:
        self._items = []
        self._item_bytes = 0
        self._behind = True

    def _events_due(self, now: float) -> float | None:
        if self._stages and not self._items and not self._behind:
            return max(next(iter(self._stages.values())), self._sent_at + INTERVAL)
        if not self._items and not self._behind:
            return None
        free_at = self._pages.events_from(now)
        return None if free_at is None else max(free_at, self._sent_at + INTERVAL)

    def _take_events(self, now: float) -> Message | None:
        """The batch to send, or None if the present has to go instead."""
        if self._items and now - self._oldest > EVENT_PATIENCE:
            self._drop_events()
        self._sent_at = now
        if self._behind and self.chat:
            return None
        # A page of a surface sees by the numbers that it has missed something, and asks.
        self._behind = False
        due = [command for command, at in self._stages.items() if at <= now]
        for command in due:
            del self._stages[command]
        # One that has ended in this very moment is not running again: its result is in the queue.
        stages = [letters.stage(command) for command in due if not command.done]
        self._items = stages + self._items
        self._last += len(stages)
        items, self._items = self._items, []
        self._item_bytes = 0
        self._pages.note_events(self._last, sum(map(len, items)), now)
        return letters.events(self._last - len(items) + 1, self._last, items)

    def _present(self, page: str) -> Message:
        questions = letters.list_questions(self.session)

        def read(transcript: Transcript) -> Message:
            # An op is applied and told under one lock: none can slip in between.
            body = letters.chat_body(transcript.present(), questions)
            with self._lock:
                to = "*" if self._behind else page
                if to == "*":
                    self._items = []
                    self._item_bytes = 0
                    self._behind = False
                    self._pages.note_events(self._last, len(body), time.monotonic())
                return letters.present(to, self._last, body)

        return self.session.chat.read(read)

    def _pong(self, page: str) -> Message:
        with self._lock:
            return letters.pong(page, self._pages.newest, self._last - len(self._items))

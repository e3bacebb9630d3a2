"""The news of one view: what it has not been sent yet, and when the next of it may go.

A snapshot says what is and may be skipped; an event happened once and is numbered. Pages
acknowledge both, so a view is never sent more than its pages can take. No thread of its own:
`piweb-io` and the views' handlers add, `piweb-publisher` asks `due` and calls `emit`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..wire.json import JSON, dumps
from ..wire.surface import surface_key
from . import letters
from .letters import Message
from .mirror import Snapshot

if TYPE_CHECKING:
    from .command import Command
    from .session import AgentSession
    from .transcript import Op, Transcript

__all__ = ["Feed", "View"]

# A screen shows no more, and it is the sweet spot between lag and cost (10 to 60 Hz measured).
INTERVAL = 1 / 30

# Snapshots under way to a page. With one only, a page 20 ms away would idle between them.
IN_FLIGHT = 2

# A page that has not answered for so long is asleep or gone: the others do not wait for it ...
LAG = 1.0

# ... and while none follows, the trait is still kept current, for a page that comes later.
LATE_INTERVAL = 1.0

# Seconds after a snapshot at which its version is told again.
TIPS = (2.0, 5.0)

# A stage that a command has left by then was not worth a message.
STAGE_DELAY = 0.05

# A view further behind with its events than this is better served by the whole present.
EVENT_BYTES = 1_000_000
EVENT_PATIENCE = 2.0

# More pages than anybody has open; the one that came first is forgotten.
_PAGES = 32

# What every page has from the start: no snapshot.
_NOTHING = (0, -1)

Version: TypeAlias = tuple[int, int]


class View(Protocol):
    """What is asked of a view. Every method is called on `piweb-publisher`, and only there."""

    def refresh(self) -> None:
        """Look at the session again: lifecycle, title, model, declarations."""

    def assign(self, held: Snapshot | None) -> None:
        """Show this snapshot. It may be a tombstone; None if nothing was ever held."""

    def send(self, content: dict[str, JSON], buffers: list[bytes] | None = None) -> None:
        """Send one custom message to every page."""


@dataclass(slots=True)
class _Page:
    """What one page has acknowledged, and since when it owes the next acknowledgement."""

    version: Version = _NOTHING
    version_since: float | None = None
    seq: int = 0
    seq_since: float | None = None
    owed: deque[tuple[int, int]] = field(default_factory=deque)

    def is_full(self) -> bool:
        return sum(size for _, size in self.owed) > EVENT_BYTES


class Feed:
    """What one view still has to be told. Safe from any thread.

    `key` is the state it draws, None for none; with `chat` it follows the transcript and the open
    questions; `interval` is the least time between two refreshes. Nothing is queued while no page
    listens: a page that arrives asks for the present.
    """

    def __init__(
        self,
        session: AgentSession,
        view: View,
        wake: Callable[[], None],
        *,
        key: str | None = None,
        chat: bool = False,
        interval: float = INTERVAL,
    ) -> None:
        self.session = session
        self.view = view
        self.key = key
        self.chat = chat
        self.detached = False
        self._wake = wake
        self._lock = threading.Lock()
        self._pages: dict[str, _Page] = {}
        self._letters: deque[Callable[[], Message]] = deque()

        self._refresh = True
        self._refresh_interval = interval
        self._refreshed_at = float("-inf")

        self._dirty = key is not None
        self._assigned: deque[Version] = deque(maxlen=IN_FLIGHT)
        self._assigned_at = float("-inf")
        self._tips: list[float] = []

        self._stages: dict[Command, float] = {}
        self._items: list[bytes] = []
        self._item_bytes = 0
        self._oldest = 0.0
        self._last = 0  # the number of the last event there was, sent or not
        self._sent = 0
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
            if page not in self._pages and len(self._pages) >= _PAGES:
                del self._pages[next(iter(self._pages))]
            self._pages.pop(page, None)
            self._pages[page] = _Page(seq=self._last)
        self.post(lambda: self._pong(page))

    def ack(self, page: str, *, version: Version | None = None, seq: int | None = None) -> None:
        """A page has drawn that version, or applied the events up to that number."""
        now = time.monotonic()
        with self._lock:
            known = self._pages.get(page)
            if known is None:
                return
            if version is not None and version > known.version:
                newest = self._assigned[-1] if self._assigned else _NOTHING
                known.version = version
                known.version_since = None if version >= newest else now
            if seq is not None and seq > known.seq:
                known.seq = seq
                known.seq_since = None if seq >= self._sent else now
                while known.owed and known.owed[0][0] <= seq:
                    known.owed.popleft()
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
        self.view.send(content, buffers)
        return 300 + sum(map(len, buffers))

    # ------------------------------------------------------------ snapshots

    def _held(self) -> Snapshot | None:
        return None if self.key is None else self.session.mirror.tombstone(self.key)

    def _snapshot_due(self, now: float) -> float | None:
        if not self._dirty:
            return None
        if not self._assigned:
            return now
        free_at = self._assigned_at + INTERVAL
        following = False
        for page in self._pages.values():
            since = page.version_since
            if since is not None and now - since >= LAG:
                continue
            following = True
            full = len(self._assigned) == IN_FLIGHT and page.version < self._assigned[0]
            if since is not None and full:
                free_at = max(free_at, since + LAG)
        return free_at if following else self._assigned_at + LATE_INTERVAL

    def _emit_snapshot(self, now: float) -> int:
        # Cleared first: what arrives while the mirror is read is newer than what is read.
        self._dirty = False
        held = self._held()
        version = _NOTHING if held is None else held.version
        with self._lock:
            self._assigned.append(version)
            self._assigned_at = now
            for page in self._pages.values():
                if page.version_since is None and page.version < version:
                    page.version_since = now
            # While states flow one tip stays where it is, the others move on with the last state.
            flowing = self._tips[:1] if len(self._tips) > len(TIPS) else [now + TIPS[0]]
            self._tips = [*flowing, *(now + after for after in TIPS)]
        self.view.assign(held)
        return 300 if held is None else 300 + len(held.line)

    def _emit_tip(self, now: float) -> int:
        with self._lock:
            self._tips = [at for at in self._tips if at > now]
            newest = self._assigned[-1] if self._assigned else _NOTHING
        return self._send(letters.tip(newest))

    # ------------------------------------------------------------ events

    def _add(self, items: list[bytes]) -> None:
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
        free_at = None
        for page in self._pages.values():
            since = page.seq_since
            if since is not None and now - since >= EVENT_PATIENCE:
                continue  # it does not read; when it does, it says so with an acknowledgement
            if since is None or not page.is_full():
                return self._sent_at + INTERVAL
            free_at = since + EVENT_PATIENCE
        return free_at

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
        self._note_sent(now, sum(map(len, items)))
        return letters.events(self._last - len(items) + 1, self._last, items)

    def _note_sent(self, now: float, size: int) -> None:
        self._sent = self._last
        for page in self._pages.values():
            if page.seq_since is None:
                page.seq_since = now
            if now - page.seq_since < EVENT_PATIENCE:
                page.owed.append((self._last, size))

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
                    self._note_sent(time.monotonic(), len(body))
                return letters.present(to, self._last, body)

        return self.session.chat.read(read)

    def _pong(self, page: str) -> Message:
        with self._lock:
            version = self._assigned[-1] if self._assigned else _NOTHING
            return letters.pong(page, version, self._last - len(self._items))

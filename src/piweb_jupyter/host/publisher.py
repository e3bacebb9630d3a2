"""Delivery of news to views: one thread per kernel, a bounded rate, no view left behind for good.

The Jupyter server drops iopub messages above 1,000 per second without a word, the user's own
output with them; so everything that views are sent leaves through here, within a budget.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from .feed import INTERVAL, Feed, Onlooker
from .section import section

if TYPE_CHECKING:
    from .command import Command
    from .session import AgentSession
    from .transcript import Op

__all__ = ["Budget", "Publisher", "get_publisher"]

logger = logging.getLogger(__name__)

# A fifth of what the server lets through: acknowledgements cost two status messages each, and the
# user's cells print.
MESSAGE_RATE = 200.0
MESSAGE_BURST = 20.0

# About what a page can draw (6 MB/s in 60 KB pieces, measured).
BYTE_RATE = 5_000_000.0
BYTE_BURST = 1_000_000.0

_JOIN_TIMEOUT = 2.0


class Budget:
    """Two buckets, messages and bytes. A message larger than the bucket is owed, and waited for."""

    def __init__(self, now: float) -> None:
        self._messages = MESSAGE_BURST
        self._bytes = BYTE_BURST
        self._at = now

    def wait(self, now: float) -> float:
        """Seconds until one more message may go."""
        passed = now - self._at
        self._at = now
        self._messages = min(MESSAGE_BURST, self._messages + passed * MESSAGE_RATE)
        self._bytes = min(BYTE_BURST, self._bytes + passed * BYTE_RATE)
        return max((1 - self._messages) / MESSAGE_RATE, -self._bytes / BYTE_RATE, 0.0)

    def spend(self, size: int) -> None:
        """One message of `size` bytes has gone."""
        self._messages -= 1
        self._bytes -= size


class Publisher:
    """Hands each view what it lacks, on `piweb-publisher`: the only writer of traits.

    It is the listener of every session that has a view; what it hears on `piweb-io` it only notes.
    The thread lives while there is a view.
    """

    def __init__(self) -> None:
        self._lock = section()
        self._feeds: tuple[Feed, ...] = ()
        self._by_key: dict[tuple[AgentSession, str], tuple[Feed, ...]] = {}
        self._by_session: dict[AgentSession, tuple[Feed, ...]] = {}
        self._turns: dict[AgentSession, int] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def attach(
        self,
        session: AgentSession,
        view: Onlooker,
        *,
        key: str | None = None,
        chat: bool = False,
        interval: float = INTERVAL,
    ) -> Feed:
        """Deliver to `view` from now on: the snapshots of `key`, with `chat` the conversation.

        Raises:
            TypeError: If it cannot show that; see `Feed`.
        """
        feed = Feed(session, view, self._wake.set, key=key, chat=chat, interval=interval)
        with self._lock:
            self._feeds = (*self._feeds, feed)
            self._index()
            session.news.listener = self
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="piweb-publisher", daemon=True
                )
                self._thread.start()
        self._wake.set()
        return feed

    def detach(self, feed: Feed) -> None:
        """Deliver nothing more to that view. With the last one the thread ends, and is joined."""
        if feed.detached:
            # Widgets close themselves when they are collected, and that may happen to a thread that
            # has the lock. A view that is collected was detached before: its feed was held here.
            return
        with self._lock:
            feed.detached = True
            self._feeds = tuple(other for other in self._feeds if other is not feed)
            self._index()
            if feed.session not in self._by_session:
                self._turns.pop(feed.session, None)
                if feed.session.news.listener is self:
                    feed.session.news.listener = None
            thread = None if self._feeds else self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_TIMEOUT)

    def turns(self, session: AgentSession) -> int:
        """How many runs of the agent have ended since it has a view."""
        return self._turns.get(session, 0)

    def _index(self) -> None:
        by_key: dict[tuple[AgentSession, str], tuple[Feed, ...]] = {}
        by_session: dict[AgentSession, tuple[Feed, ...]] = {}
        for feed in self._feeds:
            by_session[feed.session] = (*by_session.get(feed.session, ()), feed)
            if feed.key is not None:
                place = (feed.session, feed.key)
                by_key[place] = (*by_key.get(place, ()), feed)
        # Whole new dicts: the hooks read them without a lock.
        self._by_key, self._by_session = by_key, by_session

    # ------------------------------------------------------------ what the sessions tell

    def on_state(self, session: AgentSession, key: str) -> None:
        for feed in self._by_key.get((session, key), ()):
            feed.note_state()

    def on_transcript(self, session: AgentSession, ops: list[Op]) -> None:
        feeds = self._by_session.get(session, ())
        for feed in feeds:
            if feed.chat:
                feed.note_ops(ops)
        for op in ops:
            if op[0] == "meta" and "busy" in op[1]:
                if not op[1]["busy"]:
                    self._turns[session] = self._turns.get(session, 0) + 1
                for feed in feeds:
                    feed.note_lifecycle()

    def on_command(self, session: AgentSession, command: Command) -> None:
        for feed in self._by_session.get(session, ()):
            if feed.follows(command.domain):
                feed.note_command(command)

    def on_question(self, session: AgentSession) -> None:
        for feed in self._by_session.get(session, ()):
            if feed.chat:
                feed.note_questions()

    def on_lifecycle(self, session: AgentSession) -> None:
        for feed in self._by_session.get(session, ()):
            feed.note_lifecycle()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        budget = Budget(time.monotonic())
        after: Feed | None = None
        while True:
            self._wake.clear()
            with self._lock:
                feeds = self._feeds
                if not feeds:
                    self._thread = None
                    return
            pause, after = self._round(feeds, after, budget)
            if pause is None or pause > 0:
                self._wake.wait(pause)

    def _round(
        self, feeds: tuple[Feed, ...], after: Feed | None, budget: Budget
    ) -> tuple[float | None, Feed | None]:
        """One message for every view that has one due, as far as the budget goes.

        Returns how long to pause (None: until woken), and the view whose turn was the last, so
        that the next round begins behind it.
        """
        start = feeds.index(after) + 1 if after in feeds else 0
        turns = sorted(feeds[start:] + feeds[:start], key=lambda feed: not feed.urgent)
        pause: float | None = None
        for feed in turns:
            now = time.monotonic()
            due = feed.due(now)
            if due is None:
                continue
            if due <= now:
                wait = budget.wait(now)
                if wait > 0:
                    return wait, after
                try:
                    budget.spend(feed.emit(now))
                except Exception:
                    # One broken view must not silence the others. What it was sent is not tried
                    # again, so this cannot spin.
                    budget.spend(0)
                    logger.exception("news could not be given to %r", feed.view)
                if not feed.urgent:
                    after = feed
                pause = 0.0
            elif pause is None or due - now < pause:
                pause = due - now
        return pause, after


_publisher = Publisher()


def get_publisher() -> Publisher:
    """The kernel's publisher."""
    return _publisher

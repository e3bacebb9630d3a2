"""Who is told what about a session: the publisher, watchers of a key, subscribers of the user's.

The publisher and the watchers are ours and are called where the news arises, mostly on
`piweb-io`; they may note and wake, no more. The user's functions run on `piweb-callbacks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..wire.events import Event
from .callbacks import get_callbacks
from .section import section

if TYPE_CHECKING:
    from .command import Command
    from .messages import Op
    from .session import AgentSession

__all__ = ["News", "SessionListener", "SessionNews"]


@dataclass(slots=True, frozen=True)
class SessionNews:
    """Something that happened: an `event` of the conversation, a new `state` of a key, a changed
    `lifecycle`, a `question`. `value` is the event, the key, the lifecycle, the question's id."""

    kind: Literal["event", "state", "lifecycle", "question"]
    value: Any


class SessionListener(Protocol):
    """What a publisher hears."""

    def on_state(self, session: AgentSession, key: str) -> None: ...
    def on_transcript(self, session: AgentSession, ops: list[Op]) -> None: ...
    def on_command(self, session: AgentSession, command: Command) -> None: ...
    def on_question(self, session: AgentSession) -> None: ...
    def on_lifecycle(self, session: AgentSession) -> None: ...


class News:
    """The audience of one session. Safe from any thread."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._lock = section()
        self._watchers: dict[str, tuple[Callable[[], None], ...]] = {}
        self._subscribers: tuple[Callable[[SessionNews], None], ...] = ()
        self.listener: SessionListener | None = None

    def watch(self, key: str, fn: Callable[[], None]) -> Callable[[], None]:
        """Have `fn()` called whenever `key` has something newer. Returns what ends it."""
        with self._lock:
            self._watchers[key] = (*self._watchers.get(key, ()), fn)

        def unwatch() -> None:
            with self._lock:
                left = tuple(w for w in self._watchers.get(key, ()) if w is not fn)
                if left:
                    self._watchers[key] = left
                else:
                    self._watchers.pop(key, None)

        return unwatch

    def subscribe(self, fn: Callable[[SessionNews], None]) -> Callable[[], None]:
        """Have `fn(news)` called on `piweb-callbacks`, in order. Returns what ends it."""
        with self._lock:
            self._subscribers = (*self._subscribers, fn)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(s for s in self._subscribers if s is not fn)

        return unsubscribe

    def call(self, fn: Callable[..., None], *args: Any, key: object = None) -> None:
        """Run a function of the user's on `piweb-callbacks`; its errors go to the log."""
        get_callbacks().call(fn, *args, report=self._session.log.note, key=key)

    def state(self, key: str) -> None:
        if self._watchers:
            for fn in self._watchers.get(key, ()):
                fn()
        if self.listener is not None:
            self.listener.on_state(self._session, key)
        if self._subscribers:
            self._tell(SessionNews("state", key))

    def lifecycle(self) -> None:
        if self.listener is not None:
            self.listener.on_lifecycle(self._session)
        if self._subscribers:
            self._tell(SessionNews("lifecycle", self._session.lifecycle))

    def command(self, command: Command) -> None:
        if self.listener is not None:
            self.listener.on_command(self._session, command)

    def question(self, asked: str | None = None) -> None:
        if self.listener is not None:
            self.listener.on_question(self._session)
        if asked is not None and self._subscribers:
            self._tell(SessionNews("question", asked))

    def transcript(self, ops: list[Op]) -> None:
        if self.listener is not None and ops:
            self.listener.on_transcript(self._session, ops)

    def event(self, event: Event) -> None:
        if self._subscribers:
            self._tell(SessionNews("event", event))

    def _tell(self, news: SessionNews) -> None:
        for fn in self._subscribers:
            self.call(fn, news)

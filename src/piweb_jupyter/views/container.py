"""A session as one output: the chat beside the surfaces, also those that come later."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import ipywidgets

from ..host.feed import Feed
from ..host.publisher import get_publisher
from . import fallback
from .chat import ChatView
from .picture import Pictures, show
from .surface import SurfaceView
from .widget import OneWriter

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = ["PiwebView", "close_views", "view_chat", "view_session", "view_surface"]


class _Pane(OneWriter, ipywidgets.Box):  # type: ignore[misc]  # ipywidgets has no types
    """A box of ours; how it lies is in the style sheets of the views."""

    def close(self) -> None:
        layout = self.layout if self.comm is not None else None
        super().close()
        if layout is not None:
            layout.close()


class PiwebView(_Pane):
    """Chat and surfaces of one session, side by side, stacked where it is narrow."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self._views = _views_of(session)
        self._domains: tuple[str, ...] = ()
        self._pane = _Pane()
        self._pane.add_class("piweb-surfaces")
        super().__init__(children=[self._views.chat(), self._pane])
        self.add_class("piweb-container")
        self.refresh()
        self._feed: Feed = get_publisher().attach(session, self)

    def __repr__(self) -> str:
        return f"<PiwebView of {self.session.name}>"

    def paint(self) -> str:
        """What a saved notebook shows in its place.

        Nothing of the agent until a page looks: it may still be starting, and a notebook that is
        executed and compared must come out the same every time.
        """
        if not self._views.pictures.is_watched:
            return fallback.name_html(self.session)
        return fallback.session_html(self.session)

    def _ipython_display_(self) -> None:
        show(self, self.paint, self._views.pictures)

    def refresh(self) -> None:
        """Add the surfaces that are new."""
        domains = self.session.surfaces
        if domains != self._domains:
            self._domains = domains
            self._pane.children = self._views.surfaces(domains)

    def close(self) -> None:
        if (feed := getattr(self, "_feed", None)) is not None:
            get_publisher().detach(feed)
        self._pane.close()
        super().close()


class _SessionViews:
    """The one model per view of a session, made when it is first wanted."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._lock = threading.RLock()
        self._closed = False
        self.pictures = Pictures(session)
        self._chat: ChatView | None = None
        self._surfaces: dict[str, SurfaceView] = {}
        self._whole: PiwebView | None = None

    def chat(self) -> ChatView:
        with self._lock:
            if not _is_open(self._chat):
                self._chat = ChatView(self._session, pictures=self.pictures)
            return self._chat  # type: ignore[return-value]  # it is open

    def surface(self, domain: str) -> SurfaceView:
        with self._lock:
            if not _is_open(self._surfaces.get(domain)):
                view = SurfaceView(self._session, domain, pictures=self.pictures)
                self._surfaces[domain] = view
            return self._surfaces[domain]

    def surfaces(self, domains: tuple[str, ...]) -> list[SurfaceView]:
        """Those surfaces; none once it is closed, or the publisher would bring them back."""
        with self._lock:
            return [] if self._closed else [self.surface(domain) for domain in domains]

    def whole(self) -> PiwebView:
        with self._lock:
            if not _is_open(self._whole):
                self._whole = PiwebView(self._session)
            return self._whole  # type: ignore[return-value]  # it is open

    def close(self) -> None:
        with self._lock:
            self._closed = True
            views: list[Any] = [self._whole, self._chat, *self._surfaces.values(), self.pictures]
            self._whole = self._chat = None
            self._surfaces = {}
        # Not under the lock: the publisher may want it, and closing waits for the publisher.
        for view in views:
            if view is not None:
                view.close()


def _is_open(view: ipywidgets.Widget | None) -> bool:
    """Whether it can be shown: a user may have closed it, or all widgets at once."""
    return view is not None and view.comm is not None


# A session has no place for its views, since `host` knows no Jupyter. Whoever forgets a session
# closes them.
_all_views: dict[AgentSession, _SessionViews] = {}
_all_views_lock = threading.RLock()  # a finalizer in the middle of this may show a session


def _views_of(session: AgentSession) -> _SessionViews:
    with _all_views_lock:
        if session not in _all_views:
            _all_views.setdefault(session, _SessionViews(session))
        return _all_views[session]


def view_session(session: AgentSession) -> PiwebView:
    """Chat and surfaces of a session, as one output; the same model every time."""
    return _views_of(session).whole()


def view_chat(session: AgentSession) -> ChatView:
    """The chat of a session; the same model every time."""
    return _views_of(session).chat()


def view_surface(session: AgentSession, domain: str) -> SurfaceView:
    """One surface of a session; the same model every time."""
    return _views_of(session).surface(domain)


def close_views(session: AgentSession) -> None:
    """Remove a session's views from every page, and let go of the session. Idempotent."""
    with _all_views_lock:
        views = _all_views.pop(session, None)
    if views is not None:
        views.close()

"""What our widgets have in common: one writer for their traits, and clicks that do not wait."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets as t

from ..errors import PiwebError
from ..host import letters
from ..host.feed import Feed
from ..host.publisher import get_publisher
from .messages import AskLogs, Hello, PageMessage, Restart, Stop, decode_message
from .picture import Pictures, show

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = ["LOG_LINES", "AgentView", "OneWriter", "read_bundle"]

logger = logging.getLogger(__name__)

# What the log panel of a view shows; all of it is in `session.log`.
LOG_LINES = 300

_STATIC = Path(__file__).parents[1] / "static"


def read_bundle(name: str) -> str:
    """The text of a built view.

    Text, not a path: anywidget keeps every widget alive whose `_esm` is a path.
    """
    path = _STATIC / name
    try:
        return path.read_text(encoding="utf-8") + "\n"
    except FileNotFoundError:
        raise ImportError(f"{path} is missing: `make bundles` builds the views") from None


class OneWriter(ipywidgets.Widget):  # type: ignore[misc]  # ipywidgets has no types
    """A widget whose traits are written by `piweb-publisher` alone, once it is built.

    traitlets lose changes when two threads write, so the front end may not write at all: it asks,
    by messages.
    """

    def open(self) -> None:
        super().open()
        # ipykernel 7.4 hands a comm's messages to the shell that last published on it: the main
        # one, where they would wait for the cell that runs. Without a record of that, they go to
        # the subshell that the front end named.
        comm = self.comm
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = lambda data, default: default  # noqa: SLF001

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Refuse state from the front end."""
        logger.warning("the front end tried to write %s of %r", sorted(sync_data), self)


class AgentView(OneWriter, anywidget.AnyWidget):
    """A view of one session: `info` says how the agent is, messages come and go.

    What a message asks for is noted, passed on and answered later, by the publisher: a click may
    arrive on the main thread or on a subshell's, while a cell runs.
    """

    info = t.Dict(read_only=True).tag(sync=True)

    def __init__(
        self, session: AgentSession, *, key: str | None, chat: bool, pictures: Pictures | None
    ) -> None:
        self.session = session
        self.pictures = pictures
        super().__init__()
        self.on_msg(self._on_message)
        self.feed: Feed = get_publisher().attach(session, self, key=key, chat=chat)

    @t.default("info")
    def _default_info(self) -> dict[str, Any]:
        return self.describe()

    def describe(self) -> dict[str, Any]:
        """What `info` should be now. Small, and nothing secret: a saved notebook may hold it."""
        session = self.session
        return {
            "agent": session.name,
            "title": session.title,
            "lifecycle": session.lifecycle,
            "detail": session.detail,
            "closed": session.closed,
            "epoch": session.epoch,
            "busy": session.busy,
            "model": session.model,
            "changes": list(session.changes),
            "turns": get_publisher().turns(session),
        }

    def close(self) -> None:
        """Let go of the session and remove the view from every page."""
        if (feed := getattr(self, "feed", None)) is not None:
            get_publisher().detach(feed)
        layout = self.layout if self.comm is not None else None
        super().close()
        if layout is not None:
            layout.close()

    # ------------------------------------------------------------ as an output

    def paint(self) -> str:
        """What a saved notebook shows in its place, as plain HTML."""
        raise NotImplementedError  # abstract: a widget's metaclass does not go with ABCMeta

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        assert bundle is not None  # anywidget gives none for a widget without a view
        data, metadata = bundle
        return {**data, "text/html": self.paint()}, metadata

    def _ipython_display_(self) -> None:
        show(self, self.paint, self.pictures)

    # ------------------------------------------------------------ for the publisher

    def note_change(self) -> None:
        """The picture in the notebook is out of date."""
        if self.pictures is not None:
            self.pictures.note()

    def refresh(self) -> None:
        self.set_trait("info", self.describe())

    # ------------------------------------------------------------ from the pages

    def _on_message(self, _: object, content: object, __: object) -> None:
        message = decode_message(content)
        if message is None:
            logger.warning("a page sent %r something unknown: %.200r", self, content)
            return
        try:
            self.take(message)
        except PiwebError as exc:
            self.feed.tell("refused", getattr(message, "id", ""), letters.describe_error(exc))

    def _look_for_changes(self) -> None:
        self.session.look_for_changes()

    def take(self, message: PageMessage) -> None:
        """Do what a page asks for, or have it done; never wait."""
        match message:
            case Hello(page):
                self.feed.hello(page)
                # Somebody looks: it is the time to see whether the agent's files have changed.
                self.session.news.call(self._look_for_changes, key=self.session)
                if self.pictures is not None:
                    self.pictures.watch()
            case AskLogs(page):
                lines = list(self.session.log)[-LOG_LINES:]
                self.feed.post(({"kind": "logs", "to": page, "lines": lines}, []))
            case Restart():
                self.session.restart_soon()
            case Stop():
                self.session.stop_soon()
            case _:
                logger.warning("%r has no use for %r", self, message)

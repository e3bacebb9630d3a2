"""The picture beside each display of a view: what a notebook shows that is opened without a kernel.

JupyterLab has only "model not found" for a widget whose kernel is gone, so a display is two
outputs: a picture in plain HTML, hidden while there is a live view beside it, and the view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import IPython.display
from ipywidgets import Widget

from ..host.publisher import get_publisher

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = ["REPAINT_INTERVAL", "Pictures", "show"]

# Each repaint makes the notebook unsaved, so they are rare.
REPAINT_INTERVAL = 10.0

# Pictures that are kept current; older ones stay as they are.
_KEPT = 50

_display: Any = IPython.display.display  # has no types


class Pictures:
    """The pictures of one session's views, repainted now and then.

    Only once a page has been heard of: nbval and nbclient take no output that changes later, and
    there nobody looks.
    """

    def __init__(self, session: AgentSession) -> None:
        self._painted: deque[tuple[Any, Callable[[], str], str]] = deque(maxlen=_KEPT)
        self._is_watched = False
        self._feed = get_publisher().attach(session, self, interval=REPAINT_INTERVAL)

    def add(self, paint: Callable[[], str]) -> None:
        """Display a picture, here and now."""
        picture = paint()
        handle = _display({"text/html": picture}, raw=True, display_id=True)
        if handle is not None:
            self._painted.append((handle, paint, picture))

    @property
    def is_watched(self) -> bool:
        return self._is_watched

    def watch(self) -> None:
        """A page is there."""
        self._is_watched = True
        self.note()

    def note(self) -> None:
        """Something is different from what the pictures show."""
        self._feed.note_lifecycle()

    def refresh(self) -> None:
        """On `piweb-publisher`: paint again what has changed."""
        if not self._is_watched:
            return
        # Many displays of one view have one picture.
        fresh: dict[Callable[[], str], str] = {}
        for _ in range(len(self._painted)):
            handle, paint, before = self._painted.popleft()
            picture = fresh[paint] if paint in fresh else fresh.setdefault(paint, paint())
            if picture != before:
                handle.update({"text/html": picture}, raw=True)
            self._painted.append((handle, paint, picture))

    def close(self) -> None:
        get_publisher().detach(self._feed)


def show(view: Widget, paint: Callable[[], str], pictures: Pictures | None) -> None:
    """Display a view, below its picture if it has one that can be kept current."""
    if view.comm is None:
        _display({"text/plain": f"{view!r}, closed"}, raw=True)
        return
    data, metadata = _bundle_of(view)
    if pictures is not None:
        del data["text/html"]
        pictures.add(paint)
    _display(data, metadata=metadata, raw=True)


def _bundle_of(view: Widget) -> tuple[dict[str, Any], dict[str, Any]]:
    bundle = view._repr_mimebundle_()
    # anywidget gives metadata too, ipywidgets does not.
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    return {"text/html": "", **data}, metadata

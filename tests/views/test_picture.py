from __future__ import annotations

import threading
from typing import Any

import pytest

from piweb_jupyter.views import picture, view_session, view_surface
from tests.host.opening import Open
from tests.views.comms import Comms
from tests.views.page import Page

WIDGET = "application/vnd.jupyter.widget-view+json"


class Outputs:
    """What a notebook was given to show, and what of it was changed later."""

    def __init__(self, comms: Comms) -> None:
        self.comms = comms
        self.shown: list[dict[str, Any]] = []
        self.changed: list[str] = []
        self.threads: set[str] = set()

    def display(self, data: dict[str, Any], **options: Any) -> Any:
        self.shown.append(data)
        return self if options.get("display_id") else None

    def update(self, data: dict[str, Any], **options: Any) -> None:
        with self.comms.changed:
            self.changed.append(data["text/html"])
            self.threads.add(threading.current_thread().name)
            self.comms.changed.notify_all()


@pytest.fixture
def outputs(comms: Comms, monkeypatch: pytest.MonkeyPatch) -> Outputs:
    outputs = Outputs(comms)
    monkeypatch.setattr(picture, "_display", outputs.display)
    monkeypatch.setattr(picture, "REPAINT_INTERVAL", 0.01)
    return outputs


def test_a_display_is_a_picture_and_a_view(open_: Open, outputs: Outputs) -> None:
    whole = view_session(open_("counter"))
    whole._ipython_display_()
    html, view = outputs.shown
    assert list(html) == ["text/html"]
    assert view[WIDGET]["model_id"] == whole.model_id
    assert view["text/plain"] == "<PiwebView of counter>"
    assert "text/html" not in view


def test_without_a_page_the_picture_is_always_the_same_and_never_changes(
    open_: Open, outputs: Outputs
) -> None:
    session = open_("counter", ready=False)
    whole = view_session(session)
    whole._ipython_display_()
    session.wait_ready(30).surface("demo").run("increment")
    whole._ipython_display_()
    assert outputs.shown[0] == outputs.shown[2]
    assert "an agent, its chat and its surfaces" in outputs.shown[0]["text/html"]
    assert outputs.changed == []


def test_once_a_page_looks_the_picture_follows_the_state(
    open_: Open, outputs: Outputs, comms: Comms
) -> None:
    session = open_("counter")
    view_session(session)._ipython_display_()
    page = Page(comms, view_surface(session, "demo"))
    page.hello()
    page.wait_result(page.click("increment"))
    comms.wait(lambda: outputs.changed and "<code>1</code>" in outputs.changed[-1])
    assert "rev 1, agent offline" in outputs.changed[-1]
    assert outputs.threads == {"piweb-publisher"}


def test_a_picture_that_has_not_changed_is_not_sent_again(
    open_: Open, outputs: Outputs, comms: Comms
) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    for _ in range(3):
        view._ipython_display_()
    page = Page(comms, view)
    page.hello()
    page.wait_result(page.click("increment"))
    comms.wait(lambda: len(outputs.changed) == 3)
    assert len(set(outputs.changed)) == 1
    page.wait_result(page.click("echo"))
    page.wait_result(page.click("increment"))
    comms.wait(lambda: len(outputs.changed) == 6)


def test_a_closed_view_says_that_it_is_closed(open_: Open, outputs: Outputs) -> None:
    view = view_surface(open_("counter"), "demo")
    view.close()
    view._ipython_display_()
    assert outputs.shown == [{"text/plain": "<SurfaceView demo of counter>, closed"}]

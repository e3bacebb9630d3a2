"""Views without a kernel, on real agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.host.opening import Open, opener
from tests.views.comms import Comms


@pytest.fixture
def comms(monkeypatch: pytest.MonkeyPatch) -> Comms:
    comms = Comms()
    monkeypatch.setattr("comm.create_comm", comms.create)
    return comms


@pytest.fixture
def open_(comms: Comms) -> Iterator[Open]:
    """Opens the agents of `tests/agents`; their views are closed with them."""
    from piweb_jupyter.views import close_views

    with opener() as open_:
        opened = []

        def remember(*args: str, **options: bool) -> object:
            opened.append(open_(*args, **options))
            return opened[-1]

        yield remember  # type: ignore[misc]
        for session in opened:
            close_views(session)

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from piweb_jupyter.host.pump import get_pump
from tests.session.conftest import Run

PATIENCE = 90.0


@contextmanager
def paused_host() -> Iterator[None]:
    """The host reads nothing for 4 s, or until the block ends."""
    gate = threading.Event()

    def pause() -> None:
        gate.wait(4.0)

    get_pump().call_soon(pause)
    try:
        yield
    finally:
        gate.set()


@pytest.mark.parametrize("pause", [False, True], ids=["reading", "paused"])
@pytest.mark.parametrize(
    ("times", "size"), [(5_000, 1_000), (1_000, 60_000), (100, 1_000_000)], ids=["1K", "60K", "1M"]
)
def test_a_burst_arrives_whole(run: Run, times: int, size: int, pause: bool) -> None:
    session = run("busy_agent")
    surface = session.surface("load")
    command = surface.submit("burst", times=times, size=size, timeout=PATIENCE)
    if pause:
        with paused_host(), pytest.raises(TimeoutError):
            command.result(3.9)
    assert command.result(PATIENCE) == times
    state = surface.state
    assert (state["n"], len(state["pad"])) == (times - 1, size)
    assert surface.rev == times
    assert session.mirror.gaps == 0
    assert session.state["load.mark"] == (times - 1) // 100 * 100
    assert [line for line in session.log if "skipped" in line] == []


def test_a_result_of_ten_megabytes_arrives_whole(run: Run) -> None:
    session = run("busy_agent")
    command = session.surface("load").submit("result", size=10_000_000, timeout=PATIENCE)
    with paused_host():
        pass
    assert len(command.result(PATIENCE)) == 10_000_000

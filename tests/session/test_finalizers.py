"""Finalizers of an author that set states in the middle of ours."""

from __future__ import annotations

from tests.session.conftest import Run

PATIENCE = 60.0


def test_finalizers_that_set_states_hold_nothing_up_and_every_state_has_its_revision(
    run: Run,
) -> None:
    session = run("littering_agent")
    surface = session.surface("demo")
    for _ in range(15):
        told = surface.submit("work", times=5000).result(PATIENCE)
        assert surface.rev == told["calls"]["state"]
        assert surface.state == told["state"]
    assert told["calls"]["session"] == 75_000
    assert session.state["finalized"] == told["calls"]["session"]
    assert session.mirror.gaps == 0
    assert not [line for line in session.log if "ignored" in line]

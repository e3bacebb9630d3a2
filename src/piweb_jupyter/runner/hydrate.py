"""Bringing a surface's state from where it is kept, within a bound."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from .loop import LoopThread
from .report import report_failure, say
from .surface_state import SurfaceState

__all__ = ["HYDRATE_DEADLINE", "start_hydrate"]

# Seconds that commands wait for a surface's hydrate; it may go on, and then changes nothing that
# a command has done.
HYDRATE_DEADLINE = 5.0


def start_hydrate(
    function: Callable[[], Any],
    domain: str,
    state: SurfaceState,
    loop: LoopThread,
    open_gate: Callable[[], None],
) -> None:
    """Run `function`. When it has ended, or the deadline has, show the state and open the gate."""
    settled = threading.Event()

    def take(bring: Callable[[], Any]) -> None:
        try:
            state.take_hydrated(bring())
        except BaseException as exc:
            report_failure(f"surface `{domain}`: hydrate failed", exc)
        finally:
            settled.set()

    def run() -> None:
        try:
            value = function()
        except BaseException as exc:
            report_failure(f"surface `{domain}`: hydrate failed", exc)
            settled.set()
            return
        if type(value) is CoroutineType:
            loop.run(value).add_done_callback(lambda done: take(done.result))
        else:
            take(lambda: value)

    def wait() -> None:
        if not settled.wait(HYDRATE_DEADLINE):
            say(
                f"surface `{domain}`: hydrate has not ended after {HYDRATE_DEADLINE:g} s; "
                "commands run on the initial state"
            )
        state.show()
        open_gate()

    for work, name in ((run, "hydrate"), (wait, "hydrate-wait")):
        thread = threading.Thread(target=work, name=f"piweb-agent-{name}-{domain}", daemon=True)
        thread.start()

"""Makes garbage whose finalizers set states, wherever the collector happens to run."""

from __future__ import annotations

import gc
from typing import Any

from piweb_jupyter.agent import Context, create_surface, define_agent, get_session_state

State = dict[str, int]
demo = create_surface("demo", {"worked": 0, "collected": 0})
calls = {"state": 0, "session": 0}


def count(ctx: Context[State], name: str) -> None:
    calls["state"] += 1
    ctx.set_state(lambda state: {**state, name: state[name] + 1})


class Litter:
    def __init__(self, ctx: Context[State]) -> None:
        self.ctx = ctx
        self.myself = self

    def __del__(self) -> None:
        count(self.ctx, "collected")
        calls["session"] += 1
        get_session_state().set("finalized", calls["session"])


@demo.command
def work(ctx: Context[State], times: int) -> dict[str, Any]:
    for _ in range(times):
        Litter(ctx)
        count(ctx, "worked")
    gc.collect()
    return {"calls": calls, "state": ctx.get()}


agent = define_agent(surfaces=[demo])

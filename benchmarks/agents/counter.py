"""Counts, and carries as much weight as it is told to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from piweb_jupyter.agent import Context, create_surface, define_agent

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.work import make_pad

State = dict[str, Any]
demo = create_surface("demo", {"counter": 0})


def _count(ctx: Context[State], by: int, size: int) -> State:
    def add(state: State) -> State:
        counted = {"counter": state["counter"] + by}
        return {**counted, "pad": make_pad(size)} if size else counted

    return {"counter": ctx.set_state(add)["counter"]}


@demo.command
def increment(ctx: Context[State], by: int = 1, size: int = 0) -> State:
    return _count(ctx, by, size)


@demo.command
async def increment_async(ctx: Context[State], by: int = 1, size: int = 0) -> State:
    return _count(ctx, by, size)


@demo.command
def push(ctx: Context[State], count: int) -> None:
    def add(state: State) -> State:
        return {"counter": state["counter"] + 1}

    for _ in range(count):
        ctx.set_state(add)


agent = define_agent(surfaces=[demo])

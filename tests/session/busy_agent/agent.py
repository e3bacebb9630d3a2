"""An agent that tests load: a shared count, bursts of states of any size, large results."""

from __future__ import annotations

from typing import Any

from piweb_jupyter.agent import Context, create_surface, define_agent, get_session_state, ui

demo = create_surface("demo", {"count": 0, "by": {}})
load = create_surface("load", {"n": -1, "pad": ""})


@demo.command
def increment(ctx: Context[dict[str, Any]], by: int = 1) -> dict[str, int]:
    """Add to the count, and to the caller's share of it."""

    def add(state: dict[str, Any]) -> dict[str, Any]:
        mine = state["by"].get(ctx.actor, 0) + by
        return {"count": state["count"] + by, "by": {**state["by"], ctx.actor: mine}}

    return {"count": ctx.set_state(add)["count"]}


@demo.command
async def increment_slowly(ctx: Context[dict[str, Any]], by: int = 1) -> int:
    """The same across an await, which must not lose what others do meanwhile."""
    import asyncio

    before = ctx.get()["count"]
    await asyncio.sleep(0)
    state = ctx.set_state(lambda s: {**s, "count": before + by})
    return int(state["count"])


@demo.command(concurrent=True)
async def ask(ctx: Context[dict[str, Any]]) -> str | None:
    """Ask the person's name."""
    return await ui.input("Name?")


@load.command
def burst(ctx: Context[dict[str, Any]], times: int, size: int) -> int:
    """Send that many states of that many bytes."""
    pad = "x" * size
    for n in range(times):
        ctx.set_state({"n": n, "pad": pad})
        if n % 100 == 0:
            get_session_state().set("load.mark", n)
    return times


@load.command
def result(ctx: Context[dict[str, Any]], size: int) -> str:
    """A result of that many bytes."""
    return "r" * size


agent = define_agent(model="stub", surfaces=[demo, load])

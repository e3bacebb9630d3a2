"""One surface of a megabyte that changes thirty times a second, until it is told to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from piweb_jupyter.agent import Context, create_surface, define_agent

PACE = 1 / 30
ROWS = [{"name": f"row {number:05}", "text": "x" * 60} for number in range(10_000)]

large = create_surface("large", {"count": 0, "rows": ROWS})


@large.command(llm=False)
async def go(ctx: Context[dict[str, Any]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            ctx.set_state(lambda s: {**s, "count": s["count"] + 1})
            due += PACE
            await asyncio.sleep(max(0, due - loop.time()))

    ctx.spawn(run())


@large.command(concurrent=True, llm=False)
async def halt(ctx: Context[dict[str, Any]]) -> int:
    """The last count: nothing changes any more."""
    ctx.cancel_spawned()
    await asyncio.sleep(0)
    return int(ctx.get()["count"])


agent = define_agent(model="stub", surfaces=[large])

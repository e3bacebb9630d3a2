"""Fifty surfaces that all change at once, thirty times a second, until they are told to stop."""

from __future__ import annotations

import asyncio

from piweb_jupyter.agent import Context, Surface, create_surface, define_agent

PACE = 1 / 30

surfaces: list[Surface[dict[str, int]]] = [
    create_surface(f"s{number:02}", {"count": 0}) for number in range(50)
]


@surfaces[0].command(llm=False)
async def go(ctx: Context[dict[str, int]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        due, count = loop.time(), 0
        while True:
            count += 1
            for surface in surfaces:
                surface.update({"count": count})
            due += PACE
            await asyncio.sleep(max(0, due - loop.time()))

    ctx.spawn(run())


@surfaces[0].command(concurrent=True, llm=False)
async def halt(ctx: Context[dict[str, int]]) -> int:
    """The last count: nothing changes any more."""
    ctx.cancel_spawned()
    await asyncio.sleep(0)
    return ctx.get()["count"]


agent = define_agent(model="stub", surfaces=surfaces)

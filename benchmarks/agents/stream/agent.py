"""Counts clicks, and streams states at a rate: what the browser's figures are made with."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from piweb_jupyter.agent import Context, create_surface, define_agent

sys.path.insert(0, str(Path(__file__).parents[3]))
from benchmarks.work import make_pad

State = dict[str, Any]
demo = create_surface("demo", {"count": 0, "sent": 0, "at": 0.0, "done": False, "pad": []})


@demo.command
def bump(ctx: Context[State]) -> None:
    ctx.set_state(lambda state: {**state, "count": state["count"] + 1})


@demo.command
async def stream(ctx: Context[State], count: int, rate: float, size: int) -> None:
    """Sends `count` states of `size` bytes, `rate` in a second; each says when it was sent."""
    begin = time.perf_counter()
    for number in range(1, count + 1):
        await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        news = {"sent": number, "at": time.time() * 1000, "done": number == count}
        ctx.set_state({**ctx.get(), **news, "pad": make_pad(size)})


agent = define_agent(model="stub", surfaces=[demo])

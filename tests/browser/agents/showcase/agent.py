"""An agent that shows whatever the browser tests ask for."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from piweb_jupyter.agent import Context, create_surface, define_agent


class Stage(BaseModel):
    count: int = 0
    told: list[str] = []
    more: dict[str, Any] = {}


stage = create_surface("stage", Stage, title="Stage")


@stage.command
def increment(ctx: Context[Stage], by: Annotated[int, Field(ge=1, le=100)] = 1) -> int:
    """Add to the count."""
    return ctx.set_state(lambda s: s.model_copy(update={"count": s.count + by})).count


@stage.command
def bump(ctx: Context[Stage]) -> int:
    """Add one."""
    return ctx.set_state(lambda s: s.model_copy(update={"count": s.count + 1})).count


@stage.command
def tell(
    ctx: Context[Stage],
    text: str,
    color: Literal["red", "green"] = "red",
    loud: bool = False,
    times: list[int] | None = None,
) -> str:
    """Write a line."""
    line = f"{text} {color} {loud} {times}"
    ctx.set_state(lambda s: s.model_copy(update={"told": [*s.told, line]}))
    return line


@stage.command
def show(ctx: Context[Stage], value: dict[str, Any]) -> None:
    """Show any value."""
    ctx.set_state(lambda s: s.model_copy(update={"more": value}))


@stage.command(concurrent=True)
async def hold(ctx: Context[Stage], seconds: float = 600) -> str:
    """Take long, unless it is cancelled."""
    await asyncio.sleep(seconds)
    return "held"


@stage.command(confirm="Really forget everything?")
def forget(ctx: Context[Stage]) -> None:
    """Start over."""
    ctx.set_state(Stage())


@stage.command
def stream(ctx: Context[Stage], states: int = 200, pace: float = 0.02, size: int = 0) -> None:
    """Count by itself for a while."""

    async def run() -> None:
        padding = {"padding": "x" * size} if size else {}
        for _ in range(states):
            await asyncio.sleep(pace)
            ctx.set_state(lambda s: s.model_copy(update={"count": s.count + 1, "more": padding}))

    ctx.spawn(run())


agent = define_agent(system_prompt="You show things.", model="stub", surfaces=[stage])

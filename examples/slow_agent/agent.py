"""Work that takes its time: accepted at once, progress in the state, cancelled while it runs."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from piweb_jupyter.agent import Context, create_surface, define_agent


class Job(BaseModel):
    name: str
    step: int = 0
    steps: int
    status: str = "running"


class Work(BaseModel):
    jobs: list[Job] = []
    thinking: bool = False


work = create_surface("work", Work, title="Work")


def put(state: Work, place: int, **changed: int | str) -> Work:
    jobs = [*state.jobs]
    jobs[place] = jobs[place].model_copy(update=changed)
    return state.model_copy(update={"jobs": jobs})


@work.command
def start(
    ctx: Context[Work],
    name: str = "job",
    steps: Annotated[int, Field(ge=1, le=1000)] = 20,
    pace: Annotated[float, Field(ge=0, le=10)] = 0.1,
) -> dict[str, int]:
    """Begin a job of so many steps, `pace` seconds each, and return at once."""
    job = Job(name=name, steps=steps)
    state = ctx.set_state(lambda s: s.model_copy(update={"jobs": [*s.jobs, job]}))
    place = len(state.jobs) - 1

    async def run() -> None:
        try:
            for step in range(1, steps + 1):
                await asyncio.sleep(pace)
                ctx.set_state(lambda s: put(s, place, step=step))  # noqa: B023 - called at once
        except asyncio.CancelledError:
            ctx.set_state(lambda s: put(s, place, status="cancelled"))
            raise
        ctx.set_state(lambda s: put(s, place, status="done"))

    ctx.spawn(run())
    return {"job": place}


@work.command
async def think(
    ctx: Context[Work], seconds: Annotated[float, Field(ge=0, le=600)] = 5
) -> dict[str, bool]:
    """Hold the caller for so long, unless the command is cancelled."""
    ctx.set_state(lambda s: s.model_copy(update={"thinking": True}))
    try:
        await asyncio.sleep(seconds)
    finally:
        ctx.set_state(lambda s: s.model_copy(update={"thinking": False}))
    return {"thought": True}


@work.command(concurrent=True)
def cancel(ctx: Context[Work]) -> dict[str, int]:
    """End every job that runs."""
    return {"ended": ctx.cancel_spawned()}


agent = define_agent(
    system_prompt="You run jobs. Start them with a tool and say how they go.",
    model="stub",  # answers without a key; name another with --model provider:name
    surfaces=[work],
)

"""Counts in a pydantic state, as the README's first agent does."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from piweb_jupyter.agent import Context, create_surface, define_agent


class Demo(BaseModel):
    counter: int = 0
    log: list[str] = []


demo = create_surface("demo", Demo, title="Counter")


@demo.command
def increment(ctx: Context[Demo], by: Annotated[int, Field(ge=1, le=100)] = 1) -> dict[str, int]:
    """Add to the counter."""
    state = ctx.set_state(lambda s: s.model_copy(update={"counter": s.counter + by}))
    return {"counter": state.counter}


agent = define_agent(surfaces=[demo])

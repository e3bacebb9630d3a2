"""A counter that a person, the model and a notebook cell share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from piweb_jupyter.agent import Context, create_surface, define_agent


class Counter(BaseModel):
    count: int = 0
    log: list[str] = []


demo = create_surface("demo", Counter, title="Counter", view="view.js", css="view.css")


def note(counter: Counter, count: int, line: str) -> Counter:
    return Counter(count=count, log=[*counter.log, line][-20:])


@demo.command
def increment(ctx: Context[Counter], by: Annotated[int, Field(ge=1, le=100)] = 1) -> dict[str, int]:
    """Add to the counter."""
    counter = ctx.set_state(lambda c: note(c, c.count + by, f"+{by} by {ctx.actor}"))
    return {"count": counter.count}


@demo.command
def echo(ctx: Context[Counter], text: str) -> str:
    """Write a line into the log, and say it back."""
    ctx.set_state(lambda c: note(c, c.count, text))
    return text


@demo.command
def reset(ctx: Context[Counter]) -> dict[str, int]:
    """Set the counter back to zero and forget the log."""
    ctx.set_state(Counter())
    return {"count": 0}


agent = define_agent(
    system_prompt="You keep a counter. Use your tools to change it, then say what it shows.",
    model="stub",  # answers without a key; name another with --model provider:name
    surfaces=[demo],
)

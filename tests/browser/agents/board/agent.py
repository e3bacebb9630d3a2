"""A surface with one command of every kind that a person can press, drawn by the generic view."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from piweb_jupyter.agent import Context, SurfaceCommandError, create_surface, define_agent, ui


class Board(BaseModel):
    count: int = 0
    rows: list[str] = ["first", "second"]
    holding: int = 0
    answers: list[str] = []


board = create_surface("board", Board, title="Board")
releases: list[asyncio.Event] = []


def hold_more(state: Board, change: int) -> Board:
    return state.model_copy(update={"holding": state.holding + change})


@board.command
def add(ctx: Context[Board], by: Annotated[int, Field(ge=1, le=100)] = 1) -> dict[str, int]:
    """Add to the count."""
    state = ctx.set_state(lambda s: s.model_copy(update={"count": s.count + by}))
    return {"count": state.count}


@board.command
def append(
    ctx: Context[Board],
    text: Annotated[str, Field(min_length=3)],
    place: Literal["top", "bottom"] = "bottom",
) -> None:
    """Write a row."""
    ctx.set_state(
        lambda s: s.model_copy(
            update={"rows": [text, *s.rows] if place == "top" else [*s.rows, text]}
        )
    )


@board.command
def fill(ctx: Context[Board]) -> None:
    """Never succeeds."""
    raise SurfaceCommandError("full", "there is no room for more")


@board.command(confirm="Remove every row?")
def wipe(ctx: Context[Board]) -> None:
    ctx.set_state(lambda s: s.model_copy(update={"rows": []}))


@board.command(guard=True)
def remove(ctx: Context[Board]) -> None:
    """Take the first row away: that of the state which the person saw, or none."""
    ctx.set_state(lambda s: s.model_copy(update={"rows": s.rows[1:]}))


@board.command
async def hold(ctx: Context[Board]) -> str:
    """Wait for `release`."""
    released = asyncio.Event()
    releases.append(released)
    ctx.set_state(lambda s: hold_more(s, 1))
    try:
        await released.wait()
    finally:
        ctx.set_state(lambda s: hold_more(s, -1))
    return "released"


@board.command(concurrent=True)
async def release(ctx: Context[Board]) -> None:
    for event in releases:
        event.set()
    releases.clear()


@board.command(concurrent=True, llm=False)
async def ask(ctx: Context[Board], method: str) -> str:
    """Ask the person, and keep the answer."""
    match method:
        case "select":
            answer: object = await ui.select("Which colour?", ["red", "green"])
        case "confirm":
            answer = await ui.confirm("Go on?", "It cannot be undone.")
        case "input":
            answer = await ui.input("Your name?", "first and last")
        case _:
            answer = await ui.editor("Your text?", "a first draft")
    ctx.set_state(lambda s: s.model_copy(update={"answers": [*s.answers, repr(answer)]}))
    return repr(answer)


@board.command(concurrent=True, llm=False)
async def stream(ctx: Context[Board], pace: Annotated[float, Field(ge=0, le=1)] = 0.05) -> None:
    """Count by itself until `calm`."""

    async def run() -> None:
        while True:
            ctx.set_state(lambda s: s.model_copy(update={"count": s.count + 1}))
            await asyncio.sleep(pace)

    ctx.spawn(run())


@board.command(concurrent=True, llm=False)
def calm(ctx: Context[Board]) -> None:
    ctx.cancel_spawned()


agent = define_agent(system_prompt="You look after a board.", model="stub", surfaces=[board])

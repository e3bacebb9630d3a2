"""One field, many hands: clicks, tool calls, threads, spawned work and cancels in random order."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from piweb_jupyter.agent import Context, Surface, create_surface, define_agent
from piweb_jupyter.runner.outcome import Outcome
from piweb_jupyter.runner.runtime import Runtime
from piweb_jupyter.runner.writer import Writer
from piweb_jupyter.wire.frames import decode_frame
from piweb_jupyter.wire.host_frames import SurfaceCommand
from piweb_jupyter.wire.lines import LineSplitter
from tests.agent.child import PATIENCE

# 34 runs of 3 threads with 10 commands each: 1,020 commands meet in random order.
SEEDS = range(34)
COMMANDS = 10


@pytest.fixture(autouse=True)
def hectic_switching() -> Iterator[None]:
    """Threads take turns a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def make_surface() -> Surface[dict[str, Any]]:
    """A surface whose commands break each other's work if two of them ever run at once."""
    field = create_surface("field", {"ledger": [], "beside": 0})

    def read(ctx: Context[dict[str, Any]]) -> list[str]:
        ledger: list[str] = ctx.get()["ledger"]
        return ledger

    def write(ctx: Context[dict[str, Any]], ledger: list[str]) -> None:
        ctx.set_state(lambda s: {**s, "ledger": ledger})

    @field.command
    def add(ctx: Context[dict[str, Any]], tag: str) -> int:
        ledger = read(ctx)
        write(ctx, [*ledger, tag])
        return len(ledger) + 1

    @field.command
    async def add_slowly(ctx: Context[dict[str, Any]], tag: str, pauses: int) -> int:
        ledger = read(ctx)
        for _ in range(pauses):
            await asyncio.sleep(0)
        write(ctx, [*ledger, tag])
        return len(ledger) + 1

    @field.command(concurrent=True)
    def beside(ctx: Context[dict[str, Any]], tag: str) -> None:
        ctx.set_state(lambda s: {**s, "beside": s["beside"] + 1})

    @field.command(concurrent=True)
    async def beside_later(ctx: Context[dict[str, Any]], tag: str) -> None:
        await asyncio.sleep(0)
        ctx.set_state(lambda s: {**s, "beside": s["beside"] + 1})

    @field.command
    def spawn(ctx: Context[dict[str, Any]], tag: str) -> None:
        async def work() -> None:
            await asyncio.sleep(0)
            ctx.set_state(lambda s: {**s, "beside": s["beside"] + 1})

        ctx.spawn(work())

    @field.command(guard=True)
    def guarded(ctx: Context[dict[str, Any]], tag: str) -> None:
        write(ctx, [*read(ctx), tag])

    return field


class Host:
    """The other end of the pipe: keeps every frame, and looks that states come in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.frames: list[Any] = []
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        splitter = LineSplitter()
        while chunk := os.read(self._fd, 65536):
            self.frames += [decode_frame(line) for line in splitter.feed(chunk)]
        assert splitter.flush() is None
        os.close(self._fd)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_field_that_many_change_at_once_ends_as_its_answers_say(seed: int) -> None:
    source, sink = os.pipe()
    host = Host(source)
    field = make_surface()
    writer = Writer(sink)
    runtime = Runtime(define_agent(surfaces=[field]), str(Path("agent.py")), writer)
    runtime.surfaces.start()
    settled = threading.Semaphore(0)
    outcomes: dict[str, Outcome] = {}

    def as_host(chance: random.Random, tag: str, action: str, args: dict[str, Any]) -> None:
        """What the reader does for a click."""
        rev = runtime.store.rev("surface:field") if action == "guarded" else None
        runtime.surfaces.handle(SurfaceCommand(tag, "field", action, args, "user", rev))
        if chance.random() < 0.2:
            runtime.surfaces.cancel(tag)

    def as_caller(chance: random.Random, tag: str, action: str, args: dict[str, Any]) -> None:
        """What a tool call does, from the loop or from any other thread."""
        outcome = runtime.surfaces.dispatch("field", action, args, actor="llm", correlation_id=tag)
        outcomes[tag] = outcome
        outcome.add_done_callback(lambda _: settled.release())
        if chance.random() < 0.2:
            outcome.cancel()

    def work(name: str, how: Any) -> list[tuple[str, str]]:
        chance = random.Random(f"{seed} {name}")
        sent = []
        for number in range(COMMANDS):
            action = chance.choice(
                ["add", "add_slowly", "beside", "beside_later", "spawn", "guarded"]
            )
            tag = f"{name}{number}"
            args: dict[str, Any] = {"tag": tag}
            if action == "add_slowly":
                args["pauses"] = chance.randrange(3)
            how(chance, tag, action, args)
            sent.append((tag, action))
        return sent

    sent: dict[str, str] = {}
    on_loop = threading.Event()

    def loop_work() -> None:
        sent.update(work("tool", as_caller))
        on_loop.set()

    threads = [
        threading.Thread(target=lambda: sent.update(work("click", as_host))),
        threading.Thread(target=lambda: sent.update(work("thread", as_caller))),
    ]
    runtime.loop.call(loop_work)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert on_loop.wait(PATIENCE)
    for _ in range(2 * COMMANDS):
        assert settled.acquire(timeout=PATIENCE)
    # Everything of the host is answered once a last command of its own has been.
    last = runtime.surfaces.dispatch("field", "add", {"tag": "last"}, actor="cell")
    done = threading.Event()
    last.add_done_callback(lambda _: done.set())
    assert done.wait(PATIENCE)
    runtime.loop.run(_until_idle()).result(PATIENCE)
    final = runtime.store.get("surface:field")
    assert runtime.loop.close(PATIENCE)
    os.close(sink)
    host.thread.join(PATIENCE)

    states = [f for f in host.frames if type(f).__name__ == "StateFrame"]
    results = [f for f in host.frames if type(f).__name__ == "CommandResult"]
    answers = {result.correlation_id: result for result in results}
    codes = {tag: outcome.code for tag, outcome in outcomes.items()}
    codes |= {tag: answer.code for tag, answer in answers.items()}
    clicks = {tag for tag in sent if tag.startswith("click")}
    assert set(answers) == clicks
    assert len(results) == len(clicks)
    assert set(codes) == set(sent)
    assert set(codes.values()) <= {"", "cancelled", "stale"}

    # What the host ends with is what the agent has, and rev rises by one each time.
    assert states[-1].value == final == field.state
    assert [state.rev for state in states] == list(range(len(states)))

    # Every command that said it was done has left its mark once, and no other has.
    marked = Counter(final["ledger"])
    for tag, action in sent.items():
        if action in ("add", "add_slowly", "guarded"):
            assert marked[tag] == (codes[tag] == ""), (tag, action, codes[tag])
    at_least = sum(
        codes[tag] == "" for tag, action in sent.items() if action in ("beside", "beside_later")
    )
    at_most = at_least + sum(action == "spawn" for action in sent.values())
    assert at_least <= final["beside"] <= at_most

    # An answer comes after the states of its command.
    place = {id(frame): index for index, frame in enumerate(host.frames)}
    for state in states:
        tag = state.cause.correlation_id if state.cause is not None else ""
        if tag in answers and sent[tag] != "spawn":
            assert place[id(state)] < place[id(answers[tag])], tag


async def _until_idle() -> None:
    """Let every task that is there end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)

"""Fifty agents in one kernel: one I/O thread, what they cost together, and what they cost idle."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import psutil

from piweb_jupyter.host.command import Command
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.host.surface import Surface

from .peers.base import cpu_ns
from .peers.piweb import AGENTS, launch
from .report import Figure, at_least, at_most, note
from .visits import Comparison, Scale, summarise

__all__ = ["measure"]


def measure(scale: Scale) -> Iterator[Figure]:
    number = scale.count(50, 3)
    with ExitStack() as stack:
        begin = time.perf_counter()
        sessions = [launch(AGENTS / "counter.py", f"agent-{n}") for n in range(number)]
        for session in sessions:
            stack.callback(session.close_soon)
        for session in sessions:
            session.wait_ready()
        ready = time.perf_counter() - begin
        yield note("many", f"{number} agents started at once, all ready", ready, "s")
        threads = [t.name for t in threading.enumerate() if t.name == "piweb-io"]
        yield at_most("many", f"I/O threads for {number} agents", len(threads), 1, "")
        rounds = scale.count(40, 2)
        found = _against_one(_rate_of_each, sessions, rounds, scale)
        yield at_least("many", f"{number} agents at work, calls/s / one agent", found, 0.7)
        yield note("many", "  calls per second in this run", found.b, "/s", _rates(found, number))
        found = _against_one(_rate_of_caller, sessions, rounds, scale)
        yield note("many", "  the same, one thread waits for them in turn", found)
        yield note("many", "  calls per second in this run", found.b, "/s", _rates(found, number))
        yield from _idle(scale, sessions)
        begin = time.perf_counter()
    closed = time.perf_counter() - begin
    for session in sessions:
        session.close()
    yield at_most(
        "many", f"{number} agents closed", max(closed, time.perf_counter() - begin), 6, "s"
    )


_Rate: TypeAlias = Callable[[list[AgentSession], int], float]


def _against_one(
    rate: _Rate, sessions: list[AgentSession], rounds: int, scale: Scale
) -> Comparison:
    alone, more = sessions[:1], rounds * len(sessions) // 2
    rate(sessions, rounds)
    rate(alone, rounds)
    return summarise(
        [
            (rate(alone, more), rate(sessions, rounds))
            if turn % 2
            else (rate(sessions, rounds), rate(alone, more))[::-1]
            for turn in range(scale.pairs)
        ]
    )


def _rates(found: Comparison, number: int) -> str:
    return f"one {found.a:,.0f}/s, {number} {found.b:,.0f}/s"


def _rate_of_each(sessions: list[AgentSession], rounds: int) -> float:
    """Calls per second with one on its way per agent, each answer making the next one: agents
    that are at work on their own.
    """
    ended = threading.Semaphore(0)

    def keep_going(surface: Surface) -> None:
        left = rounds

        def go_on(command: Command) -> None:
            nonlocal left
            command.result()
            left -= 1
            if left:
                surface.submit("increment", by=1).add_done_callback(go_on)
            else:
                ended.release()

        surface.submit("increment", by=1).add_done_callback(go_on)

    begin = time.perf_counter()
    for session in sessions:
        keep_going(session.surface("demo"))
    for session in sessions:
        if not ended.acquire(timeout=60):
            raise RuntimeError(f"{session.name} has not answered")
    return rounds * len(sessions) / (time.perf_counter() - begin)


def _rate_of_caller(sessions: list[AgentSession], rounds: int) -> float:
    """Calls per second with one on its way per agent, from one thread that waits for each."""
    surfaces = [session.surface("demo") for session in sessions]
    begin = time.perf_counter()
    for _ in range(rounds):
        for command in [surface.submit("increment", by=1) for surface in surfaces]:
            command.result()
    return rounds * len(sessions) / (time.perf_counter() - begin)


def _idle(scale: Scale, sessions: list[AgentSession]) -> Iterator[Figure]:
    """CPU of everything of ours in the kernel and around it while nobody does anything."""
    seconds = scale.count(4, 1)
    agents = {session.pid for session in sessions}
    wardens = [p.pid for p in psutil.Process().children() if p.pid not in agents]
    time.sleep(seconds / 2)
    before = [cpu_ns(os.getpid()), *(cpu_ns(pid) for pid in wardens)]
    time.sleep(seconds)
    after = [cpu_ns(os.getpid()), *(cpu_ns(pid) for pid in wardens)]
    spent = (sum(after) - sum(before)) / 1e6 / seconds
    detail = "the kernel's process and the warden"
    yield at_most("many", f"{len(sessions)} idle agents, CPU per second", spent, 2, "ms", detail)

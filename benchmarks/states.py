"""What a state costs on its way: large ones in answers, small ones pushed, lines cut from bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from piweb_jupyter.wire.lines import LineSplitter

from .report import Figure, at_least, at_most, note
from .visits import (
    Scale,
    Visited,
    compare,
    cpu_agent,
    cpu_total,
    median_latency,
    summarise,
    time_each,
)

__all__ = ["measure"]

_KB, _MB = 1_000, 1_000_000


def measure(scale: Scale) -> Iterator[Figure]:
    with Visited("floor") as floor, Visited("piweb:increment") as ours:
        for size, name, pairs in ((60 * _KB, "60 KB", 24), (_MB, "1 MB", 12)):
            measures = {"p50": median_latency, "cpu": cpu_total}
            less = scale.at_most(pairs)
            found = compare(floor, ours, "sequence", measures, less, size=size)
            yield at_most(
                "states", f"a command that makes a {name} state, p50 / floor", found["p50"], 1.4
            )
            yield note("states", "  CPU of host and agent / floor", found["cpu"])
        measures = {"cpu": cpu_agent, "time": time_each}
        found = compare(floor, ours, "push", measures, scale, count=scale.count(20_000, 50))
        yield at_most(
            "states", "pushing small states, the agent's CPU per state / floor", found["cpu"], 2
        )
        rate = f"floor {1e9 / found['time'].a:,.0f}/s"
        yield at_least("states", "pushing small states", 1e9 / found["time"].b, 100_000, "/s", rate)
    yield from _framing(scale)


def _framing(scale: Scale) -> Iterator[Figure]:
    """CPU of cutting, against one `split` of everything at once.

    Not against a tenth of itself: ten times the memory costs more than ten times as much, whoever
    touches it. Linear is what stays as near to one split at 10 MB as at 1 MB.
    """
    whole = scale.count(10 * _MB, 100 * _KB)
    cases = (
        ("a 1 MB line in 64 KB chunks", whole // 10, 1, 64 * 1024),
        ("a 10 MB line in 64 KB chunks", whole, 1, 64 * 1024),
        ("a 10 MB line in 4 KB chunks", whole, 1, 4 * 1024),
        ("100,000 lines of 100 bytes in 64 KB chunks", 100, whole // 100, 64 * 1024),
    )
    for name, length, lines, chunk in cases:
        data = (b"x" * (length - 1) + b"\n") * lines
        chunks = [data[i : i + chunk] for i in range(0, len(data), chunk)]
        pairs = [
            (_cpu(partial(_split, chunks)), _cpu(partial(_cut, chunks)))
            for _ in range(scale.at_most(12).pairs)
        ]
        yield at_most("states", f"framing {name} / one split", summarise(pairs), 2)


def _split(chunks: list[bytes]) -> int:
    return len(b"".join(chunks).split(b"\n"))


def _cut(chunks: list[bytes]) -> int:
    splitter = LineSplitter()
    return sum(len(splitter.feed(chunk)) for chunk in chunks)


def _cpu(fn: Callable[[], object]) -> float:
    begin = time.thread_time_ns()
    fn()
    return float(time.thread_time_ns() - begin)

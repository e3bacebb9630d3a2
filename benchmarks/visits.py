"""How two peers are compared on a machine whose speed changes every second.

Each is visited for a few hundredths of a second, in turn, in the order A B B A. The ratio is taken
within each pair of neighbouring visits, and the median of those ratios is the figure: what slows
the machine down slows both visits of a pair. Microseconds of one peer alone mean little here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

__all__ = [
    "Comparison",
    "Scale",
    "Visited",
    "compare",
    "cpu_agent",
    "cpu_total",
    "median_latency",
    "time_each",
]

Answer: TypeAlias = dict[str, Any]
Measure: TypeAlias = Callable[[Answer], float]

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Scale:
    """How much is done: enough for a figure, or just enough to see that a benchmark still runs."""

    pairs: int = 24
    visit: float = 0.04
    tiny: bool = False

    def at_most(self, pairs: int) -> Scale:
        """The same, for visits that are dear."""
        return Scale(min(self.pairs, pairs), self.visit, self.tiny)

    def count(self, full: int, tiny: int) -> int:
        return tiny if self.tiny else full


FULL = Scale()
TINY = Scale(pairs=2, visit=0.002, tiny=True)


class Visited:
    """A peer in its own host process. Use it as a context manager."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": _python_path()},
        )
        self.ready_ms = self._read()["ready"] / 1e6
        right = self.visit("check", count=5)["right"]
        if right != 5:
            raise RuntimeError(f"{name} mirrors another state than it answers with")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def visit(self, op: str, **order: Any) -> Answer:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **order}).encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer {self.name} has ended; its words are above")
        answer: Answer = json.loads(line)
        return answer

    def calibrate(self, scale: Scale, op: str, **order: Any) -> int:
        """How many calls make a visit. Warms it up on the way."""
        count = scale.count(60, 4)
        if op == "window":
            count = max(count, order["width"] * scale.count(4, 1))
        self.visit(op, count=count, **order)
        each = self.visit(op, count=count, **order)["wall"] / count
        fitting = int(scale.visit * 1e9 / each)
        return max(scale.count(5, 2), fitting, int(order.get("width", 0)) * 2)


@dataclass(frozen=True)
class Comparison:
    """B over A: the median of the pairs, and the quartiles, which say how sure it is."""

    ratio: float
    low: float
    high: float
    a: float
    b: float

    @property
    def inverse(self) -> Comparison:
        return Comparison(1 / self.ratio, 1 / self.high, 1 / self.low, self.b, self.a)


def median_latency(answer: Answer) -> float:
    """Nanoseconds of the middle call, the first fifth of the visit left out: caches are cold."""
    calls = sorted(answer["latencies"][len(answer["latencies"]) // 5 :])
    return float(calls[len(calls) // 2])


def time_each(answer: Answer) -> float:
    return float(answer["wall"] / answer["count"])


def cpu_agent(answer: Answer) -> float:
    return float(answer["cpu_agent"] / answer["count"])


def cpu_total(answer: Answer) -> float:
    return float((answer["cpu_agent"] + answer["cpu_host"]) / answer["count"])


def compare(
    a: Visited,
    b: Visited,
    op: str,
    measures: Mapping[str, Measure],
    scale: Scale,
    *,
    count: int | None = None,
    **order: Any,
) -> dict[str, Comparison]:
    """Visit both in turn; compare each measure. Without a `count`, visits are equally long."""
    counts = [count or peer.calibrate(scale, op, **order) for peer in (a, b)]
    pairs: list[tuple[Answer, Answer]] = []
    for number in range(scale.pairs):
        answers: list[Answer] = [{}, {}]
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            answers[which] = (a, b)[which].visit(op, count=counts[which], **order)
        pairs.append((answers[0], answers[1]))
    return {
        name: summarise([(measure(x), measure(y)) for x, y in pairs])
        for name, measure in measures.items()
    }


def summarise(pairs: list[tuple[float, float]]) -> Comparison:
    """The comparison that pairs of neighbouring measurements (a, b) make."""
    ratios = [b / a if a else float("inf") for a, b in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Comparison(
        middle,
        low,
        high,
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
    )


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))

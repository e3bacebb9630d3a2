"""What is measured: a host in a process of its own, with one agent behind it.

`python -m benchmarks.peers NAME` starts one. It is told what to do and answers in JSON lines, so
that the visits to several peers can be interleaved; its agent uses other pipes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import orjson

__all__ = ["AsyncPeer", "Peer", "cpu_ns", "serve"]

Place: TypeAlias = Literal["apart", "together", "anywhere"]

_CPUS = sorted(os.sched_getaffinity(0))


def cpu_ns(pid: int) -> int:
    """Nanoseconds on a CPU of all threads of a process, ended ones included; 0 if it is gone."""
    try:
        return time.clock_gettime_ns(((~pid) << 3) | 2)  # the kernel's name for that clock
    except OSError:
        return 0


class Peer(ABC):
    """A host and its agent. `call` returns the counter that the agent answered with."""

    @abstractmethod
    def start(self) -> None: ...
    @abstractmethod
    def call(self, size: int) -> int: ...
    @abstractmethod
    def mirrored(self) -> int:
        """The counter in the host's copy of the state."""

    @abstractmethod
    def close(self) -> None: ...
    @abstractmethod
    def pids(self) -> list[int]:
        """The agent's processes."""

    def window(self, count: int, width: int, size: int) -> None:
        """`count` calls, `width` of them on their way at any time."""
        raise NotImplementedError

    def push(self, count: int) -> None:
        """Have the agent send `count` states; return when the last one is in the mirror."""
        raise NotImplementedError

    def sequence(self, count: int, size: int) -> list[int]:
        """`count` calls, one after the other; nanoseconds of each."""
        call, now, out = self.call, time.perf_counter_ns, []
        for _ in range(count):
            begin = now()
            call(size)
            out.append(now() - begin)
        return out

    def check(self, count: int, size: int) -> int:
        """How many of `count` calls left the counter that they answered with in the mirror."""
        return sum(self.call(size) == self.mirrored() for _ in range(count))

    def place(self, where: Place) -> None:
        """Keep the host on one CPU and the agent on another (`apart`), as an idle machine runs
        them, both on one (`together`), or leave them to the scheduler (`anywhere`).

        Left to itself, the scheduler of a busy machine often puts both on one CPU, where the floor
        is twice as fast and hardly anything else is; then the neighbours decide what the ratio is.
        """
        for pid in (os.getpid(), *self.pids()):
            own = _CPUS[-1:] if where == "apart" and pid != os.getpid() else _CPUS[:1]
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), _CPUS if where == "anywhere" else own)

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked for and say what it took."""
        count, size = order["count"], order.get("size", 0)
        pids = [os.getpid(), *self.pids()]
        before = [cpu_ns(pid) for pid in pids]
        begin = time.perf_counter_ns()
        answer: dict[str, Any] = {}
        match order["op"]:
            case "sequence":
                answer["latencies"] = self.sequence(count, size)
            case "window":
                self.window(count, order["width"], size)
            case "push":
                self.push(count)
            case "place":
                self.place(order["where"])
            case "check":
                answer["right"] = self.check(count, size)
        answer["wall"] = time.perf_counter_ns() - begin
        spent = [cpu_ns(pid) - was for pid, was in zip(pids, before, strict=True)]
        return {**answer, "count": count, "cpu_host": spent[0], "cpu_agent": sum(spent[1:])}


class AsyncPeer(Peer):
    """A peer whose host is a coroutine's business. `acall` and `astart` are the ones to write."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    @abstractmethod
    async def astart(self) -> None: ...
    @abstractmethod
    async def acall(self, size: int) -> int: ...
    async def aclose(self) -> None: ...

    def start(self) -> None:
        self.runner.run(self.astart())

    def call(self, size: int) -> int:
        return self.runner.run(self.acall(size))

    def close(self) -> None:
        self.runner.run(self.aclose())
        self.runner.close()

    def sequence(self, count: int, size: int) -> list[int]:
        async def calls() -> list[int]:
            call, now, out = self.acall, time.perf_counter_ns, []
            for _ in range(count):
                begin = now()
                await call(size)
                out.append(now() - begin)
            return out

        return self.runner.run(calls())

    def window(self, count: int, width: int, size: int) -> None:
        async def one(left: list[int]) -> None:
            while left:
                left.pop()
                await self.acall(size)

        async def calls() -> None:
            left = [0] * count
            await asyncio.gather(*(one(left) for _ in range(width)))

        self.runner.run(calls())

    def check(self, count: int, size: int) -> int:
        async def calls() -> int:
            return sum([await self.acall(size) == self.mirrored() for _ in range(count)])

        return self.runner.run(calls())


def serve(make: Callable[[], Peer]) -> None:
    """Take orders from stdin until it ends. The peer finds /dev/null there and stderr on fd 1."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    peer = make()
    begin = time.perf_counter_ns()
    peer.start()
    peer.call(0)
    peer.place("apart")
    answer: dict[str, Any] = {"ready": time.perf_counter_ns() - begin}
    while True:
        answers.write(orjson.dumps(answer) + b"\n")
        answers.flush()
        order = orders.readline()
        if not order:
            break
        answer = peer.run(orjson.loads(order))
    peer.close()
    sys.stdout.flush()

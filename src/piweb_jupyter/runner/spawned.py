"""Work that outlives the command that began it."""

from __future__ import annotations

from collections.abc import Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ..agent.context import Context, Spawned
from .loop import LoopThread
from .report import report_failure

if TYPE_CHECKING:
    import asyncio

__all__ = ["SpawnedWork"]


class SpawnedWork:
    """The work that commands of one surface have spawned. Safe from any thread."""

    def __init__(self, domain: str, loop: LoopThread) -> None:
        self._domain = domain
        self._loop = loop
        self._running: dict[Spawned, Context[Any]] = {}

    def spawn(self, work: Coroutine[Any, Any, Any], context: Context[Any]) -> Spawned:
        """Start it on the loop; what it raises goes to the log."""
        if type(work) is not CoroutineType:
            raise TypeError("spawn takes a coroutine: ctx.spawn(work(…)) with `async def work`")
        tasks: list[asyncio.Task[Any]] = []

        def stop(spawned: Spawned) -> None:
            spawned.cancelled = True
            self._loop.call(lambda: tasks and tasks[0].cancel())

        spawned = Spawned(stop)
        self._running[spawned] = context

        def begin() -> None:
            task = self._loop.loop.create_task(work)
            tasks.append(task)
            task.add_done_callback(end)
            if spawned.cancelled:
                task.cancel()

        def end(task: asyncio.Task[Any]) -> None:
            work.close()  # one that was cancelled before its first step was never begun
            self._running.pop(spawned, None)
            spawned.done = True
            if not task.cancelled() and (exc := task.exception()) is not None:
                what = f"work spawned by `{context.action}` of surface `{self._domain}` failed"
                report_failure(what, exc)

        self._loop.call(begin)
        return spawned

    def cancel(self) -> int:
        """End all of it; say how much there was."""
        running = list(self._running)
        for spawned in running:
            spawned.cancel()
        return len(running)

    def cancel_of(self, correlation_id: str) -> None:
        """End what one command has spawned."""
        for spawned, context in list(self._running.items()):
            if context.correlation_id == correlation_id:
                context.cancelled = True
                spawned.cancel()

"""Blocking work beside the event loop, on daemon threads: none of it can hold up the agent's end.

`asyncio.to_thread` uses a pool that the interpreter joins when it exits; a tool that blocks for
ever would keep the agent alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(work: Callable[[], T], name: str) -> T:
    """Run `work` in a thread of its own. When this is cancelled, the thread's result is dropped."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # None only beside an error

    def body() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(work)
        except StopIteration as exc:  # a future refuses to carry it
            error = RuntimeError(f"StopIteration: {exc}")
        except BaseException as exc:
            error = exc
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=body, name=f"piweb-agent-{name}", daemon=True).start()
    return await done

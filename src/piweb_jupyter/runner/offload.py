"""Blocking work beside the event loop, on daemon threads: none of it can hold up the agent's end.

`asyncio.to_thread` uses a pool that the interpreter joins when it exits; a tool that blocks for
ever would keep the agent alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(
    work: Callable[[], T], name: str, late: Callable[[T], object] | None = None
) -> T:
    """Run `work` in a thread of its own.

    When this is cancelled, the thread goes on; what it returns in the end is given to `late`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def succeed(result: T) -> None:
        if not done.done():
            done.set_result(result)
        elif late is not None:
            late(result)

    def fail(error: BaseException) -> None:
        if not done.done():
            done.set_exception(error)

    def body() -> None:
        tell: Callable[[], None]
        try:
            tell = functools.partial(succeed, context.run(work))
        except StopIteration as exc:  # a future refuses to carry it
            tell = functools.partial(fail, RuntimeError(f"StopIteration: {exc}"))
        except BaseException as exc:
            tell = functools.partial(fail, exc)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=body, name=f"piweb-agent-{name}", daemon=True).start()
    return await done

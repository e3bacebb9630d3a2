"""The agent's event loop: asyncio, imported and started when the first coroutine wants to run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """One thread, `piweb-agent-loop`, for `async def` handlers, spawned work, the conversation."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._waking = False
        # Called with the exit code when a coroutine raises SystemExit.
        self.on_exit: Callable[[int], None] | None = None

    @property
    def started(self) -> bool:
        """Has anything needed the loop yet?"""
        return self._loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, running."""
        return self._loop or self._start()

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop soon. Safe from any thread; after the end nothing happens."""
        self._calls.append((function, args))
        if self._waking:
            return  # a loop that is woken once takes all
        self._waking = True
        try:
            self.loop.call_soon_threadsafe(self._make_calls)
        except RuntimeError:
            if not self._closed:
                raise

    def _make_calls(self) -> None:
        self._waking = False
        calls = self._calls
        for _ in range(len(calls)):
            function, args = calls.popleft()
            try:
                function(*args)
            except Exception as exc:
                self.loop.call_exception_handler(
                    {"message": f"{function!r} failed", "exception": exc}
                )

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop. Safe from any thread; never wait for it on the loop."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def is_current(self) -> bool:
        """Is this the loop's thread?"""
        return self._thread is not None and threading.get_ident() == self._thread.ident

    def close(self, timeout: float) -> bool:
        """Cancel everything that runs and end the thread; False if something does not let go."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return True
        try:
            loop.call_soon_threadsafe(self._cancel_all, loop)
        except RuntimeError:
            return True  # a task has ended the process, and the loop before it
        thread.join(timeout)
        return not thread.is_alive()

    def _start(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                if self._closed:
                    raise RuntimeError("the agent is ending")
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="piweb-agent-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
                break
            except SystemExit as exc:
                if self.on_exit is not None:
                    self.on_exit(exc.code if isinstance(exc.code, int) else 1)
                return
            except KeyboardInterrupt:
                continue  # some task raised it; it has it as its own failure
        loop.close()

    @staticmethod
    def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        tasks = asyncio.all_tasks(loop)
        if not tasks:
            loop.stop()
            return
        gathered = asyncio.gather(*tasks, return_exceptions=True)
        gathered.add_done_callback(lambda _: loop.stop())
        for task in tasks:
            task.cancel()

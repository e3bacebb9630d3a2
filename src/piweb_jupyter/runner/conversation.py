"""The conversation loop: prompt, response, tools, steering, follow-ups, in pi's order of events.

One run at a time, on the runtime's event loop. A response and its tools run in tasks of their
own, so an abort never waits for a model or a tool that does not listen: they are cancelled, given
`CANCEL_TIMEOUT`, and then left behind; what they still say is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import AgentDefinitionError
from ..wire.events import AgentStart, MessageEnd, MessageStart, TurnEnd, TurnStart
from ..wire.json import JSON
from .backend import Backend, ModelRequest, clean_text
from .chat import Chat, Emit, UserInput
from .model import STUB, Fields, ModelError, ModelRef
from .report import say
from .stream import AssistantStream, StopReason
from .tools import RunningCall, Tool, ToolResult, collect_tools

if TYPE_CHECKING:
    from .runtime import Runtime

__all__ = ["CANCEL_TIMEOUT", "MAX_RESPONSES", "Conversation"]

_log = logging.getLogger(__name__)

# Seconds a cancelled response or tool gets to end before the run goes on without it.
CANCEL_TIMEOUT = 1.0

# Responses to one message of a person; a model that still calls tools then is going in circles.
MAX_RESPONSES = 100

_ABORTED = "Request was aborted"
_TOO_MANY = (
    f"Stopped after {MAX_RESPONSES} responses to one message: the model keeps calling tools. "
    "Send another message to go on."
)

# A backend that never waits must still let the loop see timers and an abort.
_YIELD_AFTER = 0.005


class Conversation:
    """Runs prompts. `start`, `check` and `abort` are safe from any thread."""

    def __init__(self, runtime: Runtime, chat: Chat, emit: Emit) -> None:
        self._runtime = runtime
        self._chat = chat
        self._emit = emit
        self._backends: dict[ModelRef, Backend] = {}
        self._tools: dict[str, Tool] | None = None
        self._abort = _Abort()

    def start(
        self, item: UserInput, model: ModelRef, started: Callable[[str | None], None]
    ) -> None:
        """Begin a run that the chat has claimed. `started` gets None, or why there is none."""
        self._abort = abort = _Abort()
        self._spawn(self._run(abort, item, model, started))

    def check(self, model: ModelRef, checked: Callable[[Fields | None, str], None]) -> None:
        """Make a model ready to use; `checked` gets it in pi's form, or None and why not."""

        async def check() -> None:
            try:
                backend = await self._backend(model)
            except ModelError as exc:
                checked(None, str(exc))
            else:
                checked(backend.info, "")

        self._spawn(check())

    def abort(self) -> None:
        """End the present run soon; nothing happens when there is none."""
        self._abort.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._runtime.loop.run(work).add_done_callback(_log_failure)

    # ------------------------------------------------------------ one run

    async def _run(
        self,
        abort: _Abort,
        item: UserInput,
        model: ModelRef,
        started: Callable[[str | None], None],
    ) -> None:
        abort.bind()
        try:
            opening = asyncio.create_task(self._backend(model))
            await abort.race([opening])
            if not opening.done() or opening.cancelled():
                raise ModelError("The prompt was aborted before it started.")
            run = _Run(abort, model, opening.result(), self._collect())
        except Exception as exc:
            if not isinstance(exc, ModelError | AgentDefinitionError):
                _log.exception("a prompt could not start")
            error = _said(exc)
            self._chat.release(lambda: started(error))
            return
        self._chat.learn_model(model, run.backend.info)
        started(None)
        try:
            await self._converse(run, item)
        except Exception as exc:
            _log.exception("the conversation loop failed")
            message = self._note(run, "error", f"Internal error: {_said(exc)}")
            self._emit(TurnEnd(message, []))
            self._chat.settle(run.messages, failed=True)

    async def _converse(self, run: _Run, item: UserInput) -> None:
        self._emit(AgentStart())
        self._emit(TurnStart())
        self._user_message(run, item)
        queued = self._chat.take_steering()
        while True:
            if queued:
                self._chat.announce()
                run.responses = 0
            for waiting in queued:
                self._user_message(run, waiting)
            message = await self._respond(run)
            if message["stopReason"] in ("error", "aborted"):
                aborted = message["stopReason"] == "aborted"
                self._emit(TurnEnd(message, []))
                self._chat.settle(run.messages, aborted=aborted, failed=not aborted)
                return
            calls = [block for block in message["content"] if block["type"] == "toolCall"]
            results = await self._call_tools(run, calls)
            self._emit(TurnEnd(message, list(results)))
            # After an abort one more response follows, an empty one that says so, as in pi.
            queued = [] if run.abort.is_set() else self._chat.take_steering()
            if not calls and not queued and not run.abort.is_set():
                queued = self._chat.take_follow_up()
                while not queued:
                    if self._chat.settle(run.messages):
                        return
                    queued = self._chat.take_steering() or self._chat.take_follow_up()
            self._emit(TurnStart())

    def _user_message(self, run: _Run, item: UserInput) -> None:
        message = item.to_message(_now())
        self._emit(MessageStart(message))
        self._keep(run, message)
        self._emit(MessageEnd(message))

    def _keep(self, run: _Run, message: Fields, native: object = None) -> None:
        self._chat.add(message, native)
        run.messages.append(message)

    # ------------------------------------------------------------ one response

    async def _respond(self, run: _Run) -> Fields:
        run.responses += 1
        if run.abort.is_set():
            return self._note(run, "aborted", _ABORTED)
        if run.responses > MAX_RESPONSES:
            return self._note(run, "error", _TOO_MANY)
        stream = AssistantStream(self._emit, run.head)
        request = ModelRequest(
            system_prompt=self._runtime.agent.system_prompt,
            entries=self._chat.entries(),
            tools=[tool.spec for tool in run.tools.values()],
            thinking=self._chat.thinking,
        )
        consuming = asyncio.create_task(_consume(run.backend, request, stream))
        await run.abort.race([consuming])
        if stream.stop is not None:
            message = stream.finish(stream.stop.reason)
            self._keep(run, message, stream.stop.native)
        elif run.abort.is_set():
            # Also if the engine made an error of its own out of being cancelled.
            message = stream.finish("aborted", _ABORTED)
            self._keep(run, message)
        else:
            message = stream.finish("error", _why_it_broke_off(consuming))
            self._keep(run, message)
        return message

    def _note(self, run: _Run, reason: StopReason, error: str) -> Fields:
        """A message that no model sent: how pi shows an abort or a failure between responses."""
        message = AssistantStream(self._emit, run.head).finish(reason, error)
        self._keep(run, message)
        return message

    # ------------------------------------------------------------ tools

    def _collect(self) -> dict[str, Tool]:
        if self._tools is None:
            self._tools = collect_tools(self._runtime)
        return self._tools

    async def _call_tools(self, run: _Run, calls: list[Fields]) -> list[Fields]:
        """Run all calls at once; their results are told in the order of the calls."""
        running = [RunningCall(self._emit, call) for call in calls]
        tasks = [asyncio.create_task(tool.run(run.tools)) for tool in running]
        await run.abort.race(tasks)
        unfinished = "Command aborted" if run.abort.is_set() else "The tool cancelled itself"
        messages: list[Fields] = []
        for tool in running:
            tool.end(ToolResult.failure(unfinished))
            message = tool.message()
            self._emit(MessageStart(message))
            self._keep(run, message)
            self._emit(MessageEnd(message))
            messages.append(message)
        return messages

    # ------------------------------------------------------------ backends

    async def _backend(self, model: ModelRef) -> Backend:
        backend = self._backends.get(model)
        if backend is None:
            if model == STUB:
                from .stub import StubBackend

                backend = StubBackend()
            else:
                from .llm import open_backend

                backend = await open_backend(model)
            self._backends[model] = backend
        return backend


@dataclass(slots=True)
class _Run:
    """From a prompt to `agent_settled`. `messages` are those of the run, for its `agent_end`."""

    abort: _Abort
    model: ModelRef
    backend: Backend
    tools: dict[str, Tool]
    messages: list[JSON] = field(default_factory=list)
    responses: int = 0

    @property
    def head(self) -> Fields:
        """Where an assistant message comes from."""
        api = self.backend.info["api"]
        return {"api": api, "provider": self.model.provider, "model": self.model.id}


class _Abort:
    """The abort switch of one run. `set` may come from any thread, also before the run began."""

    def __init__(self) -> None:
        self._is_set = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signal: asyncio.Event | None = None

    def bind(self) -> None:
        """Called by the run's own task, first of all."""
        self._signal = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._is_set:
            self._signal.set()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._loop is not None and self._signal is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
                self._loop.call_soon_threadsafe(self._signal.set)

    async def race(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Wait for the tasks. After an abort they are cancelled, and waited for a little."""
        if not tasks:
            return
        assert self._signal is not None
        signal = asyncio.create_task(self._signal.wait())
        waiting = set(tasks)
        while waiting and not signal.done():
            await asyncio.wait({*waiting, signal}, return_when=asyncio.FIRST_COMPLETED)
            waiting = {task for task in waiting if not task.done()}
        signal.cancel()
        if waiting:
            for task in waiting:
                task.cancel()
            _, left = await asyncio.wait(waiting, timeout=CANCEL_TIMEOUT)
            _leave(left)


def _leave(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Let go of tasks that did not end when cancelled; their errors interest nobody any more."""
    for task in tasks:
        say(f"did not end within {CANCEL_TIMEOUT:g} s of an abort: {task.get_coro()!r}")
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def _consume(backend: Backend, request: ModelRequest, stream: AssistantStream) -> None:
    loop = asyncio.get_running_loop()
    yielded = loop.time()
    async with contextlib.aclosing(backend.stream(request)) as events:
        async for event in events:
            stream.feed(event)
            if loop.time() - yielded > _YIELD_AFTER:
                await asyncio.sleep(0)
                yielded = loop.time()


def _said(failure: BaseException) -> str:
    return clean_text(str(failure)) or type(failure).__name__


def _why_it_broke_off(consuming: asyncio.Task[None]) -> str:
    if consuming.cancelled():
        return "The model's stream was cancelled."
    failure = consuming.exception()
    if failure is None:
        return "The model's stream ended too early."
    if not isinstance(failure, ModelError):
        _log.error("the model's engine failed", exc_info=failure)
    return _said(failure)


def _now() -> int:
    return int(time.time() * 1000)


def _log_failure(future: Future[None]) -> None:
    if not future.cancelled() and (failure := future.exception()) is not None:
        _log.error("the conversation failed", exc_info=failure)

"""What the model can call: the surfaces' commands and the agent's own tools, in one form."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..agent.tools import Tool as AgentTool
from ..agent.tools import ToolContext
from ..errors import StateValueError, SurfaceCommandError
from ..wire.events import ToolEnd, ToolStart, ToolUpdate
from ..wire.json import JSON, dumps_strict, loads
from .backend import ToolSpec, clean_text
from .chat import Emit
from .model import Fields
from .offload import in_thread
from .report import report_failure

if TYPE_CHECKING:
    from .runtime import Runtime
    from .surfaces import SurfaceTool

__all__ = ["RunningCall", "Tool", "ToolCall", "ToolResult", "collect_tools"]


# Seconds between two partial results of one call, as in pi.
PROGRESS_PAUSE = 0.1

_IMAGES = (
    (b"\x89PNG", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"RIFF", "webp"),
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, as the model made it."""

    id: str
    name: str
    arguments: Fields


@dataclass(slots=True)
class ToolResult:
    """What a call gave, in pi's form: `content` is for the model, `details` for views."""

    content: list[Fields]
    details: JSON = None
    is_error: bool = False

    @classmethod
    def text(cls, text: str, details: JSON = None) -> ToolResult:
        return cls([{"type": "text", "text": clean_text(text)}], details)

    @classmethod
    def failure(cls, text: str, details: JSON = None) -> ToolResult:
        return cls([{"type": "text", "text": clean_text(text)}], details, is_error=True)

    def to_json(self) -> Fields:
        out: Fields = {"content": self.content}
        if self.details is not None:
            out["details"] = self.details
        return out


class Tool(Protocol):
    """Something the model can call."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, call: ToolCall, update: Callable[[Fields], None]) -> ToolResult:
        """Run one call. `update` shows a partial result; it may be called from any thread."""


class FunctionTool:
    """A tool function of the agent."""

    def __init__(self, tool: AgentTool) -> None:
        self._tool = tool
        self.spec = ToolSpec(tool.name, tool.description, tool.arguments.schema)

    async def run(self, call: ToolCall, update: Callable[[Fields], None]) -> ToolResult:
        tool = self._tool
        try:
            arguments = tool.arguments.bind(call.arguments)
        except SurfaceCommandError as exc:
            return _refused(exc)

        def progress(text: str, details: JSON) -> None:
            update(ToolResult.text(text, details).to_json())

        context = ToolContext(tool.name, call.id, progress)
        given = (context,) if tool.takes_context else ()
        try:
            if tool.is_async:
                value = await tool.function(*given, **arguments)
            else:
                value = await in_thread(
                    lambda: tool.function(*given, **arguments), f"tool-{tool.name}"
                )
        except SurfaceCommandError as exc:
            return _refused(exc)
        except asyncio.CancelledError:
            # Told to the thread of a `def` tool, too, which is left behind.
            context.cancelled = True
            raise
        return _result(value, f"the result of tool `{tool.name}`")


def _refused(error: SurfaceCommandError) -> ToolResult:
    details = {"code": error.code, **error.details}
    try:
        dumps_strict(details, "details")
    except StateValueError:
        details = {"code": error.code}
    return ToolResult.failure(f"{error.code}: {error.message}", details)


def _result(value: Any, what: str) -> ToolResult:
    """A tool's return value in pi's form. A dict with `content` is in it already."""
    if value is None:
        return ToolResult.text("done")
    if isinstance(value, str):
        return ToolResult.text(value)
    if isinstance(value, bytes | bytearray):
        return ToolResult([_image(bytes(value), what)])
    if callable(dump := getattr(value, "model_dump", None)):
        value = dump(mode="json")
    if isinstance(value, dict) and _is_content(value.get("content")):
        dumps_strict(value, what)
        return ToolResult(value["content"], value.get("details"), value.get("isError") is True)
    return ToolResult.text(dumps_strict(value, what).decode())


def _image(data: bytes, what: str) -> Fields:
    for magic, kind in _IMAGES:
        if data.startswith(magic):
            encoded = base64.b64encode(data).decode()
            return {"type": "image", "data": encoded, "mimeType": f"image/{kind}"}
    raise TypeError(f"{what}: bytes must be a PNG, JPEG, GIF or WebP image")


def _is_content(value: JSON) -> bool:
    return isinstance(value, list) and all(
        isinstance(block, dict) and _is_block(block) for block in value
    )


def _is_block(block: Fields) -> bool:
    if block.get("type") == "text":
        return isinstance(block.get("text"), str)
    return block.get("type") == "image" and all(
        isinstance(block.get(key), str) for key in ("data", "mimeType")
    )


class CommandTool:
    """A surface's command. Calls of one response begin in their order, domain by domain.

    A `def` handler runs in a thread here, as a tool does: on the loop, a long one could not even
    be aborted.
    """

    def __init__(self, tool: SurfaceTool, lane: asyncio.Lock) -> None:
        self._tool = tool
        self._lane = lane
        self.spec = ToolSpec(tool.name, tool.description, tool.parameters)

    async def run(self, call: ToolCall, update: Callable[[Fields], None]) -> ToolResult:
        tool = self._tool
        async with self._lane:
            outcome = await in_thread(
                lambda: tool.run(call.arguments, call.id),
                f"command-{tool.name}",
                late=lambda outcome: outcome.cancel(),
            )
        try:
            await outcome.wait()
        except asyncio.CancelledError:
            outcome.cancel()
            raise
        where = {"domain": tool.domain, "action": tool.action}
        if not outcome.ok:
            details = {**where, "code": outcome.code, **(outcome.details or {})}
            return ToolResult.failure(f"{outcome.code}: {outcome.message}", details)
        if outcome.data is None:
            return ToolResult.text("done", where)
        value = loads(outcome.data)
        text = value if isinstance(value, str) else outcome.data.decode()
        return ToolResult.text(text, where)


def collect_tools(runtime: Runtime) -> dict[str, Tool]:
    """Every tool by its name; on the event loop.

    Raises:
        AgentDefinitionError: If the arguments of a tool say no JSON.
    """
    tools: dict[str, Tool] = {}
    lanes: dict[str, asyncio.Lock] = {}
    for tool in runtime.surfaces.tools():
        lane = lanes.setdefault(tool.domain, asyncio.Lock())
        tools[tool.name] = CommandTool(tool, lane)
    for function in runtime.agent.tools:
        tools[function.name] = FunctionTool(function)
    return tools


class RunningCall:
    """One call being run. It ends once; what comes after its end is dropped.

    `run`, `end` and `message` belong to the event loop; a tool may report progress from any
    thread and as often as it likes: the newest is told, at most once per `PROGRESS_PAUSE`.
    """

    def __init__(self, emit: Emit, call: Fields) -> None:
        self._emit = emit
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._ran = False
        # Held while an update is written, so that none follows the end.
        self._lock = threading.RLock()
        self._waiting: Fields | None = None
        self._told_at = 0.0
        self._result: ToolResult | None = None
        self._duration: int | None = None
        emit(ToolStart(call["id"], call["name"], call["arguments"]))

    async def run(self, tools: dict[str, Tool]) -> None:
        call = self._call
        tool = tools.get(call["name"])
        if tool is None:
            known = ", ".join(sorted(tools)) or "none"
            self.end(ToolResult.failure(f"Tool {call['name']} not found. Tools: {known}."))
        elif "argumentsError" in call:
            self.end(ToolResult.failure(f"Invalid arguments: {call['argumentsError']}"))
        else:
            self._ran = True
            try:
                result = await tool.run(
                    ToolCall(call["id"], call["name"], call["arguments"]), self._update
                )
            except (Exception, SystemExit, KeyboardInterrupt) as exc:
                report_failure(f"tool `{call['name']}` failed", exc)
                result = ToolResult.failure(f"{type(exc).__name__}: {exc}")
            self.end(result)

    def _update(self, partial: Fields) -> None:
        """Tell a partial result, now or when its time comes."""
        with self._lock:
            later = self._waiting is not None
            self._waiting = partial
            wait = self._told_at + PROGRESS_PAUSE - time.monotonic()
            if wait <= 0:
                self._tell()
            elif not later:
                with contextlib.suppress(RuntimeError):  # the loop is closed: the agent is ending
                    self._loop.call_soon_threadsafe(self._loop.call_later, wait, self._tell_late)

    def _tell_late(self) -> None:
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        partial, self._waiting = self._waiting, None
        if partial is not None and self._result is None:
            self._told_at = time.monotonic()
            call = self._call
            self._emit(ToolUpdate(call["id"], call["name"], call["arguments"], partial))

    def end(self, result: ToolResult) -> None:
        if self._result is not None:
            return
        with self._lock:
            self._result = result
        if self._ran:
            self._duration = round((time.monotonic() - self._began) * 1000)
        call = self._call
        told = result.to_json()
        self._emit(ToolEnd(call["id"], call["name"], told, result.is_error, self._duration))

    def message(self) -> Fields:
        assert self._result is not None
        message: Fields = {
            "role": "toolResult",
            "toolCallId": self._call["id"],
            "toolName": self._call["name"],
            **self._result.to_json(),
            "isError": self._result.is_error,
            "timestamp": int(time.time() * 1000),
        }
        if self._duration is not None:
            message["durationMs"] = self._duration
        return message

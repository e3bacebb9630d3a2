"""The MCP SDK: a tool call whose result carries the state, or one that is followed by it.

MCP's notification of a changed resource carries no state, so a host that mirrors what it is told
of (`Mcp(mirrors=True)`: the same work as ours) needs a second round trip, to read the resource.
Without that it is the cheap way, and knows only of what it has asked for itself.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp
import orjson
import psutil
from mcp import types

from .base import AsyncPeer
from .mcp_agent import STATE

__all__ = ["Mcp"]


class Mcp(AsyncPeer):
    def __init__(self, *, mirrors: bool = False) -> None:
        super().__init__()
        self._mirrors = mirrors

    async def astart(self) -> None:
        self._state: dict[str, Any] = {}
        self._updated = asyncio.Event()
        self._over = asyncio.Event()
        connected = asyncio.Event()
        # Its contexts must be left by the task that has entered them.
        self._life = asyncio.create_task(self._live(connected))
        await connected.wait()
        self._pids = [child.pid for child in psutil.Process().children(recursive=True)]

    async def _live(self, connected: asyncio.Event) -> None:
        agent = str(Path(__file__).with_name("mcp_agent.py"))
        args = [agent, "--mirrors"] if self._mirrors else [agent]
        parameters = mcp.StdioServerParameters(command=sys.executable, args=args)
        async with (
            mcp.stdio_client(parameters) as streams,
            mcp.ClientSession(*streams, message_handler=self._hear) as self._session,
        ):
            await self._session.initialize()
            connected.set()
            await self._over.wait()

    async def acall(self, size: int) -> int:
        result = await self._session.call_tool("increment", {"by": 1, "size": size})
        assert result.structured_content is not None
        if self._mirrors:
            await self._updated.wait()
            self._updated.clear()
            read = await self._session.read_resource(STATE)
            assert isinstance(read.contents[0], types.TextResourceContents)
            self._state.update(orjson.loads(read.contents[0].text))
        else:
            self._state.update(result.structured_content)
        return int(result.structured_content["counter"])

    async def _hear(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self._updated.set()

    async def aclose(self) -> None:
        self._over.set()
        await self._life

    def mirrored(self) -> int:
        return int(self._state["counter"])

    def pids(self) -> list[int]:
        return self._pids

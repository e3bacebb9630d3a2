"""The MCP SDK doing the same work: a tool call whose result carries the state.

MCP's notification of a changed resource carries no state, so mirroring by notification would take
two round trips. This is the cheap way.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp
import psutil

from .base import AsyncPeer

__all__ = ["Mcp"]


class Mcp(AsyncPeer):
    async def astart(self) -> None:
        self._state: dict[str, Any] = {}
        self._over = asyncio.Event()
        connected = asyncio.Event()
        # Its contexts must be left by the task that has entered them.
        self._life = asyncio.create_task(self._live(connected))
        await connected.wait()
        self._pids = [child.pid for child in psutil.Process().children(recursive=True)]

    async def _live(self, connected: asyncio.Event) -> None:
        agent = str(Path(__file__).with_name("mcp_agent.py"))
        parameters = mcp.StdioServerParameters(command=sys.executable, args=[agent])
        async with (
            mcp.stdio_client(parameters) as streams,
            mcp.ClientSession(*streams) as self._session,
        ):
            await self._session.initialize()
            connected.set()
            await self._over.wait()

    async def acall(self, size: int) -> int:
        result = await self._session.call_tool("increment", {"by": 1, "size": size})
        assert result.structured_content is not None
        self._state.update(result.structured_content)
        return int(result.structured_content["counter"])

    async def aclose(self) -> None:
        self._over.set()
        await self._life

    def mirrored(self) -> int:
        return int(self._state["counter"])

    def pids(self) -> list[int]:
        return self._pids

"""The agent-client-protocol SDK doing the same work, by its extension methods.

A prompt would carry text; an extension method and an extension notification carry the same JSON
as ours, and cost less.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import acp

from .base import AsyncPeer

__all__ = ["Acp"]


class _Client:
    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        self.state.update(params)

    def on_connect(self, conn: acp.Agent) -> None:
        pass


class Acp(AsyncPeer):
    async def astart(self) -> None:
        self._client = _Client()
        self._context = acp.spawn_agent_process(
            cast(acp.Client, self._client),
            sys.executable,
            str(Path(__file__).with_name("acp_agent.py")),
        )
        self._agent, self._process = await self._context.__aenter__()
        await self._agent.initialize(protocol_version=acp.PROTOCOL_VERSION)

    async def acall(self, size: int) -> int:
        answer = await self._agent.ext_method("increment", {"by": 1, "size": size})
        return int(answer["counter"])

    async def aclose(self) -> None:
        await self._context.__aexit__(None, None, None)

    def mirrored(self) -> int:
        return int(self._client.state["counter"])

    def pids(self) -> list[int]:
        return [self._process.pid]

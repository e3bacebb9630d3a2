"""The agent side of `acp_peer`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import acp
from acp.schema import InitializeResponse

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.work import make_pad


class _Agent:
    def __init__(self) -> None:
        self.counter = 0

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.counter += params["by"]
        state: dict[str, Any] = {"counter": self.counter}
        if params["size"]:
            state["pad"] = make_pad(params["size"])
        await self.client.ext_notification("state", state)
        return {"counter": self.counter}


if __name__ == "__main__":
    asyncio.run(acp.run_agent(cast(acp.Agent, _Agent())))

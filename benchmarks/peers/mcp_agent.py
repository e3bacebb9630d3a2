"""The server side of `mcp_peer`, on the SDK's low-level server, its fastest."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp
from mcp import types
from mcp.server.lowlevel import Server

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.work import make_pad

_counter = 0


async def _list_tools(*_: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"by": {"type": "integer"}}}
    return types.ListToolsResult(tools=[types.Tool(name="increment", input_schema=schema)])


async def _call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    global _counter
    args = params.arguments or {}
    _counter += args["by"]
    state: dict[str, Any] = {"counter": _counter}
    if args["size"]:
        state["pad"] = make_pad(args["size"])
    return types.CallToolResult(content=[], structured_content=state)


async def _main() -> None:
    server: Server[Any] = Server("counter", on_list_tools=_list_tools, on_call_tool=_call_tool)
    async with mcp.stdio_server() as (receive, send):
        await server.run(receive, send, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_main())

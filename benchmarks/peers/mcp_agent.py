"""The server side of `mcp_peer`, on the SDK's low-level server, its fastest."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp
import orjson
from mcp import types
from mcp.server.lowlevel import Server

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.work import make_pad

STATE = "state://counter"
_state: dict[str, Any] = {"counter": 0}


async def _list_tools(*_: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"by": {"type": "integer"}}}
    return types.ListToolsResult(tools=[types.Tool(name="increment", input_schema=schema)])


async def _call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    global _state
    args = params.arguments or {}
    _state = {"counter": _state["counter"] + args["by"]}
    if args["size"]:
        _state["pad"] = make_pad(args["size"])
    if "--mirrors" in sys.argv:
        await context.session.send_resource_updated(STATE)
        told = {"counter": _state["counter"]}
    else:
        told = _state
    return types.CallToolResult(content=[], structured_content=told)


async def _read_resource(*_: Any) -> types.ReadResourceResult:
    text = orjson.dumps(_state).decode()
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=STATE, text=text)])


async def _main() -> None:
    server: Server[Any] = Server(
        "counter",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_read_resource=_read_resource,
    )
    async with mcp.stdio_server() as (receive, send):
        await server.run(receive, send, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_main())

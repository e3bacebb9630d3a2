from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tornado.websocket import websocket_connect

from tests.browser.lab import Server

# Loaded by the server after its extensions: says, for each kernel websocket, what is set on it.
PROBE = """
import socket
from jupyter_server.services.kernels.websocket import KernelWebsocketHandler
opened = KernelWebsocketHandler.open
async def told(self, *args, **kwargs):
    await opened(self, *args, **kwargs)
    value = self.ws_connection.stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    self.log.warning("NODELAY %d", bool(value))
KernelWebsocketHandler.open = told
"""


@pytest.mark.parametrize("enabled", [True, False])
def test_the_extension_sets_nodelay_on_kernel_websockets(tmp_path: Path, enabled: bool) -> None:
    home, root = tmp_path / "home", tmp_path / "root"
    config = home / "jupyter_config_dir"
    config.mkdir(parents=True)
    root.mkdir()
    extensions = {"piweb_jupyter.server": enabled}
    (config / "jupyter_server_config.json").write_text(
        json.dumps({"ServerApp": {"jpserver_extensions": extensions}})
    )
    (config / "jupyter_server_config.py").write_text(PROBE)
    with Server(root, "lab", home=home) as server:
        kernel = server.api("kernels", "POST", {})
        address = server.url(f"api/kernels/{kernel['id']}/channels").replace("http:", "ws:")

        async def connect() -> None:
            socket = await websocket_connect(address, connect_timeout=30)
            socket.close()
            while await socket.read_message() is not None:
                pass

        asyncio.run(connect())
        server.api(f"kernels/{kernel['id']}", "DELETE")
    log = server.log.read_text(encoding="utf-8")
    assert f"NODELAY {int(enabled)}" in log
    assert ("TCP_NODELAY" in log) == enabled

"""The floor, L1: two Python processes, `os.read`, `os.write` and orjson; no thread, no loop.

The caller writes its request and reads the pipe itself until the answer is there, mirroring the
states on the way. Nothing in Python that does this work is much faster; everything that a real
host adds (a thread so that states arrive while a cell runs, ids, a ledger) is above it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

from .base import Peer

__all__ = ["Floor"]

_AGENT = Path(__file__).with_name("floor_agent.py")
_READ = 65536


class Floor(Peer):
    """`wire` is the shape of the frames: the floor's own short one, or `ours`."""

    def __init__(self, wire: str = "short") -> None:
        self._wire = wire
        self._state: dict[str, Any] = {}
        self._number = 0
        self._held = bytearray()
        self._scanned = 0

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_AGENT), self._wire],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()

    def pids(self) -> list[int]:
        return [self._process.pid]

    def mirrored(self) -> int:
        return int(self._state["counter"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(5)

    def _feed(self, chunk: bytes) -> list[bytes]:
        if not self._held and chunk[-1] == 10:
            return chunk[:-1].split(b"\n")
        held = self._held
        held += chunk
        cut = held.rfind(b"\n", self._scanned)
        if cut < 0:
            self._scanned = len(held)
            return []
        lines = bytes(memoryview(held)[:cut]).split(b"\n")
        del held[: cut + 1]
        self._scanned = len(held)
        return lines

    def _request(self, size: int) -> bytes:
        self._number = number = self._number + 1
        if self._wire == "short":
            params = {"by": 1, "size": size}
            return orjson.dumps({"id": number, "method": "increment", "params": params})
        return orjson.dumps(
            {
                "type": "ui_rpc",
                "request": {
                    "correlationId": f"c{number}",
                    "point": "command",
                    "action": "execute",
                    "payload": {
                        "domain": "demo",
                        "action": "increment",
                        "args": {"by": 1, "size": size},
                        "actor": "cell",
                    },
                    "protocolVersion": "0.1.0",
                },
            }
        )

    def call(self, size: int) -> int:
        _write_all(self._in, self._request(size) + b"\n")
        while True:
            chunk = os.read(self._out, _READ)
            if not chunk:
                raise EOFError
            for line in self._feed(chunk):
                message = orjson.loads(line)
                if "id" in message:
                    return int(message["result"]["counter"])
                if "params" in message:
                    self._state.update(message["params"])
                elif "value" in message:
                    self._state.update(message["value"])
                else:
                    return int(message["response"]["result"]["data"]["counter"])

    def window(self, count: int, width: int, size: int) -> None:
        def send(number: int) -> None:
            _write_all(self._in, b"".join([self._request(size) + b"\n" for _ in range(number)]))

        send(width)
        sent, answered = width, 0
        while answered < count:
            done = 0
            for line in self._feed(os.read(self._out, _READ)):
                message = orjson.loads(line)
                if "id" in message or "response" in message:
                    done += 1
                else:
                    self._state.update(message["params" if "params" in message else "value"])
            answered += done
            more = min(done, count - sent)
            if more > 0:
                send(more)
                sent += more

    def push(self, count: int) -> None:
        request = {"id": 0, "method": "push", "params": {"count": count}}
        _write_all(self._in, orjson.dumps(request) + b"\n")
        while True:
            for line in self._feed(os.read(self._out, _READ)):
                message = orjson.loads(line)
                if "id" in message:
                    return
                self._state.update(message["params"])


def _write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    if written != len(data):
        rest = memoryview(data)
        while written < len(rest):
            written += os.write(fd, rest[written:])

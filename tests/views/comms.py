"""A comm that records, in place of the kernel's: widgets without a kernel, messages both ways."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

__all__ = ["Comms", "Sent"]


class Sent(NamedTuple):
    """One message from a widget to its pages."""

    thread: str
    data: dict[str, Any]
    buffers: list[bytes]

    @property
    def custom(self) -> dict[str, Any] | None:
        """The content, if it is a custom message; the first buffer's JSON is its `body`."""
        if self.data.get("method") != "custom":
            return None
        content = dict(self.data["content"])
        if self.buffers and self.buffers[0][:1] in (b"[", b"{"):
            content["body"] = orjson.loads(self.buffers[0])
        return content


class StubComm:
    """What ipywidgets needs of a comm."""

    def __init__(self, comms: Comms, **options: Any) -> None:
        self.comms = comms
        self.comm_id = options.get("comm_id") or f"comm-{len(comms.made) + 1}"
        self.closed = False
        self.sent: list[Sent] = []
        self._receive: Callable[[dict[str, Any]], None] | None = None
        self._reply_subshell_for = lambda data, default: "the shell that published last"
        self._record(options.get("data") or {}, options.get("buffers") or [])

    def on_msg(self, receive: Callable[[dict[str, Any]], None]) -> None:
        self._receive = receive

    def send(self, data: Any = None, metadata: Any = None, buffers: Any = None) -> None:
        self._record(data, buffers or [])

    def close(self, *args: Any, **options: Any) -> None:
        self.closed = True
        with self.comms.changed:
            self.comms.changed.notify_all()

    def receive(self, data: dict[str, Any]) -> None:
        """A page has sent this."""
        assert self._receive is not None
        self._receive({"content": {"data": data}, "buffers": []})

    def _record(self, data: dict[str, Any], buffers: list[Any]) -> None:
        sent = Sent(threading.current_thread().name, data, [bytes(buffer) for buffer in buffers])
        with self.comms.changed:
            self.sent.append(sent)
            self.comms.changed.notify_all()


class Comms:
    """All comms of one test."""

    def __init__(self) -> None:
        self.made: list[StubComm] = []
        self.changed = threading.Condition()

    def create(self, **options: Any) -> StubComm:
        comm = StubComm(self, **options)
        self.made.append(comm)
        return comm

    @property
    def open(self) -> list[StubComm]:
        return [comm for comm in self.made if not comm.closed]

    def wait(self, predicate: Callable[[], Any], timeout: float = 20.0) -> Any:
        """Until `predicate` gives something, asked after every message."""
        with self.changed:
            assert self.changed.wait_for(predicate, timeout), "it never came"
            return predicate()

"""A page that speaks with one view: it sends messages and looks at what comes back."""

from __future__ import annotations

from typing import Any

import orjson

from piweb_jupyter.views.widget import AgentView
from tests.views.comms import Comms, Sent

__all__ = ["Page"]


class Page:
    """One browser page as the kernel sees it."""

    def __init__(self, comms: Comms, view: AgentView, name: str = "page") -> None:
        self.comms = comms
        self.view = view
        self.name = name
        self.comm = view.comm
        self._ids = 0

    def send(self, kind: str, **fields: Any) -> None:
        content = {"kind": kind, "page": self.name, **fields}
        self.comm.receive({"method": "custom", "content": content})

    def hello(self) -> dict[str, Any]:
        self.send("hello")
        return self.wait_message("pong")

    def click(self, action: str, args: Any = None, **fields: Any) -> str:
        self._ids += 1
        id_ = fields.pop("id", f"{self.name}.{self._ids}")
        epoch = fields.pop("epoch", self.view.session.epoch)
        self.send("command", id=id_, action=action, args=args, epoch=epoch, **fields)
        return str(id_)

    # ------------------------------------------------------------ what came

    def messages(self, kind: str) -> list[dict[str, Any]]:
        customs = [sent.custom for sent in list(self.comm.sent)]
        return [custom for custom in customs if custom is not None and custom["kind"] == kind]

    def items(self, kind: str) -> list[list[Any]]:
        """The events of one kind, in order."""
        batches = self.messages("events")
        return [item for batch in batches for item in batch["body"] if item[0] == kind]

    def updates(self) -> list[Sent]:
        return [sent for sent in list(self.comm.sent) if sent.data.get("method") == "update"]

    def wait_message(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = self.comms.wait(lambda: self.messages(kind)[-1:])[0]
        return found

    def wait_result(self, id_: str) -> dict[str, Any]:
        def look() -> list[Any]:
            own = [item[2] for item in self.items("result") if item[1] == id_]
            return own or [m["body"] for m in self.messages("result") if m["of"] == id_]

        found: dict[str, Any] = self.comms.wait(look)[0]
        return found

    def stages(self, id_: str) -> list[str]:
        return [item[2] for item in self.items("stage") if item[1] == id_]

    def wait_rev(self, rev: int) -> None:
        self.comms.wait(lambda: getattr(self.view, "rev", None) == rev)

    def state(self) -> Any:
        """What the snapshot trait holds, as a page would read it."""
        line = getattr(self.view, "snapshot")  # noqa: B009 - only surface views have it
        return orjson.loads(line)["value"] if line else None

"""The view of one surface: its snapshot goes to the page as bytes, its clicks to the agent."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import traitlets as t

from ..host.mirror import Snapshot
from ..wire.json import JSON
from ..wire.surface import SurfaceSpec, surface_key
from . import fallback
from .messages import (
    Ack,
    AskView,
    Cancel,
    Forget,
    Operation,
    PageMessage,
    Resync,
    RunCommand,
)
from .operations import operate
from .picture import Pictures
from .widget import AgentView, read_bundle

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = ["SurfaceView"]


class SurfaceView(AgentView):
    """Shows one surface of an agent and sends its clicks there.

    Its traits are a projection of the agent's state, written by the publisher; neither a cell nor
    the page can assign them. `snapshot` is the frame as the agent wrote it: nothing in between
    decodes it.
    """

    _esm = read_bundle("surface.js")
    _css = read_bundle("surface.css")

    domain = t.Unicode(read_only=True).tag(sync=True)
    spec = t.Dict(read_only=True).tag(sync=True)
    snapshot = t.Bytes(read_only=True).tag(sync=True)
    epoch = t.Int(read_only=True).tag(sync=True)
    rev = t.Int(-1, read_only=True).tag(sync=True)
    stale = t.Bool(read_only=True).tag(sync=True)

    def __init__(
        self, session: AgentSession, domain: str, *, pictures: Pictures | None = None
    ) -> None:
        self._domain = domain
        self._first = session.mirror.tombstone(surface_key(domain))
        super().__init__(session, key=surface_key(domain), chat=False, pictures=pictures)

    def __repr__(self) -> str:
        return f"<SurfaceView {self._domain} of {self.session.name}>"

    def paint(self) -> str:
        return fallback.surface_html(self.session, self._domain)

    # The first values travel with the opening of the comm.

    @t.default("domain")
    def _default_domain(self) -> str:
        return self._domain

    @t.default("spec")
    def _default_spec(self) -> dict[str, Any]:
        return self._describe_spec()

    @t.default("snapshot")
    def _default_snapshot(self) -> bytes:
        return _line(self._first)

    @t.default("epoch")
    def _default_epoch(self) -> int:
        return 0 if self._first is None else self._first.epoch

    @t.default("rev")
    def _default_rev(self) -> int:
        return -1 if self._first is None else self._first.rev

    @t.default("stale")
    def _default_stale(self) -> bool:
        return self._first is not None and self._first.stale

    # ------------------------------------------------------------ for the publisher

    def describe(self) -> dict[str, Any]:
        surface = self.session.surface(self._domain)
        return {
            **super().describe(),
            "available": surface.available,
            "channel": surface.channel,
        }

    def _describe_spec(self) -> dict[str, Any]:
        spec = self.session.spec_of(self._domain)
        if spec is None:
            return {}
        told = spec.to_json()
        # The module itself goes by message: in a trait it would be saved, and run on reopening.
        told.pop("view", None)
        return {**told, "view": _fingerprint(spec)}

    def refresh(self) -> None:
        with self.hold_sync():
            self.set_trait("info", self.describe())
            self.set_trait("spec", self._describe_spec())

    def assign(self, held: Snapshot | None) -> None:
        with self.hold_sync():  # one message: the page never sees a torn pair
            self.set_trait("snapshot", _line(held))
            self.set_trait("epoch", 0 if held is None else held.epoch)
            self.set_trait("rev", -1 if held is None else held.rev)
            self.set_trait("stale", held is not None and held.stale)
        self.note_change()

    # ------------------------------------------------------------ from the pages

    def take(self, message: PageMessage) -> None:
        feed, ledger = self.feed, self.session.ledger
        match message:
            case Ack(page, version):
                feed.ack(page, version=version, seq=message.seq)
            case Resync(page):
                feed.want_state(page)
            case RunCommand():
                self._run(message)
            case Cancel(id_):
                if (command := ledger.seen(id_)) is not None:
                    command.cancel()
            case Forget(id_):
                if (command := ledger.seen(id_)) is not None:
                    command.forget()
            case AskView(page):
                self._send_view(page)
            case Operation():
                self._operate(message)
            case _:
                super().take(message)

    def _run(self, click: RunCommand) -> None:
        known = self.session.ledger.seen(click.id)
        if known is not None:
            # Sent again, because an answer did not come: tell where it is, run nothing.
            self.feed.note_command(known)
            return
        command = self.session.surface(self._domain).submit(
            click.action,
            click.args,
            actor="user",
            id=click.id,
            epoch=click.epoch,
            if_rev=click.if_rev,
        )
        if command.stage == "received":
            # Whatever else has become of it has been told already.
            self.feed.note_command(command)

    def _send_view(self, page: str) -> None:
        spec = self.session.spec_of(self._domain)
        module, css = ("", "") if spec is None else (spec.view_module, spec.view_css)
        content = {"kind": "view", "to": page, "view": _fingerprint(spec)}
        self.feed.post((content, [module.encode(), css.encode()]))

    def _operate(self, operation: Operation) -> None:
        def done(told: JSON) -> None:
            self.feed.tell("result", operation.id, {"ok": True, "stage": "done", "data": told})

        operate(self.session, self._domain, operation, done)


def _line(held: Snapshot | None) -> bytes:
    return b"" if held is None or held.deleted else held.line


def _fingerprint(spec: SurfaceSpec | None) -> str:
    """Tells one text of a view module from another; empty if there is none."""
    if spec is None or not spec.view_module:
        return ""
    return f"{zlib.crc32((spec.view_module + spec.view_css).encode()):08x}"

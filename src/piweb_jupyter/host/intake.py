"""From lines to the parts of a session: each frame to the one that it concerns."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from ..errors import ProtocolError
from ..wire import frames, host_frames
from ..wire.frames import (
    ClearQueueResult,
    CommandFinished,
    CommandResult,
    CommandStarted,
    Declaration,
    HostRequest,
    QuestionWithdrawn,
    RouteResult,
    RunnerReady,
    StateFrame,
    SurfaceDeclared,
    decode_frame,
)
from ..wire.rpc import Response, UiRequest

if TYPE_CHECKING:
    from .session import AgentSession

__all__ = ["Intake"]

_log = logging.getLogger(__name__)

# One request for all keys at a time; a peer that does not know it never answers.
_RESYNC_PATIENCE = 5.0


class Intake:
    """Takes in what one agent life writes; what comes after its end is nobody's.

    On `piweb-io`, but for `take_answers`.
    """

    def __init__(self, session: AgentSession, epoch: int) -> None:
        self._session = session
        self._epoch = epoch
        self._states_seen = False
        self._resync_at = 0.0
        self._untold: set[str] = set()  # keys whose states a borrower has taken in

    def take_lines(self, lines: list[bytes]) -> None:
        session = self._session
        for line in lines:
            if self._epoch != session.epoch or session.lifecycle not in ("ready", "starting"):
                return
            try:
                frame = decode_frame(line)
            except ProtocolError as exc:
                session.log.note(f"a line of the agent was skipped ({exc})")
                self._resync()
                continue
            try:
                if type(frame) is StateFrame:
                    if session.mirror.apply(frame, self._epoch):
                        self._states_seen = True
                        session.news.state(frame.key)
                elif type(frame) is CommandResult:
                    session.ledger.take_result(frame, len(line))
                else:
                    self._take_other(frame)
            except Exception as exc:
                # A fault of ours in one frame must not cost the frames behind it.
                _log.exception("a %s of %s was not taken in", type(frame).__name__, session.name)
                session.log.note(f"a {type(frame).__name__} was not taken in: {exc!r}")

    def may_lend(self) -> bool:
        """Whether no thread sleeps, and no view waits, until `piweb-io` has read its answer."""
        return not self._session.ledger.is_awaited()

    def take_answers(self, lines: list[bytes], wanted: object) -> tuple[bool, bool]:
        """Take in states and answers, on a thread that waits for the command `wanted`.

        Returns whether that was answered, and whether this was all: if not, there is something
        that is `piweb-io`'s to take in, and it takes all the lines, by `take_again`. An interrupt
        may leave it anywhere.
        """
        session = self._session
        answered = False
        if self._epoch != session.epoch or session.lifecycle != "ready":
            return answered, False
        try:
            for line in lines:
                frame = decode_frame(line)
                if type(frame) is StateFrame:
                    if session.mirror.apply(frame, self._epoch):
                        self._states_seen = True
                        self._untold.add(frame.key)
                elif type(frame) is CommandResult:
                    taken = session.ledger.take_answer(frame, wanted)
                    if taken is None:
                        return answered, False
                    answered = answered or taken
                else:
                    return answered, False
        except Exception:  # piweb-io meets it too, and says what it is
            return answered, False
        return answered, True

    def tell(self) -> None:
        """Tell of the states that borrowers have taken in."""
        untold = self._untold
        while untold:
            self._session.news.state(untold.pop())

    def take_again(self, lines: list[bytes]) -> None:
        """Take in lines of which `take_answers` may have taken some in."""
        self.take_lines(lines)
        session = self._session
        # It may have been interrupted between a state and the news of it.
        for key in session.mirror.versions():
            session.news.state(key)

    def take_oversize(self, head: bytes, size: int) -> None:
        """A line over the limit was dropped."""
        start = head[:200].decode("utf-8", "replace")
        text = f"a line of {size} bytes was skipped, it is over the limit: {start!r}"
        self._session.log.note(text)
        self._resync()

    def _take_other(self, frame: frames.Frame) -> None:
        session = self._session
        match frame:
            case CommandStarted():
                session.ledger.take_started(frame)
            case Response():
                # pi answers every pi-web line too, with "Unknown command": nobody asked that.
                session.requests.settle(frame)
            case UiRequest():
                session.chat.take_ui_request(frame)
            case RunnerReady():
                session.become_ready(self._epoch)
            case SurfaceDeclared(spec):
                session.catalogue.declare(spec)
                session.news.lifecycle()
            case Declaration(type_, fields):
                session.declarations[type_] = fields
                session.news.lifecycle()
            case CommandFinished():
                session.ledger.take_finished(frame)
            case QuestionWithdrawn():
                session.chat.take_withdrawal(frame)
            case ClearQueueResult() | RouteResult():
                session.chat.take_result(frame)
            case HostRequest(id_, method):
                text = f"this host does not offer {method!r}"
                refusal = {"code": "unsupported", "message": text}
                session.write_quietly(host_frames.encode_host_result(id_, error=refusal))
            case StateFrame() | CommandResult():
                raise AssertionError("taken before")
            case _:
                session.chat.take_event(frame)

    def _resync(self) -> None:
        """A line was lost, and it may have been a state: ask for all of them, once at a time."""
        session = self._session
        now = time.monotonic()
        if self._states_seen and now >= self._resync_at and session.epoch == self._epoch:
            self._resync_at = now + _RESYNC_PATIENCE
            session.write_quietly(host_frames.encode_state_get())

"""What an agent asks the person, and tells them: pi's extension UI, from Python.

Questions are coroutines: `select`, `confirm`, `input`, `editor` wait for the answer without holding
up anything else. What only tells (`notify`, `set_status`, …) returns at once, on any thread.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..agent.ui import Level, Placement
from ..wire.frames import encode_question_withdrawn
from ..wire.json import JSON
from ..wire.rpc import UiAnswer, UiRequest, encode_ui_request

if TYPE_CHECKING:
    import asyncio

__all__ = ["Ask"]


class Ask:
    """The person at the other end. One per agent; every method is safe from any thread or loop.

    A question that is cancelled, times out or is overtaken by an abort answers None (`confirm`:
    False). An abort of the turn cancels the coroutine of a tool that is waiting here.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._lock = threading.RLock()
        self._open: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Future[UiAnswer]]] = {}

    # ------------------------------------------------------------ questions

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None
    ) -> str | None:
        """Let the person choose one of the options; None when they choose none in time."""
        answer = await self._ask("select", {"title": title, "options": list(options)}, timeout)
        return answer.value

    async def confirm(self, title: str, message: str = "", *, timeout: float | None = None) -> bool:
        """Ask for a yes; anything else is a no."""
        answer = await self._ask("confirm", {"title": title, "message": message}, timeout)
        return answer.confirmed is True

    async def input(
        self, title: str, placeholder: str = "", *, timeout: float | None = None
    ) -> str | None:
        """Ask for a line of text."""
        fields = {"title": title} | ({"placeholder": placeholder} if placeholder else {})
        answer = await self._ask("input", fields, timeout)
        return answer.value

    async def editor(self, title: str, prefill: str = "") -> str | None:
        """Ask for a longer text; an empty one is None, as in pi."""
        fields = {"title": title} | ({"prefill": prefill} if prefill else {})
        answer = await self._ask("editor", fields, None)
        return answer.value or None

    # ------------------------------------------------------------ telling

    def notify(self, message: str, level: Level | None = None) -> None:
        """Show a message that needs no answer."""
        self._tell("notify", {"message": message} | ({"notifyType": level} if level else {}))

    def set_status(self, key: str, text: str | None) -> None:
        """Show a short status under a key; None takes it away."""
        self._tell("setStatus", {"statusKey": key} | ({} if text is None else {"statusText": text}))

    def set_widget(
        self, key: str, lines: Sequence[str] | None, placement: Placement | None = None
    ) -> None:
        """Show lines of text beside the composer; None takes them away."""
        fields: dict[str, JSON] = {"widgetKey": key}
        if lines is not None:
            fields["widgetLines"] = list(lines)
        if placement is not None:
            fields["widgetPlacement"] = placement
        self._tell("setWidget", fields)

    def set_title(self, title: str) -> None:
        """Name the conversation."""
        self._tell("setTitle", {"title": title})

    def set_editor_text(self, text: str) -> None:
        """Put a text into the composer, for the person to send or change."""
        self._tell("set_editor_text", {"text": text})

    # ------------------------------------------------------------ the runner's side

    def answer(self, answer: UiAnswer) -> None:
        """Hand an answer to who waits for it; unknown and second ones are passed over."""
        with self._lock:
            waiting = self._open.pop(answer.id, None)
        if waiting is not None:
            loop, future = waiting
            loop.call_soon_threadsafe(_resolve, future, answer)

    async def _ask(self, method: str, fields: dict[str, JSON], timeout: float | None) -> UiAnswer:
        import asyncio  # not at the start: an agent that never asks needs no loop

        id_ = str(uuid.uuid4())
        loop = asyncio.get_running_loop()
        future: asyncio.Future[UiAnswer] = loop.create_future()
        fields["withdraws"] = True
        if timeout is not None:
            fields["timeout"] = round(timeout * 1000)
        with self._lock:
            self._open[id_] = (loop, future)
        try:
            self._tell(method, fields, id_)
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return UiAnswer(id_, cancelled=True)
        finally:
            with self._lock:
                is_open = self._open.pop(id_, None) is not None
            if is_open:  # nobody waits for the answer any more
                self._write(encode_question_withdrawn(id_))

    def _tell(self, method: str, fields: dict[str, JSON], id_: str = "") -> None:
        self._write(encode_ui_request(UiRequest(id_ or str(uuid.uuid4()), method, fields)))


def _resolve(future: asyncio.Future[UiAnswer], answer: UiAnswer) -> None:
    if not future.done():
        future.set_result(answer)

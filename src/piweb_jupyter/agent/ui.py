"""Questions and notices for the person, from anywhere in an agent's code.

    from piweb_jupyter.agent import ui

    if await ui.confirm("Delete everything?"):
        ui.notify("gone")

A question waits without holding up anything else; a notice returns at once, on any thread. A
question that is cancelled or times out answers None (`confirm`: False), and an abort of the turn
cancels the tool that is waiting for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from ..errors import PiwebError

__all__ = [
    "confirm",
    "editor",
    "input",
    "notify",
    "select",
    "set_editor_text",
    "set_status",
    "set_title",
    "set_widget",
]

Level: TypeAlias = Literal["info", "warning", "error"]
Placement: TypeAlias = Literal["aboveEditor", "belowEditor"]


if TYPE_CHECKING:

    class UiSeam(Protocol):
        """What the runner puts behind these functions."""

        async def select(
            self, title: str, options: Sequence[str], *, timeout: float | None = None
        ) -> str | None: ...
        async def confirm(
            self, title: str, message: str = "", *, timeout: float | None = None
        ) -> bool: ...
        async def input(
            self, title: str, placeholder: str = "", *, timeout: float | None = None
        ) -> str | None: ...
        async def editor(self, title: str, prefill: str = "") -> str | None: ...
        def notify(self, message: str, level: Level | None = None) -> None: ...
        def set_status(self, key: str, text: str | None) -> None: ...
        def set_widget(
            self, key: str, lines: Sequence[str] | None, placement: Placement | None = None
        ) -> None: ...
        def set_title(self, title: str) -> None: ...
        def set_editor_text(self, text: str) -> None: ...


_installed: list[UiSeam] = []


def install_ui(seam: UiSeam) -> None:
    """Called by the runner, once per process."""
    _installed[:] = [seam]


def _ui() -> UiSeam:
    if not _installed:
        raise PiwebError("there is nobody to ask: no agent is running in this process")
    return _installed[0]


async def select(title: str, options: Sequence[str], *, timeout: float | None = None) -> str | None:
    """Let the person choose one of the options; None when they choose none in time (seconds)."""
    return await _ui().select(title, options, timeout=timeout)


async def confirm(title: str, message: str = "", *, timeout: float | None = None) -> bool:
    """Ask for a yes; anything else is a no."""
    return await _ui().confirm(title, message, timeout=timeout)


async def input(title: str, placeholder: str = "", *, timeout: float | None = None) -> str | None:
    """Ask for a line of text."""
    return await _ui().input(title, placeholder, timeout=timeout)


async def editor(title: str, prefill: str = "") -> str | None:
    """Ask for a longer text; an empty one is None."""
    return await _ui().editor(title, prefill)


def notify(message: str, level: Level | None = None) -> None:
    """Show a message that needs no answer."""
    _ui().notify(message, level)


def set_status(key: str, text: str | None) -> None:
    """Show a short status under a key; None takes it away."""
    _ui().set_status(key, text)


def set_widget(key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
    """Show lines of text beside the composer; None takes them away."""
    _ui().set_widget(key, lines, placement)


def set_title(title: str) -> None:
    """Name the conversation."""
    _ui().set_title(title)


def set_editor_text(text: str) -> None:
    """Put a text into the composer, for the person to send or change."""
    _ui().set_editor_text(text)

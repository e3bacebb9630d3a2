"""Views as outputs of a cell, where there is a kernel to show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.display import clear_output, display

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = ["find_kernel", "replace_soon", "show_chat", "show_session"]


def find_kernel(shell: Any) -> Any:
    """The ipykernel that runs this shell, or None in a plain IPython."""
    return getattr(shell, "kernel", None)


def show_session(session: AgentSession) -> None:
    """Chat and surfaces of a session."""
    from ..views import view_session

    display(view_session(session))  # type: ignore[no-untyped-call]


def show_chat(session: AgentSession) -> None:
    """The chat, and no other form of it: what a saved notebook keeps is the result of the cell."""
    from ..views import view_chat

    content = {"version_major": 2, "version_minor": 0, "model_id": view_chat(session).model_id}
    bundle = {"application/vnd.jupyter.widget-view+json": content}
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def replace_soon() -> None:
    """Have the next output take the place of what the cell has shown. Until then it stays."""
    clear_output(wait=True)  # type: ignore[no-untyped-call]

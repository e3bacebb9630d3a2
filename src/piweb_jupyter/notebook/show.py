"""Views as outputs of a cell, and who is there to see them and to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from IPython.display import clear_output, display

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = [
    "Audience",
    "can_hear",
    "find_audience",
    "find_kernel",
    "replace_soon",
    "show_chat",
    "show_session",
]

# How a question reaches somebody while the cell blocks: a `click` in the view, `ask` in the cell,
# or `nobody` is there (nbclient, papermill, nbval).
Audience: TypeAlias = Literal["click", "ask", "nobody"]


def find_kernel(shell: Any) -> Any:
    """The ipykernel that runs this shell, or None in a plain IPython."""
    return getattr(shell, "kernel", None)


def can_hear(kernel: Any) -> bool:
    """Whether the kernel can take a click while a cell blocks: it has subshells."""
    return bool(getattr(kernel, "_supports_kernel_subshells", False))


def find_audience(kernel: Any) -> Audience:
    """Who there is to answer a question, now.

    A front end that may not be asked for input is a program. One that has not made a subshell by
    the time it shows a view sends its clicks to the shell that is busy (VS Code does).
    """
    if not getattr(kernel, "_allow_stdin", True):
        return "nobody"
    if not can_hear(kernel):
        return "ask"
    manager: Any = getattr(getattr(kernel, "shell_channel_thread", None), "manager", None)
    subshells = manager.list_subshell() if hasattr(manager, "list_subshell") else ["unknown"]
    return "click" if subshells else "ask"


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

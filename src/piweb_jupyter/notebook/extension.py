"""`%load_ext piweb_jupyter` and `%unload_ext piweb_jupyter`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .complete import make_matcher
from .magic import PiwebMagics
from .sessions import drop_sessions, get_sessions
from .show import find_kernel

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..host.session import AgentSession

__all__ = ["load", "unload"]

_TURN = ("piweb_jupyter.host.turn", "Turn")


def load(shell: InteractiveShell) -> None:
    """Give the shell our magic, its completion, and a readable form of turns."""
    sessions = get_sessions()
    shell.register_magics(PiwebMagics(shell, sessions))
    completer: Any = shell.Completer
    if completer is not None:
        completer.custom_matchers.append(make_matcher(lambda: sessions.names))
    if find_kernel(shell) is not None:
        # By name: the class is loaded with the first session. In a terminal the text has streamed
        # into the scroll-back already, and the result need not say it again.
        _formatter(shell, "text/plain").for_type_by_name(*_TURN, _print_turn)
        _formatter(shell, "text/html").for_type_by_name(*_TURN, _draw_turn)
    sessions.on_forget(_close_views)


def unload(shell: InteractiveShell) -> None:
    """Close every session, and take back all that `load` gave."""
    drop_sessions()
    manager: Any = shell.magics_manager
    ours = manager.registry.pop("PiwebMagics", None)
    for table in manager.magics.values():
        for name, function in list(table.items()):
            if ours is not None and getattr(function, "__self__", None) is ours:
                del table[name]
    if ours in shell.configurables:
        shell.configurables.remove(ours)
    completer: Any = shell.Completer
    if completer is not None:
        completer.custom_matchers[:] = [
            matcher
            for matcher in completer.custom_matchers
            if getattr(matcher, "matcher_identifier", "") != "piweb_jupyter.matcher"
        ]
    for form in ("text/plain", "text/html"):
        formatter = _formatter(shell, form)
        formatter.deferred_printers.pop(_TURN, None)
        printers = formatter.type_printers
        for known in [cls for cls in printers if (cls.__module__, cls.__name__) == _TURN]:
            del printers[known]


def _formatter(shell: InteractiveShell, form: str) -> Any:
    formatters: Any = shell.display_formatter
    return formatters.formatters[form]


def _print_turn(turn: Any, printer: Any, cycle: bool) -> None:
    from .stream import tell_turn

    printer.text(tell_turn(turn))


def _draw_turn(turn: Any) -> str:
    from .stream import tell_turn_html

    return tell_turn_html(turn)


def _close_views(session: AgentSession) -> None:
    import sys

    # If no view was ever shown, there is none to close, and no reason to load what draws them.
    if (views := sys.modules.get("piweb_jupyter.views")) is not None:
        views.close_views(session)

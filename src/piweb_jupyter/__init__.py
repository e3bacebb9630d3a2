"""pi agents in notebooks: live surfaces, chat and cells that share one state.

    %load_ext piweb_jupyter
    %piweb ./my_agent

or, from Python, `piweb_jupyter.open("./my_agent")`. Importing this package is cheap: every name is
loaded when it is first asked for, because the agents' side imports it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from . import errors, views
    from .host.command import Command
    from .host.session import AgentSession
    from .host.surface import Surface
    from .host.turn import Turn
    from .notebook.sessions import open_session as open

__version__ = "0.1.0"

__all__ = [
    # starting
    "open",
    # what one gets
    "AgentSession",
    "Command",
    "Surface",
    "Turn",
    # rooms
    "errors",
    "views",
    # about
    "__version__",
]

_HOMES = {
    "open": (".notebook.sessions", "open_session"),
    "AgentSession": (".host.session", "AgentSession"),
    "Command": (".host.command", "Command"),
    "Surface": (".host.surface", "Surface"),
    "Turn": (".host.turn", "Turn"),
    "errors": (".errors", None),
    "views": (".views", None),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module_name, attribute = _HOMES[name]
    module = import_module(module_name, __name__)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """`%load_ext piweb_jupyter`: from now on there is `%piweb`."""
    from .notebook.extension import load

    load(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """`%unload_ext piweb_jupyter`: close every session; leave nothing behind."""
    from .notebook.extension import unload

    unload(ipython)

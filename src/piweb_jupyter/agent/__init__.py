"""What the author of an agent imports.

    from piweb_jupyter.agent import create_surface, define_agent

Importing it is cheap: pydantic is imported only by agents that use it, an event loop by none.
"""

from __future__ import annotations

from ..errors import AgentDefinitionError, StateValueError, SurfaceCommandError
from . import ui
from .context import Context, Spawned
from .definition import Agent, Request, define_agent
from .session_state import SessionState, get_session_state
from .surface import Surface, create_surface
from .tools import Tool, ToolContext

__all__ = [
    # defining
    "Agent",
    "Surface",
    "create_surface",
    "define_agent",
    # running
    "Context",
    "Request",
    "SessionState",
    "Spawned",
    "Tool",
    "ToolContext",
    "get_session_state",
    "ui",
    # errors
    "AgentDefinitionError",
    "StateValueError",
    "SurfaceCommandError",
]

"""Widgets that show an agent: its surfaces, its chat, both side by side."""

from __future__ import annotations

from .chat import ChatView
from .container import PiwebView, close_views, view_chat, view_session, view_surface
from .surface import SurfaceView

__all__ = [
    "ChatView",
    "PiwebView",
    "SurfaceView",
    "close_views",
    "view_chat",
    "view_session",
    "view_surface",
]

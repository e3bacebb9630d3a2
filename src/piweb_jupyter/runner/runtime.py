"""What the parts of a running agent share: the agent, the one way out, the state, the loop."""

from __future__ import annotations

from ..agent.definition import Agent
from .ask import Ask
from .loop import LoopThread
from .state import StateStore
from .surfaces import SurfaceHost
from .writer import Writer

__all__ = ["Runtime"]


class Runtime:
    """One running agent. Its parts are safe from any thread."""

    def __init__(self, agent: Agent, agent_path: str, writer: Writer) -> None:
        """Build the parts; nothing runs, and nothing is sent.

        Raises:
            AgentDefinitionError: If a surface of the agent is not valid.
        """
        self.agent = agent
        self.agent_path = agent_path
        self.writer = writer
        self.store = StateStore(writer)
        self.loop = LoopThread()
        self.ask = Ask(writer.write)
        self.surfaces = SurfaceHost(self, agent.surfaces)

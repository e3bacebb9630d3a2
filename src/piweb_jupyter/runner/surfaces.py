"""The surfaces of a running agent: their states, and the commands that change them in turn.

Commands of one surface run one after another, from whichever thread they come; `concurrent` ones
don't wait. A `def` handler runs on the thread that its turn comes on, which for a command from the
host is the reader's; an `async def` one runs on the loop. An answer is written before the next
command begins, and after the states that the command made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..agent.surface import Command, Surface
from ..errors import AgentDefinitionError
from ..wire.frames import encode_command_result, encode_surface_spec
from ..wire.host_frames import SurfaceCommand
from ..wire.json import JSON
from ..wire.surface import Actor
from .home import Home
from .outcome import Outcome

if TYPE_CHECKING:
    from .runtime import Runtime

__all__ = ["Outcome", "SurfaceHost", "SurfaceTool"]


class SurfaceTool:
    """A surface's command as a tool of the model. `parameters` is a JSON Schema of type object."""

    __slots__ = ("_host", "action", "description", "domain", "name", "parameters")

    def __init__(self, host: SurfaceHost, name: str, domain: str, command: Command) -> None:
        self._host = host
        self.name = name
        self.domain = domain
        self.action = command.name
        self.description = command.description or command.title or f"{command.name} of {domain}"
        self.parameters: dict[str, JSON] = (
            {"type": "object"} if command.arguments is None else command.arguments.schema
        )

    def run(self, args: JSON, call_id: str = "") -> Outcome:
        """Run the command for the model: `await outcome.wait()`; `outcome.cancel()` stops it."""
        return self._host.dispatch(
            self.domain, self.action, args, actor="llm", correlation_id=call_id
        )


class SurfaceHost:
    """All surfaces of the agent. `dispatch` and `cancel` are safe from any thread."""

    def __init__(self, runtime: Runtime, surfaces: Iterable[Surface[Any]]) -> None:
        """Give every surface its home.

        Raises:
            AgentDefinitionError: If a surface is not valid.
        """
        self._writer = runtime.writer
        self._active: dict[str, Outcome] = {}
        self._homes = {surface.domain: Home(surface, runtime, self._active) for surface in surfaces}
        self._specs = [home.surface.to_spec() for home in self._homes.values()]
        self._tools = self._name_tools({tool.name for tool in runtime.agent.tools})

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(self._homes)

    def declare(self) -> None:
        """Line up the declarations of the surfaces."""
        for spec in self._specs:
            self._writer.put(encode_surface_spec(spec))

    def start(self) -> None:
        """Line up the initial states; surfaces that hydrate send theirs when they have it."""
        for home in self._homes.values():
            home.start()

    def handle(self, command: SurfaceCommand) -> None:
        """Run a command of the host; the answer is written when there is one."""
        home = self._homes.get(command.domain)
        if home is None:
            known = ", ".join(self._homes) or "none"
            self._refuse(
                command,
                "surface_not_registered",
                f"there is no surface `{command.domain}`; registered: {known}",
            )
            return
        home.submit(
            Outcome(
                command.action,
                command.args,
                command.actor,
                command.correlation_id,
                command.if_rev,
                answers=True,
            )
        )

    def dispatch(
        self,
        domain: str,
        action: str,
        args: JSON = None,
        *,
        actor: Actor,
        correlation_id: str = "",
        if_rev: int | None = None,
    ) -> Outcome:
        """Run a command for somebody in this process. A `def` handler whose turn it is has ended
        when this returns."""
        outcome = Outcome(action, args, actor, correlation_id, if_rev, answers=False)
        home = self._homes.get(domain)
        if home is None:
            outcome.fail("surface_not_registered", f"there is no surface `{domain}`")
        else:
            outcome.given, outcome.rev_before = args, home.rev
            home.submit(outcome)
        return outcome

    def cancel(self, correlation_id: str) -> None:
        """Ask a command to stop, and what it has spawned. Unknown ones are passed over."""
        outcome = self._active.get(correlation_id)
        if outcome is not None:
            outcome.cancel()
        for home in self._homes.values():
            home.cancel_spawned_by(correlation_id)

    def tools(self) -> tuple[SurfaceTool, ...]:
        """The commands that the model may use."""
        return self._tools

    def _name_tools(self, taken: set[str]) -> tuple[SurfaceTool, ...]:
        """A tool is called like its command; where two would be, the domain comes before it."""
        offered = [
            (domain, command)
            for domain, home in self._homes.items()
            for command in home.surface.commands.values()
            if command.llm
        ]
        count = Counter(_tool_name(command.name) for _, command in offered)
        tools: list[SurfaceTool] = []
        for domain, command in offered:
            name = _tool_name(command.name)
            if count[name] > 1 or name in taken:
                name = _tool_name(f"{domain}_{command.name}")
            if name in taken or any(name == tool.name for tool in tools):
                raise AgentDefinitionError(
                    f"command `{command.name}` of surface `{domain}` would be a second tool called "
                    f"`{name}`; rename it, or keep it from the model with llm=False"
                )
            tools.append(SurfaceTool(self, name, domain, command))
        return tuple(tools)

    def _refuse(self, command: SurfaceCommand, code: str, message: str) -> None:
        self._writer.write(
            encode_command_result(
                command.correlation_id, command.domain, command.action, error=(code, message)
            )
        )


def _tool_name(text: str) -> str:
    """What every provider accepts as a tool's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)[:64]


def describe_unknown(action: str, known: Iterable[str]) -> str:
    """A sentence for an action that is not in the table, with the nearest that is."""
    import difflib  # at the start it would cost more than it is worth

    names = list(known)
    near = difflib.get_close_matches(action, names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(names) or 'none'}"
    return f"there is no command `{action}`; {hint}"

"""An agent that starts when somebody opens its gate: the pipe in `PIWEB_TEST_GATE`, if any."""

from __future__ import annotations

import os
from pathlib import Path

from piweb_jupyter.agent import Context, create_surface, define_agent

if gate := os.environ.get("PIWEB_TEST_GATE"):
    Path(gate).read_bytes()

plan = create_surface("plan", {"title": "Move house", "steps": ["pack", "carry", "unpack"]})


@plan.command
def add(ctx: Context[dict[str, object]], step: str) -> None:
    """Write another step."""
    ctx.set_state(lambda s: {**s, "steps": [*s["steps"], step]})  # type: ignore[misc]


agent = define_agent(system_prompt="You plan.", model="stub", surfaces=[plan])

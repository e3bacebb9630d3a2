"""An agent that is about to die: it works for ever, starts processes, and exits on SIGUSR1."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from typing import Any

from piweb_jupyter.agent import Context, create_surface, define_agent

signal.signal(signal.SIGUSR1, lambda *_: os._exit(3))

demo = create_surface("demo", {"working": False, "family": []})


@demo.command
async def work(ctx: Context[dict[str, Any]]) -> None:
    """Never ends."""
    ctx.set_state(lambda state: {**state, "working": True})
    await asyncio.Event().wait()


@demo.command
async def raise_family(ctx: Context[dict[str, Any]]) -> None:
    """Starts processes in sessions and environments of their own, and never ends."""
    commands = [
        ["sh", "-c", "echo; exec setsid sleep 600"],
        ["sh", "-c", "setsid sleep 601 & echo; sleep 602"],
        [
            "sh",
            "-c",
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 603 & echo; wait; sleep 604'",
        ],
    ]
    family = [
        subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: ASYNC220 - as users do
        for command in commands
    ]
    for process in family:
        assert process.stdout is not None
        process.stdout.readline()  # it has its children
    ctx.set_state({"working": True, "family": [process.pid for process in family]})
    await asyncio.Event().wait()


agent = define_agent(model="stub", surfaces=[demo])

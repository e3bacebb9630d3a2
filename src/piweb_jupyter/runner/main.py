"""The agent's process: takes stdin and stdout for the protocol, loads the agent, serves.

    python -m piweb_jupyter.runner --agent PATH [--model M] [--cwd D] [--session-id ID]

Exit codes: 0 the host closed stdin, 1 the agent did not start, 2 wrong arguments, 143 SIGTERM.
Whatever happens, the process is gone within a second after the host has closed stdin
or asked for the end: a handler that doesn't return can not hold it up, and neither can a host that
does not read.
"""

from __future__ import annotations

import gc
import os
import sys

from ..agent.session_state import install_state
from ..agent.ui import install_ui
from ..wire.frames import encode_declaration, encode_ready
from .end import Ending
from .loading import StartFailure, checked, load_agent
from .options import Options, UsageError
from .reader import Reader
from .report import say
from .router import Router
from .routes import Routes
from .rpc import RpcLoop
from .runtime import Runtime
from .writer import Writer

__all__ = ["main"]

# Seconds that tasks get to clean up after they were cancelled; less than the end's own bound.
_CLEANUP_TIMEOUT = 0.5


def main(argv: list[str] | None = None) -> int:
    """Run one agent until its host is gone. Returns the exit code."""
    try:
        stdin, stdout = _take_stdio()
    except OSError:
        say("stdin and stdout must be open: a host speaks to the agent through them")
        return 2
    try:
        options = Options.parse(sys.argv[1:] if argv is None else argv)
    except UsageError as exc:
        say(str(exc))
        return 2
    try:
        return _serve(options, stdin, stdout)
    except StartFailure as exc:
        say(f"the agent did not start: {exc}")
        return 1


def _take_stdio() -> tuple[int, int]:
    """Keep the pipes for the protocol; the agent's own code reads nothing, and prints to stderr."""
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    if os.name == "posix":  # a host may have left them non-blocking; then each line costs more
        os.set_blocking(stdin, True)
        os.set_blocking(stdout, True)
    return stdin, stdout


def _serve(options: Options, stdin: int, stdout: int) -> int:
    if options.session_id:
        os.environ["PI_WEB_SESSION_ID"] = options.session_id
    path = os.path.abspath(options.agent)
    if options.cwd:
        try:
            os.chdir(options.cwd)
        except OSError as exc:
            raise StartFailure(
                f"cannot work in {options.cwd!r}: {exc.strerror}\ngive another --cwd"
            ) from None
    agent, file = load_agent(path)
    writer = Writer(stdout)
    runtime = checked(lambda: Runtime(agent, file, writer))
    rpc = checked(lambda: RpcLoop(runtime, model=options.model, session_id=options.session_id))
    routes = Routes(runtime)
    router = Router(runtime, rpc, routes)
    reader = Reader(stdin, router.handle, router.refuse_oversize, writer)
    ending = Ending(writer, reader)
    writer.on_broken = lambda: ending.begin(1)
    runtime.loop.on_exit = ending.begin
    install_state(runtime.store)
    install_ui(runtime.ask)
    ending.watch(stdin)
    routes.declare()
    if agent.slash_completions:
        writer.put(encode_declaration("slash_completions", {"items": agent.slash_completions}))
    runtime.surfaces.declare()
    runtime.surfaces.start()
    gc.freeze()  # what there is now stays for as long as the process
    gc.enable()
    writer.write(encode_ready())
    try:
        reader.run()
    finally:
        ending.bound(ending.code)
        # What still runs is dropped, and what it says with it.
        writer.close()
        rpc.close()
        runtime.loop.close(_CLEANUP_TIMEOUT)
    return ending.code

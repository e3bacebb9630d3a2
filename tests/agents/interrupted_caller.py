"""Waits for answers under KeyboardInterrupt, and prints what became of the commands.

`interrupted_caller.py INTERRUPTS`. The interrupts come from a timer that is set to a random moment
of the next wait. Printed: how many hit while this thread read the agent's stdout itself; how many
commands were then never settled, were not in the journal exactly once, or had another's answer; how
many states were missing, and whether the mirror ended on the agent's state, and the listener with
it.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from piweb_jupyter.host.command import Command
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import LaunchSpec

COUNTER = Path(__file__).with_name("counter.py")
PATIENCE = 20.0


class Listener:
    """Hears of states, as a publisher would."""

    def __init__(self) -> None:
        self.last = (0, -1)
        self.disordered = 0
        self._news = threading.Condition()

    def on_state(self, session: AgentSession, key: str) -> None:
        held = session.mirror.get(key)
        if held is not None and key == "surface:demo":
            with self._news:
                self.disordered += held.version < self.last
                self.last = held.version
                self._news.notify_all()

    def until(self, version: tuple[int, int]) -> bool:
        """Whether it hears of that one, and has heard of none too late."""
        with self._news:
            self._news.wait_for(lambda: self.last == version, PATIENCE)
            return self.last == version and not self.disordered

    def on_transcript(self, session: AgentSession, ops: list[Any]) -> None: ...
    def on_command(self, session: AgentSession, command: Command) -> None: ...
    def on_question(self, session: AgentSession) -> None: ...
    def on_lifecycle(self, session: AgentSession) -> None: ...


def main() -> None:
    interrupts = int(sys.argv[1])
    argv = (sys.executable, str(COUNTER))
    session = AgentSession(LaunchSpec("command", "counter", COUNTER, argv, COUNTER.parent, "c"))
    session.news.listener = listener = Listener()
    session.start()
    session.wait_ready(PATIENCE)
    surface = session.surface("demo")
    aiming = False
    hits = 0

    def interrupt(_number: int, frame: FrameType | None) -> None:
        nonlocal hits
        if not aiming:
            return
        while frame is not None:
            if frame.f_code.co_name == "read_here":
                hits += 1
                break
            frame = frame.f_back
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    commands: list[Command] = []
    reach = 1e-4
    while hits < interrupts:
        for _ in range(3):  # what was interrupted is taken back; it is lent again after an answer
            surface.run("echo")
        command = surface.submit("increment")
        commands.append(command)
        try:
            aiming = True
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, random.uniform(0.0, 2.0) * reach))
            command.result()
            aiming = False
            reach *= 0.95
        except KeyboardInterrupt:
            aiming = False
            reach = min(1e-3, reach * 1.02)
    signal.setitimer(signal.ITIMER_REAL, 0)

    unsettled = wrong = 0
    for number, command in enumerate(commands, 1):
        try:
            wrong += command.result(PATIENCE) != {"count": number}
        except TimeoutError:
            unsettled += 1
    final = surface.submit("echo", n="last")
    final.result(PATIENCE)
    kept = Counter(entry.action for entry in session.ledger.journal())
    kept_once = {id(command) for command in session.ledger._finished}  # noqa: SLF001
    twice = len(session.ledger._finished) - len(kept_once)  # noqa: SLF001
    missing = len(commands) - kept["increment"] if sum(kept.values()) < 10_000 else 0
    told = listener.until((surface.epoch, surface.rev))
    right = surface.state == {"count": len(commands)} and surface.rev == len(commands)
    pending = len(session.ledger.pending)
    gaps = session.mirror.gaps
    session.close()
    print(
        f"hits={hits} unsettled={unsettled} wrong={wrong} twice={twice} missing={missing} "
        f"pending={pending} gaps={gaps} right={right} told={told}"
    )


if __name__ == "__main__":
    main()

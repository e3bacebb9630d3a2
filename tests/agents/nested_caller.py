"""Waits for answers in finalizers and signal handlers, and prints what became of the commands.

`nested_caller.py finalizer|signal HITS`. The finalizers are those of garbage that is made on the
way; the signals come from a timer that is set to a random moment. It ends when so many of them have
hit while this thread read the agent's stdout itself. Printed: how many waits ended in another way
than with the answer or with a `NestedWaitError`, whether there were any of these, how many commands
are still pending, and whether every command has counted once.
"""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from piweb_jupyter.errors import NestedWaitError
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.host.surface import Surface
from piweb_jupyter.sources.spec import LaunchSpec

COUNTER = Path(__file__).with_name("counter.py")
PATIENCE = 20.0


def was_reading(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "read_here":
            return True
        frame = frame.f_back
    return False


class Nested:
    """Commands that are run where something else has been interrupted."""

    def __init__(self, session: AgentSession, surface: Surface) -> None:
        self.hits = self.refused = self.sent = 0
        self.failures: list[str] = []
        self._ways: list[Callable[[], object]] = [
            lambda: surface.run("increment"),
            lambda: surface.submit("increment").result(PATIENCE),
            lambda: self._await_state(surface),
            lambda: (session.request("get_state", PATIENCE), surface.submit("increment")),
        ]

    def _await_state(self, surface: Surface) -> None:
        rev = surface.rev
        surface.submit("increment")
        surface.until(lambda _: surface.rev > rev, timeout=PATIENCE).wait()

    def run(self, frame: FrameType | None) -> None:
        reading = was_reading(frame)
        self.sent += 1
        try:
            self._ways[self.sent % len(self._ways)]()
        except NestedWaitError:
            self.refused += 1
        except BaseException as exc:
            self.failures.append(repr(exc))
        else:
            self.hits += reading


def interrupt_by_signals(nested: Nested, surface: Surface, hits: int) -> int:
    def handle(_number: int, frame: FrameType | None) -> None:
        if nested.hits < hits:
            nested.run(frame)
            signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 4e-4))

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 1e-4)
    count = 0
    while nested.hits < hits:
        surface.run("increment")
        count += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    return count


def interrupt_by_finalizers(nested: Nested, surface: Surface, hits: int) -> int:
    class Garbage:
        def __init__(self) -> None:
            self.myself = self

        def __del__(self) -> None:
            if nested.hits < hits:
                nested.run(sys._getframe())  # noqa: SLF001

    count = 0
    while nested.hits < hits:
        Garbage()
        surface.run("increment")
        count += 1
    return count


def main() -> None:
    kind, hits = sys.argv[1], int(sys.argv[2])
    argv = (sys.executable, str(COUNTER))
    session = AgentSession(LaunchSpec("command", "counter", COUNTER, argv, COUNTER.parent, "c"))
    session.start()
    session.wait_ready(PATIENCE)
    surface = session.surface("demo")
    nested = Nested(session, surface)
    interrupt = interrupt_by_signals if kind == "signal" else interrupt_by_finalizers
    count = interrupt(nested, surface, hits)
    for command in list(session.ledger.pending.values()):
        command.result(PATIENCE)
    # What was refused may have been refused before it was sent: a request is sent first, and waits.
    counted = surface.run("increment")["count"] - 1
    right = count + nested.sent - nested.refused <= counted <= count + nested.sent
    pending = len(session.ledger.pending)
    session.close()
    print(f"failures={nested.failures[:3]} pending={pending} right={right}")


if __name__ == "__main__":
    main()

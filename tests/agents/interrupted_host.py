"""Sends frames to `checker.py` under KeyboardInterrupt, and prints what became of them.

`interrupted_host.py SIZE INTERRUPTS`. The interrupts come from a timer that is set to a random
moment of the next `send`, as a user's would come from the keyboard. Printed: how many
hit code of the host, how many lines were torn, came twice or out of order, and how many frames were
lost whose `send` had returned.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType

from piweb_jupyter.host.process import AgentProcess

CHECKER = Path(__file__).with_name("checker.py")


def main() -> None:
    size, interrupts = map(int, sys.argv[1:])
    said: list[bytes] = []
    synced = threading.Semaphore(0)

    def on_lines(lines: list[bytes]) -> None:
        for line in lines:
            if line in (b"sync", b"ready"):
                synced.release()
            else:
                said.append(line)

    agent = AgentProcess(
        [sys.executable, "-I", "-S", str(CHECKER)],
        cwd=Path.cwd(),
        env={},
        on_lines=on_lines,
        on_stderr=lambda _: None,
        on_oversize=lambda *_: None,
        on_exit=lambda _: None,
    )
    synced.acquire()
    aiming = False
    hits = 0

    def interrupt(_number: int, frame: FrameType | None) -> None:
        nonlocal hits
        if aiming:
            hits += frame is not None and "/host/" in frame.f_code.co_filename
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    bodies = [bytes((letter,)) * size for letter in range(ord("a"), ord("z") + 1)]
    returned: set[int] = set()
    number = 0
    # It finds its own range: shorter after a miss behind, longer after one before. The former cost
    # a frame on its way, so there should be ten of the latter to one.
    reach = 5e-6
    while hits < interrupts:
        number += 1
        frame = b"%d %s\n" % (number, bodies[number % len(bodies)])
        before = hits
        try:
            aiming = True
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, random.uniform(0.0, 2.0) * reach))
            agent.send(frame)
            returned.add(number)
            aiming = False
            reach *= 0.9
        except KeyboardInterrupt:
            aiming = False
            if hits == before:
                reach *= 1.01
        if number % 64 == 0:  # the checker must keep up, or the queue fills
            agent.send(b"sync\n")
            synced.acquire()
    agent.send(b"sync\n")
    synced.acquire()
    agent.close()
    agent.wait(10)

    torn = sum(not line.endswith(b" whole") for line in said)
    numbers = [int(line.split()[0]) for line in said if line.endswith(b" whole")]
    disordered = sum(later <= earlier for earlier, later in pairwise(numbers))
    print(f"hits={hits} torn={torn} disordered={disordered} lost={len(returned - set(numbers))}")


if __name__ == "__main__":
    main()

"""A kernel's place-holder: runs agents with AgentProcess, and does or suffers what it is told.

`stand_in_host.py COUNT PROGRAM [ARG…]` prints `ready PID…` when COUNT agents run. Then lines:
`close` ends them and prints `closed`; `fork` makes a copy of this process that lives on,
`fork-exit` one that ends at once as Python ends; both print their pid; `pids` prints which agents
run; `exit` and the end of stdin end it as a kernel ends; signals are for the test.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from piweb_jupyter.host.process import AgentProcess, close_all


def main() -> None:
    count, program, *args = sys.argv[1:]
    ready = threading.Semaphore(0)

    def on_lines(lines: list[bytes]) -> None:
        if lines[0].startswith(b"ready"):
            ready.release()

    agents = [
        AgentProcess(
            [sys.executable, "-I", "-S", program, *args],
            cwd=Path.cwd(),
            env={},
            on_lines=on_lines,
            on_stderr=lambda _: None,
            on_oversize=lambda *_: None,
            on_exit=lambda _: None,
        )
        for _ in range(int(count))
    ]
    for _ in agents:
        ready.acquire()
    print("ready", *(agent.pid for agent in agents), flush=True)
    for line in sys.stdin:
        match line.strip():
            case "close":
                close_all(agents)
                print("closed", flush=True)
            case "fork" | "fork-exit" as command:
                if os.fork() == 0:
                    print(os.getpid(), flush=True)
                    if command == "fork":
                        signal.pause()
                    return
            case "pids":
                running = [agent for agent in agents if agent.returncode is None]
                print("running", *(agent.pid for agent in running), flush=True)
            case "exit":
                return


if __name__ == "__main__":
    main()

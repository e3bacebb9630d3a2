"""What a kernel's memory does while an agent floods a view that does not answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .report import Figure, at_most, note
from .visits import Scale

__all__ = ["measure"]


def measure(scale: Scale) -> Iterator[Figure]:
    megabytes = scale.count(200, 2)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(megabytes)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    detail = f"{found['seconds']:.1f} s, {found['sent'] / 1e6:.1f} MB sent to the view"
    what = f"{megabytes} MB of events, the view paused: growth of the kernel's peak RSS"
    yield at_most("memory", what, found["grown_mb"], 80, "MB", detail)
    behind = int(not found["fresh"])
    yield at_most("memory", "  presents that lack the end, once the view goes on", behind, 0, "")
    yield note("memory", "  the present that it goes on with", found["present"] / 1e6, "MB")


class _Paused:
    """A view whose page has said hello and is silent from then on."""

    def __init__(self) -> None:
        self.sent = 0
        self.present: bytes | None = None
        self.has_present = threading.Event()

    def refresh(self) -> None: ...

    def assign(self, held: object) -> None: ...

    def send(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        self.sent += sum(len(buffer) for buffer in buffers or ())
        if content["kind"] == "present" and buffers:
            self.present = buffers[0]
            self.has_present.set()


def _flood(megabytes: int) -> None:
    from piweb_jupyter.host.publisher import get_publisher
    from piweb_jupyter.host.session import AgentSession
    from piweb_jupyter.sources.spec import LaunchSpec

    talker = Path(__file__).parent / "agents" / "talker.py"
    argv = (sys.executable, str(talker))
    spec = LaunchSpec("command", "talker", talker.parent, argv, talker.parent, "talker")
    view = _Paused()
    with AgentSession(spec) as session:
        session.start()
        session.wait_ready()
        feed = get_publisher().attach(session, view, chat=True)
        feed.hello("page")
        session.prompt("1").wait(60)
        before = _peak_mb()
        begin = time.perf_counter()
        session.prompt(str(megabytes)).wait(600)
        seconds = time.perf_counter() - begin
        grown = _peak_mb() - before
        view.has_present.clear()
        feed.hello("page")
        feed.want_present("page")
        view.has_present.wait(20)
        present = view.present or b"{}"
        last = session.transcript.to_json()["messages"][-1]
        fresh = json.loads(present).get("chat", {}).get("messages", [{}])[-1] == last
        get_publisher().detach(feed)
    print(
        json.dumps(
            {
                "grown_mb": grown,
                "seconds": seconds,
                "sent": view.sent,
                "present": len(present),
                "fresh": fresh,
            }
        )
    )


def _peak_mb() -> float:
    """The most that this process has ever held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    _flood(int(sys.argv[1]))

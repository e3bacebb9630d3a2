"""What a beginning costs: an agent until it is ready, its memory, and `%load_ext`."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import piweb_jupyter

from .peers.piweb import AGENTS, launch
from .report import Figure, at_most, note
from .visits import Scale, summarise

__all__ = ["measure"]

_BARE = "import os; os.write(1, b'ready\\n'); os.read(0, 1)"

_LOAD_EXT = """
import sys, time
import ipykernel.ipkernel, ipywidgets
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
begin = time.perf_counter()
shell.run_line_magic("load_ext", "piweb_jupyter")
print((time.perf_counter() - begin) * 1000)
shell.run_line_magic("unload_ext", "piweb_jupyter")
"""


def measure(scale: Scale) -> Iterator[Figure]:
    # An installer compiles what it installs; a checkout may never have been compiled.
    for directory in (Path(piweb_jupyter.__file__).parent, AGENTS):
        compileall.compile_dir(directory, quiet=2)
    less = scale.at_most(12)
    with launch(AGENTS / "counter.py", "keeper") as keeper:
        # The warden and the I/O thread are there once per kernel, not once per agent.
        keeper.wait_ready()
        for file, name, bar in (("counter.py", "dict", 10), ("typed.py", "pydantic", 20)):
            pairs, memory = [], 0.0
            for turn in range(less.pairs):
                if turn % 2:
                    ours, memory = _start_agent(AGENTS / file)
                    pairs.append((_start_bare(), ours))
                else:
                    bare = _start_bare()
                    ours, memory = _start_agent(AGENTS / file)
                    pairs.append((bare, ours))
            found = summarise(pairs)
            ms = f"bare {found.a:.0f} ms, agent {found.b:.0f} ms"
            yield at_most(
                "start", f"agent with a {name} state, spawn to ready / bare Python", found, bar
            )
            yield note("start", "  the medians of this run", found.b, "ms", ms)
            yield at_most("start", f"agent with a {name} state, private memory", memory, 30, "MB")
    times = sorted(_load_ext() for _ in range(scale.count(7, 1)))
    detail = f"{times[0]:.0f} … {times[-1]:.0f}"
    yield at_most(
        "start", "%load_ext, on top of ipywidgets", times[len(times) // 2], 60, "ms", detail
    )


def _start_bare() -> float:
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return (time.perf_counter() - begin) * 1000


def _start_agent(agent: Path) -> tuple[float, float]:
    """Milliseconds from the spawn until it takes commands; its private memory in MB."""
    begin = time.perf_counter()
    with launch(agent, "started") as session:
        session.wait_ready()
        ready = (time.perf_counter() - begin) * 1000
        session.surface("demo").run("increment", by=1)
        return ready, _private_mb(session.pid or 0)


def _private_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _load_ext() -> float:
    done = subprocess.run(
        [sys.executable, "-c", _LOAD_EXT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PIWEB_TRUST": "always"},
    )
    return float(done.stdout.split()[0])

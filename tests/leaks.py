"""Finds what a test module left running: our threads, and any process that descends from it.

Agents live in OS sessions of their own and may be adopted by init, so they are recognised by a
variable that this run of pytest puts into the environment of everything it starts.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Iterator

import psutil

MARK = "PIWEB_TEST_RUN"
RUN = uuid.uuid4().hex

# An agent whose kernel has died without a word is ended within 6 s; a closed one much sooner.
PROCESS_GRACE = 7.0
THREAD_GRACE = 2.0

_long_lived: set[int] = set()


def mark_environment() -> None:
    """From now on, everything that is started carries the mark."""
    os.environ[MARK] = RUN


def marked_processes() -> list[psutil.Process]:
    """Every living process of this run but pytest itself. A zombie is not alive."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == RUN:
                found.append(process)
    return found


@contextlib.contextmanager
def starting_for_the_session() -> Iterator[None]:
    """What is started inside, and what that starts, may outlive the module that asked for it."""
    before = {process.pid for process in marked_processes()}
    yield
    _long_lived.update(process.pid for process in marked_processes() if process.pid not in before)


def _belongs_to_the_session(process: psutil.Process) -> bool:
    family = {process.pid}
    with contextlib.suppress(psutil.Error):
        family.update(parent.pid for parent in process.parents())
    return bool(family & _long_lived)


def surviving_processes(grace: float = PROCESS_GRACE) -> list[psutil.Process]:
    """The processes that are still there after `grace` seconds and have no leave to be."""
    candidates = [p for p in marked_processes() if not _belongs_to_the_session(p)]
    if not candidates:
        return []
    return list(psutil.wait_procs(candidates, timeout=grace)[1])


def surviving_threads(grace: float = THREAD_GRACE) -> list[str]:
    """The names of our threads that do not end within `grace` seconds."""
    deadline = time.monotonic() + grace
    ours = [t for t in threading.enumerate() if t.name.startswith("piweb-")]
    for thread in ours:
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted(thread.name for thread in ours if thread.is_alive())


def describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(process.pid)

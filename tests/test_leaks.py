from __future__ import annotations

import subprocess
import sys
import threading

from tests import leaks


def test_a_process_in_a_session_of_its_own_is_found() -> None:
    # The shell goes at once and the orphan is adopted by init.
    with subprocess.Popen([sys.executable, "-c", _FORK], stdin=subprocess.PIPE) as parent:
        parent.wait(20)
        survivors = leaks.surviving_processes(grace=0.1)
        assert len(survivors) == 1
        assert parent.stdin is not None
        parent.stdin.close()
    assert leaks.surviving_processes() == []


def test_a_process_that_was_started_for_the_session_may_stay() -> None:
    with leaks.starting_for_the_session():
        child = subprocess.Popen([sys.executable, "-c", _READ], stdin=subprocess.PIPE)
    assert leaks.surviving_processes(grace=0.1) == []
    child.communicate(timeout=20)


def test_a_thread_of_ours_is_found_by_its_name() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="piweb-left-behind")
    thread.start()
    assert leaks.surviving_threads(grace=0.05) == ["piweb-left-behind"]
    end.set()
    thread.join()
    assert leaks.surviving_threads() == []


_READ = "import sys; sys.stdin.read()"
_FORK = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {_READ!r}], start_new_session=True)
"""

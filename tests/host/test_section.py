"""Waiting in the middle of ours, or on piweb-io, as a finalizer may try."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from piweb_jupyter.errors import NestedWaitError
from piweb_jupyter.host.pump import get_pump
from piweb_jupyter.host.section import STUCK_TIME, section, wait_for
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.host.surface import Surface
from tests.host.opening import Open, opener

PATIENCE = 20.0


def counted(surface: Surface) -> object:
    return surface.until(lambda state: state["count"] == 1, timeout=PATIENCE).wait()


WAITS: dict[str, Callable[[Surface], object]] = {
    "run": lambda surface: surface.run("increment"),
    "result with a timeout": lambda surface: surface.submit("increment").result(PATIENCE),
    "request": lambda surface: (surface.submit("increment"), surface.session.request("get_state")),
    "turn": lambda surface: (surface.submit("increment"), surface.session.prompt("hi").wait()),
}
# For a state alone, who holds this lock does wait.
WAITS_ON_IO = WAITS | {"until": lambda surface: (surface.submit("increment"), counted(surface))}


@pytest.fixture
def open_() -> Iterator[Open]:
    with opener() as open_:
        yield open_


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_that_can_never_end_says_so_and_what_it_asked_for_goes_on(
    open_: Open, wait: Callable[[Surface], object]
) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    session.request("get_state")  # from here on piweb-io reads; who reads himself can wait
    with surface.session.ledger.settling, pytest.raises(NestedWaitError, match="use `submit`"):
        wait(surface)
    counted(surface)
    assert surface.run("increment") == {"count": 2}


@pytest.mark.parametrize("wait", WAITS_ON_IO.values(), ids=WAITS_ON_IO)
def test_piweb_io_waits_for_nothing_that_it_brings(
    open_: Open, wait: Callable[[Surface], object]
) -> None:
    surface = open_("counter").surface("demo")
    surface.run("echo")
    with pytest.raises(NestedWaitError, match="use `submit`"):
        get_pump().run(lambda: wait(surface))
    counted(surface)
    assert surface.run("increment") == {"count": 2}


def test_piweb_io_may_look_whether_it_is_done(open_: Open) -> None:
    command = open_("counter").surface("demo").submit("hold")
    with pytest.raises(TimeoutError):
        get_pump().run(lambda: command.result(0))


@pytest.mark.parametrize("where", ["piweb-io", "inside"])
def test_what_was_queued_comes_back_where_nobody_may_wait(open_: Open, where: str) -> None:
    session = open_("counter")
    session.prompt("wait")
    session.steer("and this")
    deadline = time.monotonic() + PATIENCE
    while session.transcript.meta["queue"]["steering"] != ["and this"]:
        session.request("get_state")  # its answer comes behind the news of the queue
        assert time.monotonic() < deadline
    if where == "piweb-io":
        texts = get_pump().run(session.clear_queue)
    else:
        with session.ledger.settling:
            texts = session.clear_queue()
    assert texts == (["and this"], [])


def test_a_start_is_not_waited_for_inside(open_: Open) -> None:
    session = open_("counter", "--silent", ready=False)
    with session.ledger.settling, pytest.raises(NestedWaitError):
        session.wait_ready()
    with pytest.raises(NestedWaitError):
        get_pump().run(session.wait_ready)


@pytest.mark.parametrize("end", [AgentSession.stop, AgentSession.close])
@pytest.mark.parametrize("where", ["piweb-io", "inside"])
def test_an_end_is_asked_for_and_not_waited_for_where_that_cannot_be(
    open_: Open, end: Callable[[AgentSession], None], where: str
) -> None:
    session = open_("doomed", "stubborn")
    if where == "piweb-io":
        get_pump().run(lambda: end(session))
    else:
        with session.ledger.settling:
            end(session)
    assert session.lifecycle == "ended"
    assert session.pid is not None
    end(session)
    assert session.pid is None


def test_a_wait_goes_on_for_as_long_as_it_may_where_nothing_is_held() -> None:
    lock = threading.Lock()
    lock.acquire()
    begun = threading.Event()

    def release() -> None:
        begun.wait()
        lock.release()

    helper = threading.Thread(target=release, name="release")
    helper.start()
    assert not wait_for(lock, STUCK_TIME * 1.5)
    assert not wait_for(lock, 0)
    begun.set()
    assert wait_for(lock, None)
    helper.join()


def test_only_who_holds_one_is_inside() -> None:
    mine, theirs = section(), section()
    lock = threading.Lock()
    lock.acquire()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with theirs:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold, name="hold")
    holder.start()
    held.wait()
    assert not wait_for(lock, STUCK_TIME * 1.5)
    with mine, mine, pytest.raises(NestedWaitError):
        wait_for(lock, PATIENCE)
    done.set()
    holder.join()

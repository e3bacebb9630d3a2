from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from piweb_jupyter.host import publisher as publisher_module
from piweb_jupyter.host.feed import Feed
from piweb_jupyter.host.mirror import Snapshot
from piweb_jupyter.host.publisher import BYTE_RATE, MESSAGE_BURST, MESSAGE_RATE, Budget, Publisher
from piweb_jupyter.host.session import AgentSession
from tests.views.parts import KEY, RecordingView, put_state, quiet_session

PATIENCE = 20.0


@pytest.fixture
def session() -> Iterator[AgentSession]:
    with quiet_session() as session:
        yield session


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    publisher = Publisher()
    attached: list[Feed] = []
    attach = publisher.attach

    def remember(*args: Any, **options: Any) -> Feed:
        attached.append(attach(*args, **options))
        return attached[-1]

    publisher.attach = remember  # type: ignore[method-assign]
    yield publisher
    for feed in attached:
        publisher.detach(feed)


class WaitingView(RecordingView):
    """Acknowledges like a page, and says when a revision has arrived."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.wanted = wanted
        self.arrived = threading.Event()
        self.threads: set[str] = set()
        self.feed: Feed | None = None

    def assign(self, held: Snapshot | None) -> None:
        super().assign(held)
        self.threads.add(threading.current_thread().name)
        if held is not None and self.feed is not None:
            self.feed.ack("p", version=held.version)
            if held.rev == self.wanted:
                self.arrived.set()

    def refresh(self) -> None:
        super().refresh()
        self.threads.add(threading.current_thread().name)


def test_a_burst_is_conflated_ends_with_the_last_snapshot_and_has_one_writer(
    publisher: Publisher, session: AgentSession
) -> None:
    view = WaitingView(20_000)
    view.feed = publisher.attach(session, view, key=KEY)
    view.feed.hello("p")
    for rev in range(20_001):
        put_state(session, rev)
        publisher.on_state(session, KEY)
    assert view.arrived.wait(PATIENCE)
    assert view.revs == sorted(set(view.revs))
    assert len(view.revs) < 200
    assert view.threads == {"piweb-publisher"}


def test_a_view_that_breaks_does_not_silence_the_others(
    publisher: Publisher, session: AgentSession, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenView(RecordingView):
        def assign(self, held: Snapshot | None) -> None:
            raise ZeroDivisionError

    publisher.attach(session, BrokenView(), key=KEY)
    view = WaitingView(1)
    view.feed = publisher.attach(session, view, key=KEY)
    put_state(session, 1)
    publisher.on_state(session, KEY)
    assert view.arrived.wait(PATIENCE)
    assert "ZeroDivisionError" in caplog.text


class Onlooker:
    """Wants to know of changes, and has no pages."""

    def refresh(self) -> None: ...


def test_a_view_is_given_only_what_it_can_show(publisher: Publisher, session: AgentSession) -> None:
    with pytest.raises(TypeError, match="draws no state"):
        publisher.attach(session, Onlooker(), key=KEY)
    with pytest.raises(TypeError, match="has no pages"):
        publisher.attach(session, Onlooker(), chat=True)
    publisher.attach(session, Onlooker())


def test_the_thread_lives_while_there_is_a_view_and_comes_again_with_the_next(
    session: AgentSession,
) -> None:
    publisher = Publisher()
    for _ in range(3):
        feeds = [publisher.attach(session, RecordingView()) for _ in range(2)]
        assert session.news.listener is publisher
        publisher.detach(feeds[0])
        assert running()
        publisher.detach(feeds[1])
        assert not running()
        assert session.news.listener is None


def running() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "piweb-publisher"]


def test_a_run_that_ends_is_counted_once_and_refreshes_the_views(
    publisher: Publisher, session: AgentSession
) -> None:
    publisher.attach(session, RecordingView())
    for busy in (True, False, True, False):
        publisher.on_transcript(session, [("meta", {"busy": busy}), ("meta", {"model": "m"})])
    assert publisher.turns(session) == 2


def test_the_budget_lets_a_burst_go_and_then_the_rate() -> None:
    budget = Budget(0.0)
    now = 0.0
    count = 0
    while now < 10:
        if (wait := budget.wait(now)) > 0:
            now += wait + 1e-9
        else:
            budget.spend(100)
            count += 1
    assert count == pytest.approx(MESSAGE_RATE * 10 + MESSAGE_BURST, rel=0.02)


def test_large_messages_are_paid_for_after_they_went() -> None:
    budget = Budget(0.0)
    now, sent = 0.0, 0
    while now < 10:
        if (wait := budget.wait(now)) > 0:
            now += wait + 1e-9
        else:
            budget.spend(1_000_000)
            sent += 1_000_000
    assert sent == pytest.approx(BYTE_RATE * 10, rel=0.06)


def test_under_pressure_every_view_has_its_turn_and_answers_go_first(
    session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty small views and a heavy one want thirty snapshots a second each."""
    clock = _Clock()
    monkeypatch.setattr(publisher_module, "time", clock)
    publisher = Publisher()
    feeds = tuple(_Greedy(1_000_000 if n == 0 else 2000) for n in range(51))
    budget = Budget(clock.now)
    after: Any = None
    while clock.now < 10:
        pause, after = publisher._round(feeds, after, budget)  # type: ignore[arg-type]  # noqa: SLF001
        clock.now += max(pause or 0.0, 1e-9)
    counts = [feed.count for feed in feeds]
    assert max(counts) - min(counts) <= 1
    assert min(counts) >= 30  # about four per second for each
    feeds[50].urgent = True
    clock.now += 0.01
    before = [feed.count for feed in feeds]
    publisher._round(feeds, feeds[10], budget)  # type: ignore[arg-type]  # noqa: SLF001
    assert feeds[50].count == before[50] + 1


class _Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class _Greedy:
    """A feed that always has something to send."""

    urgent = False
    view = None

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0

    def due(self, now: float) -> float:
        return now

    def emit(self, now: float) -> int:
        self.count += 1
        return self.size


def test_a_view_that_is_collected_while_the_lock_is_held_does_not_ask_for_it(
    publisher: Publisher, session: AgentSession
) -> None:
    # A widget closes itself once more when it is collected, on whatever thread that happens to be.
    feed = publisher.attach(session, RecordingView())
    publisher.detach(feed)
    with publisher._lock:  # noqa: SLF001 - held by an attach, in the life of a kernel
        publisher.detach(feed)

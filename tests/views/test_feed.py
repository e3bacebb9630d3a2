from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from piweb_jupyter.host import feed as feed_module
from piweb_jupyter.host.feed import INTERVAL, Feed
from piweb_jupyter.host.pages import EVENT_BYTES, EVENT_PATIENCE
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.wire import rpc
from piweb_jupyter.wire.events import ContentDelta, MessageStart
from tests.host.chat_copy import ChatCopy
from tests.views.parts import KEY, Clock, RecordingView, drain, put_state, quiet_session


@pytest.fixture
def session() -> Iterator[AgentSession]:
    with quiet_session() as session:
        yield session


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(feed_module, "time", clock)
    return clock


@pytest.fixture
def view() -> RecordingView:
    return RecordingView()


@pytest.fixture
def surface(session: AgentSession, view: RecordingView, clock: Clock) -> Feed:
    feed = Feed(session, view, lambda: None, key=KEY)
    drain(feed, clock)
    return feed


@pytest.fixture
def chat(session: AgentSession, view: RecordingView, clock: Clock) -> Feed:
    feed = Feed(session, view, lambda: None, chat=True)
    session.news.listener = SimpleNamespace(
        on_transcript=lambda _, ops: feed.note_ops(ops), on_question=lambda _: feed.note_questions()
    )
    drain(feed, clock)
    return feed


def push(session: AgentSession, feed: Feed, rev: int) -> None:
    put_state(session, rev)
    feed.note_state()


def note(session: AgentSession, text: str) -> None:
    session.chat.change(lambda t: t.note("info", text))


# ---------------------------------------------------------------- snapshots


def test_the_first_snapshot_goes_at_once_and_the_last_always_goes(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    surface.hello("p")
    clock.pass_(10)
    start = clock.now
    for rev in range(100):
        push(session, surface, rev)
        while (due := surface.due(clock.now)) is not None and due <= clock.now:
            surface.emit(clock.now)
            surface.ack("p", version=(1, view.revs[-1]))
        clock.pass_(0.001)
    assert view.revs[1] == 0  # the -1 before it is the empty picture of the beginning
    drain(surface, clock, INTERVAL)
    assert view.revs[-1] == 99
    assert len(view.revs) <= 2 + (clock.now - start) / INTERVAL


def test_at_most_two_snapshots_are_under_way_to_a_page(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    surface.hello("p")
    for rev in range(10):
        push(session, surface, rev)
        drain(surface, clock, INTERVAL)
    sent = [rev for rev in view.revs if rev >= 0]
    assert sent == [0, 1]
    surface.ack("p", version=(1, 0))
    drain(surface, clock, INTERVAL)
    assert view.revs[-1] == 9  # what lay between was skipped


def test_a_page_that_does_not_answer_is_waited_for_one_second_and_then_not(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    surface.hello("gone")
    for rev in range(2):
        push(session, surface, rev)
        drain(surface, clock, INTERVAL)
    push(session, surface, 2)
    drain(surface, clock, 0.5)
    assert view.revs[-1] == 1
    drain(surface, clock, 0.6)
    assert view.revs[-1] == 2
    # Nobody follows: the trait stays current for late pages, once a second.
    before = len(view.revs)
    for rev in range(3, 103):
        push(session, surface, rev)
        drain(surface, clock, INTERVAL)
    assert len(view.revs) - before <= 4


def test_a_page_that_is_gone_does_not_slow_one_that_answers(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    surface.hello("gone")
    surface.hello("here")
    for rev in range(100):
        push(session, surface, rev)
        drain(surface, clock, INTERVAL)
        surface.ack("here", version=(1, view.revs[-1]))
    assert len(view.revs) > 60
    assert view.revs[-1] == 99


def test_without_a_page_the_trait_is_kept_current_once_a_second(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    for rev in range(60):
        push(session, surface, rev)
        drain(surface, clock, INTERVAL)
    assert 2 <= len(view.revs) <= 4
    drain(surface, clock, 1.0)
    assert view.revs[-1] == 59


def test_a_deleted_state_is_assigned_as_its_tombstone(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    push(session, surface, 4)
    drain(surface, clock, 1)
    session.mirror.begin_epoch(2)
    session.epoch = 2
    surface.note_state()
    drain(surface, clock, 1)
    assert view.assigned[-1] is not None
    assert view.assigned[-1].stale
    session.mirror.drop_stale()
    surface.note_state()
    drain(surface, clock, 1)
    assert [(held.deleted, held.version) for held in view.assigned[-1:] if held] == [
        (True, (2, -1))
    ]


def test_the_newest_version_is_told_again_while_states_flow_and_two_and_five_seconds_after(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    surface.hello("p")
    drain(surface, clock)
    for rev in range(100):  # ten seconds of flow
        push(session, surface, rev)
        drain(surface, clock, 0.1)
        surface.ack("p", version=(1, view.revs[-1]))
    flowing = view.take("tip")
    assert 4 <= len(flowing) <= 6
    told: list[tuple[float, int]] = []
    end = clock.now
    for _ in range(100):
        drain(surface, clock, 0.1)
        told += [(round(clock.now - end, 1), tip["rev"]) for tip in view.take("tip")]
    assert [rev for _, rev in told] == [99] * len(told)
    times = [at for at, _ in told]
    assert any(1.8 <= at <= 2.1 for at in times)
    assert 4.8 <= times[-1] <= 5.1
    assert surface.due(clock.now) is None


def test_nothing_is_told_to_nobody(session: AgentSession, surface: Feed, clock: Clock) -> None:
    push(session, surface, 1)
    drain(surface, clock, 1)
    assert surface.due(clock.now) is None


def test_a_page_that_has_missed_a_snapshot_gets_the_line_itself(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    line = put_state(session, 7)
    surface.want_state("p")
    drain(surface, clock)
    [state] = view.take("state")
    assert (state["to"], state["epoch"], state["rev"], state["stale"]) == ("p", 1, 7, False)
    assert state["size"] == len(line)


# ---------------------------------------------------------------- events


def test_nothing_is_queued_while_no_page_listens_and_a_page_gets_the_present(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    for n in range(50):
        note(session, f"note {n}")
    assert chat.due(clock.now) is None
    chat.hello("p")
    chat.want_present("p")
    drain(chat, clock)
    assert view.kinds() == ["pong", "present"]
    present = view.sent[-1]
    assert len(present["body"]["chat"]["messages"]) == 50
    assert present["body"]["questions"] == []
    note(session, "one more")
    drain(chat, clock, 1)
    [events] = view.take("events")
    assert events["from"] == present["seq"] + 1


def test_events_are_batched_and_numbered_without_a_gap(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    chat.hello("p")
    drain(chat, clock)
    for n in range(90):
        note(session, f"note {n}")
        drain(chat, clock, 0.01)
        chat.ack("p", seq=max([0, *(batch["seq"] for batch in view.sent if "seq" in batch)]))
    drain(chat, clock, 1)
    batches = view.take("events")
    assert len(batches) <= 32
    following = 1
    for batch in batches:
        assert batch["from"] == following
        assert batch["seq"] == batch["from"] + len(batch["body"]) - 1
        following = batch["seq"] + 1
    assert following == 91


def test_a_view_that_is_too_far_behind_loses_its_queue_and_gets_the_present(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    chat.hello("p")
    drain(chat, clock)
    text = "x" * 100_000
    for n in range(2 + EVENT_BYTES // len(text)):
        note(session, f"{n} {text}")
    drain(chat, clock, 0.1)
    assert view.take("events") == []
    [present] = view.take("present")
    assert present["to"] == "*"
    assert len(present["body"]["chat"]["messages"]) == 2 + EVENT_BYTES // len(text)
    chat.ack("p", seq=present["seq"])
    note(session, "after")
    drain(chat, clock, 0.1)
    [events] = view.take("events")
    assert events["from"] == present["seq"] + 1


def test_a_page_that_stops_reading_costs_nothing_and_gets_the_present_when_it_reads_again(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    chat.hello("p")
    drain(chat, clock)
    note(session, "seen")
    drain(chat, clock, 0.1)
    [seen] = view.take("events")
    sizes = []
    for n in range(400):  # a minute of 10 KB events, and no acknowledgement
        note(session, f"{n}" + "x" * 10_000)
        drain(chat, clock, 0.15)
        sizes.append(chat._item_bytes)  # noqa: SLF001 - what must stay bounded
    assert max(sizes) <= EVENT_BYTES
    assert sum(batch["size"] for batch in view.take("events")) <= 2 * EVENT_BYTES
    assert view.take("present") == []
    assert chat.due(clock.now) is None
    chat.ack("p", seq=seen["seq"])
    drain(chat, clock, 0.1)
    [present] = view.take("present")
    assert present["body"]["chat"]["messages"][-1]["parts"][0]["text"].startswith("399")


def test_a_new_page_is_served_though_an_old_one_has_vanished_with_a_full_lap(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    chat.hello("vanished")
    drain(chat, clock)
    for _ in range(30):
        note(session, "x" * 100_000)
        drain(chat, clock, 0.2)
    chat.hello("fresh")
    chat.want_present("fresh")
    drain(chat, clock, 0.1)
    assert view.take("present")
    note(session, "for the fresh one")
    drain(chat, clock, 0.1)
    assert view.take("events")


def test_an_operation_is_told_as_it_was_when_it_happened(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    chat.hello("p")
    drain(chat, clock)
    session.chat.take_event(MessageStart({"role": "assistant", "content": []}))
    for word in ("one ", "two ", "three"):
        session.chat.take_event(ContentDelta("text", 0, word))
    drain(chat, clock, 0.1)
    [events] = view.take("events")
    message = next(item for item in events["body"] if item[0] == "message")
    assert message[2]["parts"] == []
    appended = [item[4] for item in events["body"] if item[0] == "append"]
    assert "".join(appended) in ("one two three", "two three")


def test_questions_are_told_whole_whenever_one_comes_or_goes(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    chat.hello("p")
    drain(chat, clock)
    ask = rpc.UiRequest("q1", "confirm", {"title": "Sure?", "message": "Really."})
    session.chat.take_ui_request(ask)
    drain(chat, clock, 0.1)
    [asked] = view.take("events")
    question = {"id": "q1", "method": "confirm", "title": "Sure?", "message": "Really."}
    assert asked["body"][-1] == ["questions", [question]]
    session.answer("q1", True)
    drain(chat, clock, 0.1)
    [answered] = view.take("events")
    assert answered["body"][-1] == ["questions", []]


def test_every_page_ends_with_the_transcript_whatever_is_lost_on_the_way(
    session: AgentSession, chat: Feed, view: RecordingView, clock: Clock
) -> None:
    rng = random.Random(11)
    pages = [BrowserPage(chat, f"p{n}") for n in range(3)]
    streaming = False
    for _ in range(3000):
        match rng.choices(["write", "note", "tick", "hello", "big"], weights=[40, 10, 40, 1, 1])[0]:
            case "write" if streaming:
                session.chat.take_event(ContentDelta("text", 0, rng.choice(["a ", "b\n"])))
            case "write":
                session.chat.take_event(MessageStart({"role": "assistant", "content": []}))
                streaming = True
            case "note":
                note(session, "n")
            case "big":
                note(session, "x" * (EVENT_BYTES + 10))
            case "hello":
                rng.choice(pages).hello()
            case "tick":
                drain(chat, clock, rng.choice([0.0, 0.05, 0.5, EVENT_PATIENCE]))
                for message in view.sent:
                    for page in pages:
                        if rng.random() > 0.1:
                            page.take(message)
                view.sent.clear()
    for _ in range(4):
        note(session, "the end")
        drain(chat, clock, EVENT_PATIENCE * 2)
        for message in view.sent:
            for page in pages:
                page.take(message)
        view.sent.clear()
    for page in pages:
        if page.copy is not None:
            page.copy.check_messages(session)
    assert any(page.copy is not None for page in pages)


class BrowserPage:
    """What `chatstore.ts` does, in Python: numbers, gaps, presents, acknowledgements."""

    def __init__(self, feed: Feed, name: str) -> None:
        self.feed = feed
        self.name = name
        self.copy: _Copy | None = None
        self.early: list[dict[str, Any]] = []

    def hello(self) -> None:
        self.copy, self.early = None, []
        self.feed.hello(self.name)
        self.feed.want_present(self.name)

    def take(self, message: dict[str, Any]) -> None:
        match message:
            case {"kind": "present", "to": to, "seq": seq, "body": body} if to in (self.name, "*"):
                if self.copy is None or seq >= self.copy.seq:
                    self.copy = _Copy(body["chat"], seq)
                    for early in self.early:
                        self.copy.take(early)
                    self.early.clear()
                    self.feed.ack(self.name, seq=seq)
            case {"kind": "events"} if self.copy is None:
                self.early.append(message)
            case {"kind": "events", "seq": seq}:
                assert self.copy is not None
                if self.copy.take(message):
                    self.feed.ack(self.name, seq=seq)
                else:
                    self.copy = None
                    self.feed.want_present(self.name)


class _Copy(ChatCopy):
    def __init__(self, present: dict[str, Any], seq: int) -> None:
        self.messages, self.meta, self.seq = present["messages"], present["meta"], seq

    def take(self, message: Any) -> bool:  # type: ignore[override]  # a batch, not operations
        if message["from"] > self.seq + 1:
            return False
        for number, item in enumerate(message["body"], message["from"]):
            if number > self.seq:
                if item[0] != "questions":
                    self._apply(*item)
                self.seq = number
        return True

    def check_messages(self, session: AgentSession) -> None:
        assert self.messages == session.transcript.to_json()["messages"]


# ---------------------------------------------------------------- order


def test_whoever_waits_for_an_answer_is_served_before_the_stream(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    clock.pass_(1)
    push(session, surface, 1)
    surface.hello("p")
    assert surface.urgent
    surface.emit(clock.now)
    assert view.kinds() == ["pong"]
    assert not surface.urgent


def test_no_message_carries_an_id_at_the_top(
    session: AgentSession, surface: Feed, view: RecordingView, clock: Clock
) -> None:
    """ipykernel 7.4 keeps every `content.id` that was ever published."""
    surface.hello("p")
    surface.want_state("p")
    surface.tell("refused", "p.1", {})
    push(session, surface, 1)
    drain(surface, clock, 6)
    assert set(view.kinds()) == {"pong", "state", "events", "tip"}
    assert not [message for message in view.sent if "id" in message]

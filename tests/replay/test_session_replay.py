"""Every recorded conversation once more, through a whole session with an agent that plays it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from piweb_jupyter.errors import SurfaceCommandError, describe_exit
from piweb_jupyter.host.command import Command
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.host.transcript import Op
from tests.host.chat_copy import ChatCopy
from tests.replay.compact import compact, compact_meta
from tests.replay.driving import PATIENCE, Driver, launch
from tests.replay.recordings import Replay, names, read

NAMES = names()
# Each recording in one cut, so that every cut meets many. Byte by byte, a conversation of 200 KB
# is 200,000 writes: that is for some of the short ones.
CUTS = ("lines", "7", "utf8", "64k", "whole")
BYTE_BY_BYTE = ("pi/03-thinking", "pi-web/surface-demo-agent-basic", "pi-web/ui-demo-agent-dialogs")
CASES = [(name, CUTS[i % len(CUTS)]) for i, name in enumerate(NAMES)]
CASES += [(name, "1") for name in BYTE_BY_BYTE]


class Listener:
    """Hears what a publisher hears, and keeps the copy of the chat that a page would have."""

    def __init__(self, session: AgentSession) -> None:
        self.copy = ChatCopy(session.transcript)

    def on_transcript(self, session: AgentSession, ops: list[Op]) -> None:
        self.copy.take(ops)

    def on_state(self, session: AgentSession, key: str) -> None: ...
    def on_command(self, session: AgentSession, command: Command) -> None: ...
    def on_question(self, session: AgentSession) -> None: ...
    def on_lifecycle(self, session: AgentSession) -> None: ...


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def played(request: pytest.FixtureRequest) -> Iterator[tuple[str, Driver, Listener]]:
    """A session whose agent has told all that was recorded, and still lives."""
    name, chunking = request.param
    with AgentSession(launch(name, chunking)) as session:
        session.news.listener = listener = Listener(session)
        session.start()
        driver = Driver(session, name)
        driver.play()
        yield name, driver, listener


def outcome(command: Command) -> object:
    try:
        return command.result(PATIENCE)
    except SurfaceCommandError as exc:
        return exc.code


def test_a_session_comes_to_what_its_parts_come_to_and_ends_with_its_agent(
    played: tuple[str, Driver, Listener],
) -> None:
    name, driver, listener = played
    session = driver.session
    replay = Replay().play(read(name))

    assert compact(session.transcript.messages) == compact(replay.transcript.messages)
    assert compact_meta(session.transcript.meta) == compact_meta(replay.transcript.meta)
    session.chat.read(lambda transcript: listener.copy.check())

    states = {held.key: (held.rev, held.value()) for held in session.mirror.held()}
    assert states.pop("player")[1] == len(driver.said) + 1
    assert states == {held.key: (held.rev, held.value()) for held in replay.mirror.held()}

    for correlation_id, command in driver.commands.items():
        result = replay.results[correlation_id]
        assert outcome(command) == (result.data if result.ok else result.code)

    # Those with a time limit close by our clock, which was faster than the recorded one.
    still_open = [q.title for q in session.questions.open if q.timeout is None]
    assert still_open == [q.title for q in replay.questions.open]

    driver.finish()
    assert session.lifecycle == "ended"
    assert describe_exit(driver.exit_code) in session.detail
    assert not session.busy
    assert len(session.questions) == 0
    for message in session.transcript.messages:
        assert message["status"] != "streaming"
        for part in message["parts"]:
            assert part.get("status") not in ("pending", "running")
    session.chat.read(lambda transcript: listener.copy.check())

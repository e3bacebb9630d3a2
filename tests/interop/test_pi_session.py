"""A plain `pi --mode rpc`, unmodified, behind an `AgentSession`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from piweb_jupyter.errors import RequestError, SurfaceCommandError, TurnError
from piweb_jupyter.host.news import SessionNews
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import LaunchSpec
from piweb_jupyter.wire.events import ToolStart
from tests.interop.conftest import Pi

PATIENCE = 60.0


@pytest.fixture
def session(pi: Pi) -> Iterator[AgentSession]:
    # The hermetic environment replaces ours where they meet; what else is there does not reach pi's
    # decisions (its directories are its own).
    spec = LaunchSpec("pi", "project", pi.cwd, pi.rpc, pi.cwd, "project", env=pi.env)
    with AgentSession(spec) as session:
        session.start()
        yield session.wait_ready(PATIENCE)


def waiter(session: AgentSession, kind: type[Any]) -> threading.Event:
    """Set when an event of that kind has come."""
    arrived = threading.Event()

    def heard(news: SessionNews) -> None:
        if news.kind == "event" and isinstance(news.value, kind):
            arrived.set()

    session.subscribe(heard)
    return arrived


def test_a_prompt_is_answered_and_the_model_is_known(session: AgentSession) -> None:
    turn = session.prompt('SAY "as told"').wait(PATIENCE)
    assert (turn.text, turn.error, turn.aborted) == ("as told", None, False)
    assert session.model == "fake/fake-1"
    assert turn.usage
    assert session.surfaces == ()
    with pytest.raises(SurfaceCommandError) as caught:
        session.surface()
    assert caught.value.code == "unavailable"


def test_a_tool_runs_and_its_card_shows_what_it_printed(session: AgentSession) -> None:
    turn = session.prompt('CALL bash {"command":"echo from-bash; exit 0"}').wait(PATIENCE)
    [call] = turn.tool_calls
    assert (call.name, call.args["command"], call.status) == (
        "bash",
        "echo from-bash; exit 0",
        "done",
    )
    assert "from-bash" in call.output
    assert "Tool results: 1" in turn.text


def test_a_run_is_aborted_in_its_tool_and_pi_goes_on(session: AgentSession) -> None:
    running = waiter(session, ToolStart)
    turn = session.prompt('CALL bash {"command":"sleep 600"}')
    assert running.wait(PATIENCE)
    pid = session.pid
    session.abort()
    turn.wait(PATIENCE)
    assert turn.aborted
    assert session.prompt('SAY "still here"').wait(PATIENCE).text == "still here"
    assert session.pid == pid


def test_a_stream_is_aborted(session: AgentSession) -> None:
    streaming = threading.Event()

    def heard(news: SessionNews) -> None:
        if news.kind == "event" and "word3" in turn.text:
            streaming.set()

    turn = session.prompt("SLOW 400 20")
    session.subscribe(heard)
    assert streaming.wait(PATIENCE)
    session.abort()
    turn.wait(PATIENCE)
    assert turn.aborted
    assert "word399" not in turn.text


def test_rpc_bash_runs_beside_and_shows_in_the_chat(session: AgentSession) -> None:
    result = session.request("bash", command="echo beside")
    assert (result["output"].strip(), result["exitCode"]) == ("beside", 0)
    assert "beside" in str(session.transcript.to_json())


def test_steering_reaches_the_run(session: AgentSession) -> None:
    running = waiter(session, ToolStart)
    session.request("bash", command="mkfifo fifo")
    turn = session.prompt('CALL bash {"command":"read line < fifo"}')
    assert running.wait(PATIENCE)
    queued = threading.Event()

    def heard(news: SessionNews) -> None:
        if news.kind == "event" and type(news.value).__name__ == "QueueUpdate":
            queued.set()

    session.subscribe(heard)
    session.steer('SAY "steered"')
    assert queued.wait(PATIENCE)
    session.request("bash", command="echo go > fifo")
    turn.wait(PATIENCE)
    assert turn.text.endswith("steered")


def test_an_error_of_the_provider_fails_the_turn_with_its_words(session: AgentSession) -> None:
    turn = session.prompt("FAIL 401")
    with pytest.raises(TurnError, match="401"):
        turn.wait(PATIENCE)
    assert turn.error is not None


def test_a_second_prompt_is_refused_here_before_pi_loses_it(session: AgentSession) -> None:
    turn = session.prompt("SLOW 50 20")
    with pytest.raises(RequestError, match=r"session\.steer"):
        session.prompt("more")
    session.abort()
    turn.wait(PATIENCE)


def test_a_new_session_empties_the_chat_and_switching_back_fills_it(
    session: AgentSession,
) -> None:
    session.prompt('SAY "first"').wait(PATIENCE)
    before = session.request("get_state")["sessionFile"]
    session.request("new_session")
    assert session.prompt('SAY "second"').wait(PATIENCE).text == "second"
    assert "first" not in str(session.transcript.messages)
    loaded = threading.Event()

    def heard(news: SessionNews) -> None:
        if "first" in str(session.transcript.messages):
            loaded.set()

    session.subscribe(heard)
    session.request("switch_session", sessionPath=before)
    session.request("set_session_name", name="again")
    assert loaded.wait(PATIENCE) or "first" in str(session.transcript.messages)


def test_a_model_that_pi_does_not_have_is_an_error(session: AgentSession) -> None:
    with pytest.raises(RequestError, match="Model not found"):
        session.set_model("fake/none")
    session.set_model("fake/fake-1")
    assert session.model == "fake/fake-1"

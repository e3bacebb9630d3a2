from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from piweb_jupyter.errors import (
    AgentExitedError,
    AgentLaunchError,
    AgentStartError,
    RequestError,
    StateValueError,
    SurfaceCommandError,
)
from piweb_jupyter.host import session as session_module
from piweb_jupyter.host.command import Command
from piweb_jupyter.host.news import SessionNews
from piweb_jupyter.host.session import AgentSession
from tests.host.opening import Open, opener, spec

PATIENCE = 20.0


@pytest.fixture
def open_() -> Iterator[Open]:
    with opener() as open_:
        yield open_


def settled(command: Command) -> Command:
    """The command, once its callback has run."""
    done = threading.Event()
    command.add_done_callback(lambda _: done.set())
    assert done.wait(PATIENCE)
    return command


def test_a_command_reports_what_happened_and_the_snapshot_what_is(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    assert surface.run("increment", by=2) == {"count": 2}
    assert surface.state == {"count": 2}
    assert (surface.rev, surface.epoch, surface.available) == (1, 1, True)
    assert repr(surface) == "<Surface demo of counter: rev 1>"


def test_arguments_go_by_name_or_as_one_value_and_the_host_names_the_actor(open_: Open) -> None:
    surface = open_("counter").surface()
    assert surface.run("echo", {"actor": "llm"}) == {"args": {"actor": "llm"}, "actor": "cell"}
    assert surface.run("echo", timeout=1, id="x") == {
        "args": {"timeout": 1, "id": "x"},
        "actor": "cell",
    }
    click = surface.submit("echo", actor="user", a=1)
    assert click.result(PATIENCE) == {"args": {"a": 1}, "actor": "user"}


def test_a_refused_command_raises_the_agents_code_and_details(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    with pytest.raises(SurfaceCommandError, match="no room") as caught:
        surface.run("fail")
    assert (caught.value.code, caught.value.details) == ("full", {"room": 0})
    with pytest.raises(SurfaceCommandError) as unknown:
        surface.run("__class__")
    assert unknown.value.code == "unknown_action"


def test_arguments_that_are_not_json_are_refused_with_their_place(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    with pytest.raises(StateValueError, match=r"the arguments of 'echo'\.a\[1\]: object"):
        surface.run("echo", a=[1, object()])


def test_the_same_id_runs_once_and_other_ids_each_run(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    first = surface.submit("increment", actor="user", id="page1-1")
    again = surface.submit("increment", actor="user", id="page1-1")
    assert again is first
    other = surface.submit("increment", actor="user", id="page2-1")
    assert first.result(PATIENCE) == {"count": 1}
    assert other.result(PATIENCE) == {"count": 2}
    assert surface.state == {"count": 2}


def test_a_click_of_an_older_life_is_refused(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    session.restart()
    session.wait_ready(PATIENCE)
    click = surface.submit("increment", actor="user", id="p-1", epoch=1)
    with pytest.raises(SurfaceCommandError) as caught:
        click.result(PATIENCE)
    assert caught.value.code == "stale"
    assert surface.state == {"count": 0}


def test_commands_given_before_the_agent_is_ready_wait_for_it(open_: Open) -> None:
    session = open_("counter", ready=False)
    commands = [session.surface("demo").submit("increment") for _ in range(5)]
    assert [command.result(PATIENCE) for command in commands] == [{"count": n} for n in range(1, 6)]


def test_a_command_that_nobody_answers_is_lost_in_time_and_its_late_answer_nobodys(
    open_: Open,
) -> None:
    surface = open_("counter").surface("demo")
    command = settled(surface.submit("hold", timeout=0.1))
    assert command.stage == "lost"
    with pytest.raises(SurfaceCommandError, match="may still run") as caught:
        command.result()
    assert caught.value.code == "TIMEOUT"
    assert surface.run("release") == 1
    assert surface.state["held"] == 1


def test_a_command_that_was_accepted_may_take_its_time(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    accepted = surface.submit("hold", started=True, timeout=0.1)
    lost = settled(surface.submit("hold", timeout=0.2))
    assert (lost.stage, accepted.stage) == ("lost", "running")
    surface.run("release")
    assert accepted.result(PATIENCE) == "released"


def test_cancelling_asks_an_agent_that_can_be_asked(open_: Open) -> None:
    surface = open_("counter", "--declare").surface("demo")
    command = surface.submit("hold")
    surface.until(lambda state: state.get("held"), timeout=PATIENCE).wait()
    command.cancel()
    settled(command)
    assert command.stage == "cancelled"


def test_cancelling_stops_waiting_for_an_agent_that_cannot_be_asked(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    command = surface.submit("hold")
    command.cancel()
    with pytest.raises(SurfaceCommandError) as caught:
        command.result(PATIENCE)
    assert (command.stage, caught.value.code) == ("cancelled", "cancelled")


def test_forgetting_settles_at_once(open_: Open) -> None:
    command = open_("counter").surface("demo").submit("hold")
    command.forget()
    command.forget()
    assert (command.stage, repr(command)) == ("lost", "<Command demo.hold: lost>")


def test_the_journal_tells_who_did_what_to_which_revision(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    surface.run("increment", by=3)
    surface.submit("increment", actor="user", id="p-1").result(PATIENCE)
    with pytest.raises(SurfaceCommandError):
        surface.run("fail", z=1, a=2)
    told = [
        (e.action, e.args, e.actor, e.ok, e.code, e.rev_before, e.rev_after)
        for e in surface.history
    ]
    assert told == [
        ("increment", '{"by":3}', "cell", True, "", 0, 1),
        ("increment", "{}", "user", True, "", 1, 2),
        ("fail", '{"a":2,"z":1}', "cell", False, "full", 2, 2),
    ]


def test_an_agent_that_dies_settles_everything_that_waits(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    waiting = [surface.submit("hold") for _ in range(3)]
    turn = session.prompt("wait")
    surface.run("ask", {"id": "q1"})
    with pytest.raises(AgentExitedError, match="code 7") as caught:
        surface.run("crash")
    assert caught.value.returncode == 7
    assert "boom" in caught.value.stderr_tail
    for command in waiting:
        with pytest.raises(AgentExitedError):
            command.result(PATIENCE)
    with pytest.raises(AgentExitedError):
        turn.wait(PATIENCE)
    assert session.questions.open == ()
    assert (session.lifecycle, session.busy, surface.available) == ("ended", False, False)
    assert surface.state == {"count": 0, "held": 3}
    with pytest.raises(AgentExitedError, match="%piweb restart counter"):
        surface.run("increment")


def test_a_new_life_begins_at_the_next_prompt_and_is_newer(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    for _ in range(3):
        surface.run("increment")
    assert session.pid is not None
    os.kill(session.pid, signal.SIGKILL)
    with pytest.raises(AgentExitedError, match="SIGKILL"):
        session.surface("demo").until(lambda _: False, timeout=PATIENCE).wait()
    turn = session.prompt("hello").wait(PATIENCE)
    assert turn.text == "You said hello."
    assert (session.epoch, surface.state, surface.rev, surface.epoch) == (2, {"count": 0}, 0, 2)


def test_an_agent_that_ends_before_it_is_ready_says_why(open_: Open) -> None:
    session = AgentSession(spec("no_such_program"))
    with session:
        session.start()
        with pytest.raises(AgentStartError, match="No such file") as caught:
            session.wait_ready(PATIENCE)
        assert caught.value.code == "exit-before-ready"
        assert session.lifecycle == "error"
        with pytest.raises(AgentStartError):
            session.surface("demo").run("increment")


def test_a_program_that_does_not_exist_is_a_launch_error() -> None:
    from dataclasses import replace

    with AgentSession(replace(spec("counter"), argv=("/no/such/agent",))) as session:
        with pytest.raises(AgentLaunchError, match="/no/such/agent"):
            session.start()
        assert session.lifecycle == "error"


def test_an_agent_that_never_gets_ready_is_given_up(
    open_: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "READY_NOTICE", 0.05)
    monkeypatch.setattr(session_module, "READY_TIMEOUT", 0.3)
    session = open_("counter", "--silent", ready=False)
    command = session.surface("demo").submit("increment")
    with pytest.raises(AgentStartError, match="not ready after") as caught:
        command.result(PATIENCE)
    assert caught.value.code == "ready-frame-missing"
    texts = str(session.transcript.to_json())
    assert "still starting" in texts


def test_stop_keeps_the_last_snapshot_and_start_makes_a_new_life(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    surface.run("increment")
    session.stop()
    assert session.pid is None
    assert (surface.state, surface.available, surface.channel) == (
        {"count": 1},
        False,
        "unavailable",
    )
    assert repr(surface) == "<Surface demo of counter: rev 1, agent offline>"
    with pytest.raises(AgentExitedError, match="was stopped"):
        surface.run("increment")
    session.start()
    session.wait_ready(PATIENCE)
    assert surface.run("increment") == {"count": 1}


def test_a_bad_line_is_noted_and_the_states_are_asked_for_once(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    for line in (
        "null",
        "[]",
        "42",
        "{}{}",
        "\xef\xbb\xbf{}",
        '{"type":"piweb_state"}',
        "[" * 5000,
    ):
        surface.run("noise", line=line)
    session.surface("demo").run("increment")
    notes = [line for line in session.log if line.startswith("piweb: a line of the agent")]
    assert len(notes) == 7
    assert session.state["resyncs"] == 0
    assert surface.state == {"count": 1}


def test_a_line_of_a_hundred_megabytes_is_skipped_and_the_next_one_is_read(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    surface.submit("huge", size=100_000_000, timeout=60).result(60)
    assert surface.run("increment") == {"count": 1}
    [note] = [line for line in session.log if "over the limit" in line]
    assert "100000000 bytes" in note
    assert len(note) < 500


def test_a_gap_in_the_revisions_is_counted_and_an_old_state_is_not_taken(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    surface.run("skip")
    surface.run("again")
    assert (surface.rev, session.mirror.gaps, surface.state) == (6, 1, {"count": 0})


def test_preferences_are_written_back_through_the_agent_and_surfaces_are_not(open_: Open) -> None:
    session = open_("counter")
    arrived = threading.Event()

    def heard(news: SessionNews) -> None:
        if news == SessionNews("state", "ui.theme"):
            arrived.set()

    unsubscribe = session.subscribe(heard)
    session.set_state("ui.theme", "dark")
    assert arrived.wait(PATIENCE)
    assert session.state == {"ui.theme": "dark"}
    arrived.clear()
    session.delete_state("ui.theme")
    assert arrived.wait(PATIENCE)
    assert session.state == {}
    unsubscribe()
    with pytest.raises(SurfaceCommandError) as caught:
        session.set_state("surface:demo", {"count": 99})
    assert caught.value.code == "forbidden"
    with pytest.raises(StateValueError, match=r"ui\.x"):
        session.set_state("ui.x", float("nan"))


def test_observers_get_the_present_state_and_the_last_one_on_one_thread(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    seen: list[int] = []
    threads: set[str] = set()
    done = threading.Event()

    def observer(state: Any) -> None:
        seen.append(state["count"])
        threads.add(threading.current_thread().name)
        if state["count"] == 200:
            done.set()

    end = surface.observe(observer)
    for _ in range(200):
        surface.run("increment")
    assert done.wait(PATIENCE)
    end()
    surface.run("increment")
    assert seen == sorted(set(seen))
    assert seen[-1] == 200
    assert threads == {"piweb-callbacks"}


def test_an_observer_that_raises_shows_in_the_log_and_goes_on(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    calls: list[int] = []
    second = threading.Event()

    def observer(state: Any) -> None:
        calls.append(state["count"])
        if state["count"]:
            second.set()
        raise RuntimeError("mine")

    surface.observe(observer)
    surface.run("increment")
    assert second.wait(PATIENCE)
    settled(surface.submit("echo"))
    assert any("RuntimeError: mine" in line for line in session.log)


def test_until_waits_for_a_state_and_gives_what_the_predicate_gave(open_: Open) -> None:
    surface = open_("counter").surface("demo")
    waiter = surface.until(lambda state: state["count"] >= 3 and "there", timeout=PATIENCE)
    for _ in range(3):
        surface.submit("increment")
    assert waiter.wait() == "there"
    with pytest.raises(TimeoutError, match="did not get there"):
        surface.until(lambda state: state["count"] > 99, timeout=0.05).wait()


def test_everything_that_blocks_can_be_awaited_instead(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")

    async def cell() -> tuple[Any, Any, str]:
        data = await surface.submit("increment")
        seen = await surface.until(lambda state: state["count"], timeout=PATIENCE)
        turn = await session.prompt("hi")
        with pytest.raises(SurfaceCommandError):
            await surface.submit("fail")
        with pytest.raises(TimeoutError):
            await surface.until(lambda state: False, timeout=0.05)
        return data, seen, turn.text

    assert asyncio.run(cell()) == ({"count": 1}, 1, "You said hi.")


def test_a_prompt_is_a_turn_and_a_second_one_meanwhile_says_what_to_do(open_: Open) -> None:
    session = open_("counter")
    turn = session.prompt("hello")
    assert turn.wait(PATIENCE) is turn
    assert (turn.text, turn.error, turn.aborted, repr(turn)) == (
        "You said hello.",
        None,
        False,
        "<Turn done>",
    )
    waiting = session.prompt("wait")
    with pytest.raises(RequestError, match=r"session\.steer"):
        session.prompt("more")
    session.abort()
    waiting.wait(PATIENCE)
    assert waiting.aborted
    assert repr(waiting) == "<Turn aborted>"


def test_a_refused_prompt_ends_its_turn_with_the_agents_words(open_: Open) -> None:
    session = open_("counter")
    with pytest.raises(RequestError, match="no model"):
        session.prompt("refuse").wait(PATIENCE)
    assert session.prompt("again").wait(PATIENCE).text == "You said again."


def test_an_agent_that_dies_in_a_turn_fails_the_turn(open_: Open) -> None:
    turn = open_("counter").prompt("die")
    with pytest.raises(AgentExitedError, match="code 3"):
        turn.wait(PATIENCE)


def test_abort_gives_queued_messages_back(open_: Open) -> None:
    session = open_("counter")
    turn = session.prompt("wait")
    queued = threading.Event()

    def heard(news: SessionNews) -> None:
        if news.kind == "event" and type(news.value).__name__ == "QueueUpdate":
            queued.set()

    session.subscribe(heard)
    session.steer("later")
    assert queued.wait(PATIENCE)
    assert session.abort() == ["later"]
    turn.wait(PATIENCE)
    assert session.clear_queue() == ([], [])


def test_a_question_waits_until_it_is_answered_once(open_: Open) -> None:
    session = open_("counter")
    session.surface("demo").run("ask", {"id": "q1"})
    assert [question.title for question in session.questions.open] == ["Sure?"]
    assert session.answer("q1", True)
    assert not session.answer("q1", False)
    session.surface("demo").run("increment")
    assert session.state["answer"]["confirmed"] is True


def test_a_question_with_a_timeout_closes_by_itself(open_: Open) -> None:
    session = open_("counter")
    closed = threading.Event()
    session.news.listener = _OnQuestion(session, closed)
    session.surface("demo").run("ask", {"id": "q1", "timeout": 50})
    assert closed.wait(PATIENCE)
    session.news.listener = None


class _OnQuestion:
    def __init__(self, session: AgentSession, closed: threading.Event) -> None:
        self._session = session
        self._closed = closed
        self._opened = False

    def on_question(self, session: AgentSession) -> None:
        self._opened = self._opened or bool(session.questions.open)
        if self._opened and not session.questions.open:
            self._closed.set()

    def on_state(self, session: AgentSession, key: str) -> None: ...
    def on_transcript(self, session: AgentSession, ops: list[Any]) -> None: ...
    def on_command(self, session: AgentSession, command: Command) -> None: ...
    def on_lifecycle(self, session: AgentSession) -> None: ...


def test_any_command_of_pis_can_be_sent_and_a_refusal_is_an_error(open_: Open) -> None:
    session = open_("counter")
    assert session.request("get_state")["thinkingLevel"] == "low"
    assert session.model == "fake/m1"
    with pytest.raises(RequestError, match="Unknown command: compact"):
        session.request("compact")


def test_a_view_hears_each_stage_of_its_command(open_: Open) -> None:
    session = open_("counter")
    stages: list[str] = []

    class Listener(_OnQuestion):
        def on_command(self, session: AgentSession, command: Command) -> None:
            stages.append(command.stage)

    session.news.listener = Listener(session, threading.Event())
    held = session.surface("demo").submit("hold", id="p-1", started=True)
    session.surface("demo").run("release")
    held.result(PATIENCE)
    session.news.listener = None
    assert stages == ["written", "running", "done"]


def test_closing_is_final_and_says_so(open_: Open) -> None:
    session = open_("counter")
    surface = session.surface("demo")
    session.close()
    session.close()
    with pytest.raises(AgentExitedError, match="closed"):
        surface.run("increment")
    with pytest.raises(AgentExitedError, match="open it anew"):
        session.prompt("hello")

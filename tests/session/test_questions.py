"""Questions of an agent of ours: whoever has asked, they are open as long as somebody waits."""

from __future__ import annotations

import queue

import pytest

from piweb_jupyter.errors import SurfaceCommandError
from piweb_jupyter.host.news import SessionNews
from piweb_jupyter.host.session import AgentSession
from tests.session.conftest import Run

PATIENCE = 60.0


class Asked:
    """How many questions are open, after each change."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._counts: queue.Queue[int] = queue.Queue()
        session.news.listener = self  # type: ignore[assignment]  # on_question is what it hears

    def __getattr__(self, name: str) -> object:
        return lambda *_: None

    def on_question(self, session: AgentSession) -> None:
        self._counts.put(len(session.questions))

    def until(self, count: int) -> None:
        while self._counts.get(timeout=PATIENCE) != count:
            pass


def test_a_question_that_a_click_has_asked_outlives_the_run_of_a_prompt(run: Run) -> None:
    session = run("busy_agent")
    asked = Asked(session)
    click = session.surface("demo").submit("ask", actor="user", id="page.1")
    asked.until(1)
    assert session.prompt("hello").wait(PATIENCE).text
    [question] = session.questions.open
    assert session.answer(question.id, "Ada")
    assert click.result(PATIENCE) == "Ada"
    assert session.questions.open == ()


def test_a_question_of_a_tool_closes_when_the_run_is_aborted(run: Run) -> None:
    session = run("busy_agent")
    asked = Asked(session)
    turn = session.prompt("CALL ask {}")
    asked.until(1)
    session.abort()
    asked.until(0)
    assert turn.wait(PATIENCE).aborted


def test_a_question_closes_with_the_command_that_has_asked_it(run: Run) -> None:
    session = run("busy_agent")
    asked = Asked(session)
    click = session.surface("demo").submit("ask")
    asked.until(1)
    click.cancel()
    asked.until(0)
    with pytest.raises(SurfaceCommandError) as caught:
        click.result(PATIENCE)
    assert caught.value.code == "cancelled"


def test_subscribers_hear_of_a_question_by_its_id(run: Run) -> None:
    session = run("busy_agent")
    heard: queue.Queue[SessionNews] = queue.Queue()
    session.subscribe(lambda news: heard.put(news) if news.kind == "question" else None)
    click = session.surface("demo").submit("ask")
    id_ = heard.get(timeout=PATIENCE).value
    assert session.answer(id_, None)
    assert click.result(PATIENCE) is None

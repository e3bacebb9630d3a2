from __future__ import annotations

import random
import threading
from typing import Any

from piweb_jupyter.host.command import Command
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.host.surface import Surface
from tests.session.conftest import Run

PATIENCE = 60.0


class Revisions:
    """Listens as a publisher would, and keeps each version it could have drawn."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def on_state(self, session: AgentSession, key: str) -> None:
        held = session.mirror.get(key)
        if key == "surface:demo" and held is not None:
            self.seen.append(held.version)

    def on_transcript(self, session: AgentSession, ops: list[Any]) -> None: ...
    def on_command(self, session: AgentSession, command: Command) -> None: ...
    def on_question(self, session: AgentSession) -> None: ...
    def on_lifecycle(self, session: AgentSession) -> None: ...


def test_a_thousand_interleaved_clicks_cells_and_tool_calls_end_on_one_state(run: Run) -> None:
    session = run("busy_agent")
    revisions = Revisions()
    session.news.listener = revisions
    surface = session.surface("demo")
    totals: dict[str, int] = {}
    dice = random.Random(7)
    plans = {
        "user": [dice.randint(1, 9) for _ in range(400)],
        "cell": [dice.randint(1, 9) for _ in range(400)],
        "llm": [dice.randint(1, 9) for _ in range(200)],
    }
    failures: list[BaseException] = []

    def client(actor: str, steps: list[int]) -> None:
        try:
            totals[actor] = play(session, surface, actor, steps)
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=client, args=item) for item in plans.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    session.news.listener = None
    assert failures == []
    assert totals == {actor: sum(steps) for actor, steps in plans.items()}
    assert surface.state == {"count": sum(totals.values()), "by": totals}
    assert revisions.seen == sorted(revisions.seen)  # nothing older, though perhaps one twice
    assert surface.rev == 1000
    assert session.mirror.gaps == 0


def play(session: AgentSession, surface: Surface, actor: str, steps: list[int]) -> int:
    """One client's increments; the sum of what succeeded."""
    if actor == "cell":
        for by in steps:
            surface.run("increment", by=by)
    elif actor == "user":
        clicks = [
            surface.submit("increment", actor="user", id=f"page-{n}", by=by)
            for n, by in enumerate(steps)
        ]
        for click in clicks:
            click.result(PATIENCE)
    else:
        for start in range(0, len(steps), 20):
            calls = "\n".join(f'CALL increment {{"by":{by}}}' for by in steps[start : start + 20])
            session.prompt(calls).wait(PATIENCE)
    return sum(steps)


def test_commands_that_wait_in_between_lose_no_update_of_each_other(run: Run) -> None:
    surface = run("busy_agent").surface("demo")
    commands = [surface.submit("increment_slowly") for _ in range(100)]
    assert [command.result(PATIENCE) for command in commands] == list(range(1, 101))
    assert surface.state["count"] == 100


def test_the_same_id_runs_once_and_two_tabs_run_twice(run: Run) -> None:
    surface = run("busy_agent").surface("demo")
    twice = [surface.submit("increment", actor="user", id="tab1-1") for _ in range(2)]
    other = surface.submit("increment", actor="user", id="tab2-1")
    for command in (*twice, other):
        command.result(PATIENCE)
    assert surface.state["count"] == 2


def test_fifty_agents_at_once_lose_nothing_and_share_one_thread(run: Run) -> None:
    sessions = [run("busy_agent", name=f"agent-{n}", ready=False) for n in range(50)]
    for session in sessions:
        session.wait_ready(90)
    commands = [
        session.surface("demo").submit("increment") for _ in range(100) for session in sessions
    ]
    for command in commands:
        command.result(PATIENCE)
    assert [session.surface("demo").state["count"] for session in sessions] == [100] * 50
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("piweb-io") == 1
    assert sum(name.startswith("piweb-") for name in names) <= 3

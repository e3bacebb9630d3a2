"""Whose turn it is: commands one after another, concurrent ones, cancelling, spawned work."""

from __future__ import annotations

import pytest

from tests.agent.child import Child
from tests.agent.conftest import Launch

TURNS = """
    import asyncio
    from piweb_jupyter.agent import create_surface, define_agent

    demo = create_surface("demo", {"log": []})
    other = create_surface("other", {"log": []})

    def note(ctx, line):
        ctx.set_state(lambda s: {"log": [*s["log"], line]})

    gates = {}

    def gate(name):
        return gates.setdefault(name, asyncio.Event())

    @demo.command
    async def hold(ctx, name: str):
        note(ctx, f"begin {name}")
        await gate(name).wait()
        note(ctx, f"end {name}")
        return name

    @demo.command
    def quick(ctx, name: str):
        note(ctx, f"quick {name}")
        return name

    @demo.command(concurrent=True)
    async def release(ctx, name: str):
        gate(name).set()

    @demo.command(concurrent=True)
    def peek(ctx):
        return ctx.get()["log"]

    @demo.command
    async def stubborn(ctx):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            note(ctx, f"cancelled {ctx.cancelled}")
            return "I ended by myself"

    @demo.command
    async def tidy(ctx):
        try:
            note(ctx, "begun")
            await asyncio.Event().wait()
        finally:
            note(ctx, "tidied")

    @demo.command
    def lazy(ctx):
        return hold(ctx, "lazy")

    @demo.command
    def cancel(ctx):
        return ctx.cancel_spawned()

    @demo.command
    def start(ctx, name: str = "work"):
        async def work():
            try:
                note(ctx, f"begin {name}")
                await gate(name).wait()
                note(ctx, f"end {name}")
            except asyncio.CancelledError:
                note(ctx, f"stopped {name}")
                raise

        ctx.spawn(work())
        return "accepted"

    @demo.command
    async def start_and_stop(ctx):
        async def work():
            note(ctx, "never")

        spawned = ctx.spawn(work())
        spawned.cancel()

    @demo.command
    def start_badly(ctx):
        async def work():
            raise ValueError("spawned and failed")

        ctx.spawn(work())

    @demo.command
    def start_no_coroutine(ctx):
        ctx.spawn(note)

    @other.command
    def quick_here(ctx):
        note(ctx, "quick")

    agent = define_agent(surfaces=[demo, other])
"""


@pytest.fixture
def turns(launch: Launch) -> Child:
    return launch(TURNS).ready()


def log_of(child: Child) -> list[str]:
    log = child.state()["value"]["log"]
    assert isinstance(log, list)
    return log


def test_commands_of_one_surface_run_one_after_another(turns: Child) -> None:
    first = turns.command("hold", {"name": "a"})
    second = turns.command("hold", {"name": "b"})
    third = turns.command("quick", {"name": "c"})
    turns.run("release", {"name": "b"})
    assert turns.run("peek") == ["begin a"]
    turns.run("release", {"name": "a"})
    assert [turns.outcome(id_) for id_ in (first, second, third)] == ["a", "b", "c"]
    assert log_of(turns) == ["begin a", "end a", "begin b", "end b", "quick c"]


def test_another_surface_does_not_wait(turns: Child) -> None:
    turns.command("hold", {"name": "a"})
    assert turns.run("quick_here", domain="other") is None


def test_only_what_is_seen_to_run_is_said_to_have_started(turns: Child) -> None:
    held = turns.command("hold", {"name": "a"})
    turns.wait(lambda line: line == {"type": "piweb_command_started", "correlationId": held})
    queued = turns.command("quick", {"name": "b"})
    turns.run("peek")
    started = [line for line in turns.lines if line["type"] == "piweb_command_started"]
    assert len(started) == 1  # the other one waits for its turn
    turns.run("release", {"name": "a"})
    turns.outcome(queued)
    started = [line for line in turns.lines if line["type"] == "piweb_command_started"]
    assert [line["correlationId"] for line in started] == [held]


def test_a_plain_function_that_returns_a_coroutine_is_awaited(turns: Child) -> None:
    id_ = turns.command("lazy")
    turns.run("release", {"name": "lazy"})
    assert turns.outcome(id_) == "lazy"


def test_a_command_called_cancel_never_queues(turns: Child) -> None:
    turns.command("hold", {"name": "a"})
    assert turns.run("cancel") == 0
    declared = {command["name"]: command for command in turns.lines[0]["commands"]}
    assert declared["cancel"]["concurrent"] is True


def test_a_running_command_is_cancelled(turns: Child) -> None:
    id_ = turns.command("tidy")
    waiting = turns.command("quick", {"name": "next"})
    turns.state(rev=1)
    turns.send({"type": "piweb_command_cancel", "correlationId": id_})
    assert turns.outcome(id_) == {"code": "cancelled", "message": "the command was cancelled"}
    assert turns.outcome(waiting) == "next"
    assert log_of(turns) == ["begun", "tidied", "quick next"]


def test_a_command_cancelled_at_once_is_answered_too(turns: Child) -> None:
    for number in range(50):
        id_ = turns.command("tidy")
        turns.send({"type": "piweb_command_cancel", "correlationId": id_})
        assert turns.outcome(id_)["code"] == "cancelled", number
    assert turns.run("quick", {"name": "x"}) == "x"


def test_a_command_that_ends_well_all_the_same_says_so(turns: Child) -> None:
    id_ = turns.command("stubborn")
    turns.wait(lambda line: line.get("correlationId") == id_)
    turns.barrier()
    turns.send({"type": "piweb_command_cancel", "correlationId": id_})
    assert turns.outcome(id_) == "I ended by myself"
    assert log_of(turns) == ["cancelled True"]


def test_a_waiting_command_that_is_cancelled_never_begins(turns: Child) -> None:
    turns.command("hold", {"name": "a"})
    waiting = turns.command("quick", {"name": "b"})
    last = turns.command("quick", {"name": "c"})
    turns.send({"type": "piweb_command_cancel", "correlationId": waiting})
    assert turns.outcome(waiting)["code"] == "cancelled"
    turns.run("release", {"name": "a"})
    assert turns.outcome(last) == "c"
    assert log_of(turns) == ["begin a", "end a", "quick c"]


def test_cancelling_what_is_unknown_or_over_does_nothing(turns: Child) -> None:
    id_ = turns.command("quick", {"name": "a"})
    turns.outcome(id_)
    for target in (id_, "never heard of"):
        turns.send({"type": "piweb_command_cancel", "correlationId": target})
    turns.barrier()
    assert turns.run("quick", {"name": "b"}) == "b"


def test_spawned_work_outlives_its_command_and_reports_through_the_state(turns: Child) -> None:
    id_ = turns.command("start", {"name": "w"}, actor="cell")
    assert turns.outcome(id_) == "accepted"
    turns.state(rev=1)
    turns.run("quick", {"name": "meanwhile"})
    turns.run("release", {"name": "w"})
    end = turns.state(rev=3)
    assert end["value"]["log"] == ["begin w", "quick meanwhile", "end w"]
    assert end["cause"] == {"correlationId": id_, "action": "start", "actor": "cell"}


def test_the_surfaces_cancel_ends_spawned_work(turns: Child) -> None:
    turns.run("start", {"name": "a"})
    turns.run("start", {"name": "b"})
    turns.state(rev=2)
    assert turns.run("cancel") == 2
    assert turns.state(rev=4)["value"]["log"][2:] == ["stopped a", "stopped b"]


def test_cancelling_a_command_that_is_over_ends_what_it_has_spawned(turns: Child) -> None:
    first, second = turns.command("start", {"name": "a"}), turns.command("start", {"name": "b"})
    turns.state(rev=2)
    turns.send({"type": "piweb_command_cancel", "correlationId": first})
    assert turns.state(rev=3)["value"]["log"][2:] == ["stopped a"]
    turns.run("release", {"name": "b"})
    assert turns.state(rev=4)["cause"]["correlationId"] == second


def test_work_that_is_cancelled_before_it_begins_leaves_no_trace(turns: Child) -> None:
    turns.run("start_and_stop")
    assert turns.run("quick", {"name": "x"}) == "x"
    assert log_of(turns) == ["quick x"]
    turns.close()
    turns.wait_end()
    assert turns.said == ""


def test_spawned_work_that_fails_is_in_the_log(turns: Child) -> None:
    turns.run("start_badly")
    turns.wait_said("ValueError: spawned and failed")
    assert "work spawned by `start_badly` of surface `demo` failed" in turns.said


def test_what_is_no_coroutine_cannot_be_spawned(turns: Child) -> None:
    error = turns.run("start_no_coroutine")
    assert error["code"] == "dispatch_failed"
    assert "spawn takes a coroutine" in error["message"]


# ---------------------------------------------------------------- hydrate

HYDRATE = """
    import asyncio, threading
    import piweb_jupyter.runner.hydrate as hydrate
    from piweb_jupyter.agent import create_surface, define_agent

    hydrate.HYDRATE_DEADLINE = {deadline}
    gate = threading.Event()
    demo = create_surface("demo", {{"count": 0}})
    door = create_surface("door", {{}})

    @demo.hydrate
    {hydrate}

    @demo.command
    def increment(ctx, by: int = 1):
        return ctx.set_state(lambda s: {{"count": s["count"] + by}})

    @demo.command(concurrent=True)
    def look(ctx):
        return ctx.get()

    @door.command
    def open(ctx):
        gate.set()

    agent = define_agent(surfaces=[demo, door])
"""
PLAIN = """def load():
        gate.wait(20)
        return {"count": 10}"""
LATER = """async def load():
        await asyncio.to_thread(gate.wait)
        return {"count": 10}"""


@pytest.mark.parametrize("hydrate", [PLAIN, LATER])
def test_commands_wait_for_hydrate_and_work_on_what_it_brought(
    launch: Launch, hydrate: str
) -> None:
    child = launch(HYDRATE.format(deadline=20, hydrate=hydrate)).ready()
    ids = [child.command("increment"), child.command("look"), child.command("increment")]
    child.barrier()
    assert child.states() == []  # it has nothing to show yet
    child.run("open", domain="door")
    assert [child.outcome(id_)["count"] for id_ in (ids[0], ids[2])] == [11, 12]
    assert child.outcome(ids[1])["count"] >= 10
    assert [line["value"]["count"] for line in child.states()] == [10, 11, 12]


def test_a_waiting_command_can_be_cancelled_during_hydrate(launch: Launch) -> None:
    child = launch(HYDRATE.format(deadline=20, hydrate=PLAIN)).ready()
    id_ = child.command("increment")
    child.send({"type": "piweb_command_cancel", "correlationId": id_})
    assert child.outcome(id_)["code"] == "cancelled"
    child.run("open", domain="door")
    assert child.run("look") == {"count": 10}


def test_after_the_deadline_commands_run_and_hydrate_does_not_undo_them(launch: Launch) -> None:
    child = launch(HYDRATE.format(deadline=0.05, hydrate=PLAIN)).ready()
    assert child.run("increment") == {"count": 1}
    child.wait_said("hydrate has not ended after 0.05 s")
    child.run("open", domain="door")
    child.wait_said("what hydrate brought was left out")
    assert child.run("look") == {"count": 1}


def test_what_hydrate_brings_late_is_shown_if_nothing_has_changed_meanwhile(
    launch: Launch,
) -> None:
    child = launch(HYDRATE.format(deadline=0.05, hydrate=PLAIN)).ready()
    assert child.run("look") == {"count": 0}
    child.run("open", domain="door")
    assert child.state(rev=1)["value"] == {"count": 10}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise OSError('no such shelf')", "OSError: no such shelf"),
        ("return {1, 2}", "set is not JSON"),
        ("return None", ""),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_hydrate_that_brings_nothing_leaves_the_initial_state(
    launch: Launch, kind: str, body: str, said: str
) -> None:
    hydrate = f"{kind} load():\n        {body}"
    child = launch(HYDRATE.format(deadline=20, hydrate=hydrate)).ready()
    assert child.run("increment") == {"count": 1}
    child.wait_said(said)
    assert [line["value"]["count"] for line in child.states()] == [0, 1]

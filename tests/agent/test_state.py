"""The shared state, the routes and the completions of an agent, over the pipe."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.child import Child
from tests.agent.conftest import Launch

SHARED = """
    from piweb_jupyter.agent import (
        StateValueError, create_surface, define_agent, get_session_state
    )

    state = get_session_state()
    assert not state.available  # nothing is running yet
    state.set("early", 1)
    assert state.get("early") is None and state.snapshot() == {}

    demo = create_surface("demo", {"n": 0})

    @demo.command
    def do(args, ctx):
        return getattr(state, args[0])(*args[1:])

    @demo.command
    def available(ctx):
        return state.available

    @demo.command
    def odd(ctx):
        refused = []
        for key, value in (("surface:demo", {}), ("", 1), (7, 1), ("a", {1}), ("a", float("nan"))):
            try:
                state.set(key, value)
            except StateValueError as exc:
                refused.append(str(exc))
        return refused

    @demo.command
    def alias(ctx):
        value = {"list": [1]}
        state.set("mine", value)
        value["list"].append(2)
        state.get("mine")["list"].append(3)
        return state.get("mine")

    agent = define_agent(surfaces=[demo])
"""


@pytest.fixture
def shared(launch: Launch) -> Child:
    return launch(SHARED).ready()


def sent(child: Child, key: str) -> list[tuple[Any, ...]]:
    return [
        (line["rev"], line.get("value", "absent"), line.get("deleted", False))
        for line in child.states(key)
    ]


def test_what_the_agent_sets_is_told_with_a_rev_per_key(shared: Child) -> None:
    for key, value in (("a", 1), ("a", 1), ("b", None), ("a", {"x": []})):
        shared.run("do", ["set", key, value])
    assert shared.run("do", ["delete", "a"]) is True
    assert shared.run("do", ["delete", "a"]) is False
    assert shared.run("do", ["delete", "never"]) is False
    shared.run("do", ["set", "a", 2])
    assert sent(shared, "a") == [
        (0, 1, False),
        (1, 1, False),
        (2, {"x": []}, False),
        (3, "absent", True),
        (4, "absent", True),
        (5, 2, False),
    ]
    assert sent(shared, "b") == [(0, None, False)]
    assert sent(shared, "never") == [(0, "absent", True)]
    assert shared.run("do", ["snapshot"]) == {"surface:demo": {"n": 0}, "a": 2, "b": None}
    assert [shared.run("do", ["get", key]) for key in ("a", "b", "nothing")] == [2, None, None]
    assert shared.run("available") is True


def test_what_a_view_writes_back_is_told_to_everybody(shared: Child) -> None:
    shared.send(
        {"type": "piweb_state_set", "key": "ui.theme", "value": "dark"},
        {"type": "piweb_state_set", "key": "ui.theme", "value": None},
        {"type": "piweb_state_set", "key": "ui.theme"},
        {"type": "piweb_state_delete", "key": "ui.theme"},
        {"type": "piweb_state_set", "key": "ui.theme", "value": "light"},
    )
    assert shared.run("do", ["get", "ui.theme"]) == "light"
    assert sent(shared, "ui.theme") == [
        (0, "dark", False),
        (1, None, False),
        (2, "absent", False),
        (3, "absent", True),
        (4, "light", False),
    ]


def test_a_view_cannot_write_a_surface(shared: Child) -> None:
    shared.send(
        {"type": "piweb_state_set", "key": "surface:demo", "value": {"n": 666}},
        {"type": "piweb_state_set", "key": "surface:new", "value": {}},
        {"type": "piweb_state_delete", "key": "surface:demo"},
    )
    assert shared.run("do", ["snapshot"]) == {"surface:demo": {"n": 0}}
    assert sent(shared, "surface:demo") == [(0, {"n": 0}, False)]
    shared.wait_said("a write-back to 'surface:new' was dropped")


@pytest.mark.parametrize("key", [{}, {"key": ""}, {"key": 7}, {"key": None}])
@pytest.mark.parametrize("type_", ["piweb_state_set", "piweb_state_delete"])
def test_a_write_without_a_key_is_passed_over(
    shared: Child, type_: str, key: dict[str, Any]
) -> None:
    shared.send({"type": type_, "value": 1, **key})
    assert shared.run("do", ["snapshot"]) == {"surface:demo": {"n": 0}}


def test_a_value_that_cannot_be_carried_on_is_dropped(shared: Child) -> None:
    for value in (b"[" * 600 + b"]" * 600, b"9007199254740993"):
        shared.send(b'{"type":"piweb_state_set","key":"x","value":' + value + b"}\n")
    assert shared.run("do", ["snapshot"]) == {"surface:demo": {"n": 0}}
    shared.wait_said("nested deeper than 250 levels")
    shared.wait_said("state `x`: an integer beyond 2^53")


def test_the_agent_cannot_set_what_is_not_its_to_set(shared: Child) -> None:
    surface, empty, number, a_set, nan = shared.run("odd")
    assert surface == "'surface:demo' belongs to a surface; change it with ctx.set_state"
    assert "non-empty string, not ''" in empty
    assert "non-empty string, not 7" in number
    assert a_set == "state `a`: set is not JSON"
    assert nan.startswith("state `a`: nan is not JSON")


def test_the_state_is_a_copy(shared: Child) -> None:
    assert shared.run("alias") == {"list": [1]}


# ---------------------------------------------------------------- routes

ROUTES = """
    import asyncio
    from piweb_jupyter.agent import define_agent

    def listing(request):
        "All there is."
        return {"query": request.query, "body": request.body, "method": request.method}

    agent = define_agent(
        routes={"list": listing},
        slash_completions=["plan", {"name": "fix", "description": "Fix it", "insertText": "/fix "}],
    )
    gate = asyncio.Event()

    @agent.route("wait")
    async def wait(request):
        await gate.wait()
        return "waited"

    @agent.route("go", methods=["POST"])
    async def go(request):
        gate.set()

    @agent.route("fail")
    def fail(request):
        raise ValueError("no shelf")

    @agent.route("fail-later")
    async def fail_later(request):
        raise ValueError("no shelf later")

    @agent.route("odd")
    def odd(request):
        return {"a": {1}}
"""


def ask(child: Child, name: str, method: str = "GET", **more: Any) -> str:
    id_ = f"{name}-{method}"
    frame = {"type": "piweb_agent_route_request", "id": id_, "name": name, "method": method}
    child.send({**frame, "query": {}, **more})
    return id_


def told(child: Child, id_: str) -> dict[str, Any]:
    answer = child.wait(
        lambda line: line["type"] == "piweb_agent_route_result" and line["id"] == id_
    )
    return {key: value for key, value in answer.items() if key not in ("type", "id")}


def test_routes_and_completions_are_declared_before_it_is_ready(launch: Launch) -> None:
    child = launch(ROUTES).ready()
    assert [line["type"] for line in child.lines] == [
        "agent_routes",
        "slash_completions",
        "runner_ready",
    ]
    routes, completions = child.lines[:2]
    assert routes["routes"][0] == {
        "name": "list",
        "methods": ["GET"],
        "description": "All there is.",
    }
    assert routes["routes"][2] == {"name": "go", "methods": ["POST"]}
    assert completions["items"] == [
        {"name": "plan"},
        {"name": "fix", "description": "Fix it", "insertText": "/fix "},
    ]


def test_a_route_answers(launch: Launch) -> None:
    child = launch(ROUTES).ready()
    id_ = ask(child, "list", query={"q": "x", "n": 7}, body=None)
    assert told(child, id_) == {
        "ok": True,
        "result": {"query": {"q": "x"}, "body": None, "method": "GET"},
    }


def test_a_route_that_waits_holds_no_other_up(launch: Launch) -> None:
    child = launch(ROUTES).ready()
    waiting = ask(child, "wait")
    assert told(child, ask(child, "go", "POST", body={"x": 1})) == {"ok": True}
    assert told(child, waiting) == {"ok": True, "result": "waited"}


@pytest.mark.parametrize(
    ("name", "method", "code", "message"),
    [
        ("nowhere", "GET", "route_not_registered", "there is no route `nowhere`"),
        ("fail", "GET", "handler_error", "no shelf"),
        ("fail-later", "GET", "handler_error", "no shelf later"),
        ("odd", "GET", "handler_error", "result of route `odd`.a: set is not JSON"),
    ],
)
def test_a_route_that_fails_says_why(
    launch: Launch, name: str, method: str, code: str, message: str
) -> None:
    child = launch(ROUTES).ready()
    assert told(child, ask(child, name, method)) == {
        "ok": False,
        "error": {"code": code, "message": message},
    }

"""Surfaces over the pipe: what a host sees of states, commands and answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.child import Child, is_state, ui_rpc
from tests.agent.conftest import Launch

# ---------------------------------------------------------------- pi-web's own forms


def test_an_agent_declares_itself_shows_its_state_and_is_ready(counter: Child) -> None:
    assert counter.lines == [
        {
            "type": "piweb_surface",
            "domain": "demo",
            "commands": [
                {
                    "name": "increment",
                    "args": {
                        "type": "object",
                        "properties": {"by": {"type": "integer", "default": 1}},
                        "additionalProperties": False,
                    },
                }
            ],
        },
        {"type": "piweb_state", "key": "surface:demo", "value": {"count": 0}, "rev": 0},
        {"type": "runner_ready"},
    ]


def test_a_click_of_pi_web_is_answered_as_pi_webs_runner_answers(counter: Child) -> None:
    counter.send(ui_rpc("uirpc-1-42", "increment", {"by": 2}))
    assert counter.answer("uirpc-1-42") == {
        "type": "ui_rpc_response",
        "response": {
            "correlationId": "uirpc-1-42",
            "ok": True,
            "result": {
                "domain": "demo",
                "action": "increment",
                "ok": True,
                "data": {"count": 2},
            },
        },
    }


def test_the_state_comes_before_the_answer_and_says_what_caused_it(counter: Child) -> None:
    id_ = counter.command("increment", {"by": 3}, actor="cell")
    counter.answer(id_)
    assert counter.lines[-2] == {
        "type": "piweb_state",
        "key": "surface:demo",
        "value": {"count": 3},
        "rev": 1,
        "cause": {"correlationId": id_, "action": "increment", "actor": "cell"},
    }


def test_the_probe_command_of_every_surface_is_listed(counter: Child) -> None:
    counter.send({"id": "1", "type": "get_commands"})
    answer = counter.wait(lambda line: line["type"] == "response")
    assert [command["name"] for command in answer["data"]["commands"]] == ["surface:demo"]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"name": "clear", "argv": []}, id="a host command"),
        pytest.param({"domain": "", "action": "increment"}, id="an empty domain"),
        pytest.param({"action": "increment"}, id="no domain"),
        pytest.param({"domain": "demo", "action": ""}, id="an empty action"),
        pytest.param({"domain": "demo", "action": 7}, id="a number for an action"),
        pytest.param(None, id="no payload"),
    ],
)
def test_what_is_no_surface_command_gets_no_answer(counter: Child, payload: Any) -> None:
    frame = ui_rpc("c1", "increment")
    frame["request"]["payload"] = payload
    counter.send(frame)
    counter.barrier()
    assert [line["type"] for line in counter.lines[3:]] == ["response"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("point", "slash"),
        ("point", "nonsense"),
        ("action", "list"),
        ("correlationId", ""),
        ("correlationId", None),
        ("protocolVersion", None),
    ],
)
def test_a_request_that_breaks_the_schema_gets_no_answer(
    counter: Child, field: str, value: Any
) -> None:
    frame = ui_rpc("c1", "increment")
    if value is None:
        del frame["request"][field]
    else:
        frame["request"][field] = value
    counter.send(frame)
    counter.barrier()
    assert [line["type"] for line in counter.lines[3:]] == ["response"]


def test_another_version_and_further_fields_are_no_hindrance(counter: Child) -> None:
    frame = ui_rpc("c1", "increment", name="ignored", more={"x": 1})
    frame["request"]["protocolVersion"] = "99.0.0"
    frame["more"] = [1, 2]
    counter.send(frame)
    assert counter.outcome("c1") == {"count": 1}


def test_one_correlation_id_twice_runs_twice_here_for_the_host_tells_doubles(
    counter: Child,
) -> None:
    counter.send(ui_rpc("c1", "increment"), ui_rpc("c1", "increment"))
    counter.state(rev=2)
    counter.barrier()
    assert sum(line["type"] == "ui_rpc_response" for line in counter.lines) == 2


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "action", ["__class__", "toString", "constructor", "__proto__", "__init__", "get", "Increment"]
)
def test_actions_are_looked_up_in_the_authors_table_alone(counter: Child, action: str) -> None:
    error = counter.run(action)
    assert error["code"] == "unknown_action"
    assert f"there is no command `{action}`" in error["message"]


def test_an_unknown_action_is_told_the_nearest(counter: Child) -> None:
    assert counter.run("incremnt")["message"] == (
        "there is no command `incremnt`; did you mean `increment`?"
    )


def test_an_unknown_domain_is_told_the_ones_there_are(counter: Child) -> None:
    assert counter.run("increment", domain="canvas") == {
        "code": "surface_not_registered",
        "message": "there is no surface `canvas`; registered: demo",
    }


# ---------------------------------------------------------------- results and errors

RESULTS = """
    from piweb_jupyter.agent import SurfaceCommandError, create_surface, define_agent

    demo = create_surface("demo", {"n": 0})

    class Coded(Exception):
        code = "no_luck"

    class Numbered(Exception):
        code = 7

    @demo.command
    def give(args, ctx):
        return args

    @demo.command
    def nothing(ctx):
        pass

    @demo.command
    def refuse(ctx):
        raise SurfaceCommandError("too_late", "the shop is closed", details={"opens": 9})

    @demo.command
    def coded(ctx):
        raise Coded("not today")

    @demo.command
    def numbered(ctx):
        raise Numbered("seven")

    @demo.command
    def fail(ctx):
        ctx.set_state({"n": 1})
        raise ValueError("it broke")

    @demo.command
    def key(ctx):
        return {}["colour"]

    @demo.command
    def wordless(ctx):
        raise RuntimeError

    @demo.command
    def interrupt(ctx):
        raise KeyboardInterrupt

    @demo.command
    async def fail_later(ctx):
        raise Coded("a little later")

    @demo.command
    async def interrupt_later(ctx):
        raise KeyboardInterrupt

    agent = define_agent(surfaces=[demo])
"""


@pytest.fixture
def results(launch: Launch) -> Child:
    return launch(RESULTS).ready()


@pytest.mark.parametrize(
    "value", [{"a": [1, None, "x"]}, [], "text", 0, False, {"ok": False}, {"ok": False, "error": 1}]
)
def test_what_a_handler_returns_is_the_data(results: Child, value: Any) -> None:
    assert results.run("give", value) == value


def test_a_handler_that_returns_nothing_has_no_data(results: Child) -> None:
    answer = results.answer(results.command("nothing"))
    assert answer["response"]["result"] == {"domain": "demo", "action": "nothing", "ok": True}


def test_a_returned_error_is_an_error(results: Child) -> None:
    error = {"code": "full", "message": "no room", "left": 0}
    id_ = results.command("give", {"ok": False, "error": error})
    assert results.outcome(id_) == error
    assert results.answer(id_)["response"]["ok"] is False


def test_a_surface_command_error_keeps_code_message_and_details(results: Child) -> None:
    assert results.run("refuse") == {
        "code": "too_late",
        "message": "the shop is closed",
        "opens": 9,
    }


@pytest.mark.parametrize(
    ("action", "code", "message"),
    [
        ("coded", "no_luck", "not today"),
        ("numbered", "dispatch_failed", "seven"),
        ("fail", "dispatch_failed", "it broke"),
        ("key", "dispatch_failed", "KeyError: 'colour'"),
        ("wordless", "dispatch_failed", "RuntimeError"),
        ("interrupt", "dispatch_failed", "KeyboardInterrupt"),
        ("fail_later", "no_luck", "a little later"),
        ("interrupt_later", "dispatch_failed", "KeyboardInterrupt"),
    ],
)
def test_an_exception_is_an_error_and_the_agent_goes_on(
    results: Child, action: str, code: str, message: str
) -> None:
    assert results.run(action) == {"code": code, "message": message}
    assert results.run("give", 1) == 1


def test_a_state_set_before_an_exception_stays(results: Child) -> None:
    results.run("fail")
    assert results.state()["value"] == {"n": 1}


def test_the_log_shows_the_authors_lines_of_a_failure_and_none_of_ours(results: Child) -> None:
    results.run("fail")
    results.wait_said("ValueError: it broke")
    assert "command `fail` of surface `demo` failed" in results.said
    assert 'raise ValueError("it broke")' in results.said
    assert "piweb_jupyter/runner" not in results.said


# ---------------------------------------------------------------- what JSON cannot carry

ODD = """
    from piweb_jupyter.agent import create_surface, define_agent

    demo = create_surface("demo", {"n": 0})

    def values():
        loop = []
        loop.append(loop)
        deep = []
        for _ in range(1000):
            deep = [deep]
        return {
            "nan": {"a": [1.0, float("nan")]},
            "inf": float("inf"),
            "big": {"n": 2**53},
            "huge": 10**400,
            "set": {"s": {1, 2}},
            "bytes": b"x",
            "function": values,
            "loop": loop,
            "deep": deep,
            "surrogate": {"name": "\\ud83d"},
            "key": {1: "x"},
            "generator": (x for x in ()),
        }

    @demo.command
    def give(ctx, name: str):
        return values()[name]

    @demo.command
    def keep(ctx, name: str):
        ctx.set_state({"n": values()[name]})

    @demo.command
    async def give_later(ctx, name: str):
        return values()[name]

    @demo.command
    def look(ctx):
        return ctx.get()

    @demo.command
    def spoil(ctx):
        def reducer(state):
            state["n"] = 99
            raise ValueError("in the middle")

        ctx.set_state(reducer)

    @demo.command
    def spoil_with_a_set(ctx):
        def reducer(state):
            state["n"] = {1, 2}
            return state

        ctx.set_state(reducer)

    @demo.command
    def forget(ctx):
        ctx.set_state(lambda state: state.update(n=1))

    @demo.command
    def bad_details(ctx):
        from piweb_jupyter.agent import SurfaceCommandError
        raise SurfaceCommandError("odd", "see \\udcff details", details={"what": {1}})

    agent = define_agent(surfaces=[demo])
"""

PLACES = {
    "nan": (".a[1]", "nan is not JSON"),
    "inf": ("", "inf is not JSON"),
    "big": (".n", "an integer beyond 2^53"),
    "huge": ("", "an integer beyond 2^53"),
    "set": (".s", "set is not JSON"),
    "bytes": ("", "bytes is not JSON"),
    "function": ("", "function is not JSON"),
    "loop": ("[0]", "contains itself"),
    "deep": ("", "nested deeper"),
    "surrogate": (".name", "surrogate"),
    "key": ("", "a key must be a string"),
    "generator": ("", "generator is not JSON"),
}


def test_a_result_that_json_cannot_carry_is_an_error_that_names_the_place(launch: Launch) -> None:
    child = launch(ODD).ready()
    for action in ("give", "give_later"):
        for name, (place, reason) in PLACES.items():
            error = child.run(action, {"name": name})
            assert error["code"] == "unserializable", name
            assert error["message"].startswith(f"result of `{action}`{place}"), error
            assert reason in error["message"], error


def test_a_state_that_json_cannot_carry_is_refused_and_the_old_one_stays(launch: Launch) -> None:
    child = launch(ODD).ready()
    for name, (place, reason) in PLACES.items():
        error = child.run("keep", {"name": name})
        assert error["code"] == "unserializable", name
        assert error["message"].startswith(f"state of surface `demo`.n{place}"), error
        assert reason in error["message"], error
        assert child.run("look") == {"n": 0}
    assert [line["rev"] for line in child.states()] == [0]


@pytest.mark.parametrize("action", ["spoil", "spoil_with_a_set", "forget"])
def test_a_reducer_that_fails_has_changed_nothing(launch: Launch, action: str) -> None:
    child = launch(ODD).ready()
    error = child.run(action)
    assert error["code"] == ("dispatch_failed" if action == "spoil" else "unserializable")
    assert child.run("look") == {"n": 0}
    assert [line["rev"] for line in child.states()] == [0]


def test_a_reducer_that_returns_nothing_is_told_what_to_return(launch: Launch) -> None:
    child = launch(ODD).ready()
    assert "it must return the new state" in child.run("forget")["message"]


def test_details_and_messages_that_cannot_be_sent_do_not_cost_the_answer(launch: Launch) -> None:
    assert launch(ODD).ready().run("bad_details") == {"code": "odd", "message": "see ? details"}


# ---------------------------------------------------------------- typed surfaces

TYPED = """
    from typing import Annotated, Literal
    from pydantic import BaseModel, Field
    from piweb_jupyter.agent import create_surface, define_agent

    class Item(BaseModel):
        name: str
        size: int = 0

    class Demo(BaseModel):
        count: int = 0
        items: list[Item] = []

    demo = create_surface("demo", Demo, title="Counter")

    @demo.command
    def increment(ctx, by: Annotated[int, Field(ge=1, le=100)] = 1) -> dict:
        "Add to the counter."
        state = ctx.set_state(lambda s: s.model_copy(update={"count": s.count + by}))
        return {"count": state.count}

    @demo.command(title="Put in", confirm="Really?", guard=True)
    def add(ctx, item: Item, where: Literal["front", "back"] = "back"):
        def put(s):
            items = [item, *s.items] if where == "front" else [*s.items, item]
            return Demo(count=s.count, items=items)
        return ctx.set_state(put)

    @demo.command
    def nested(ctx, bad: bool = False):
        items = [Item(name="a"), Item.model_construct(name="b", size=float("nan"))]
        return {"items": items if bad else items[:1], "pair": (Item(name="c"), None)}

    @demo.command
    def spoil(ctx):
        ctx.set_state(lambda s: s.model_copy(update={"count": "many"}))

    @demo.command
    def plain(ctx):
        ctx.set_state(lambda s: {"count": 1})

    agent = define_agent(surfaces=[demo])
"""


def test_a_typed_surface_declares_schemas_and_options(launch: Launch) -> None:
    declared = launch(TYPED).ready().lines[0]
    increment, add = declared["commands"][:2]
    assert (declared["title"], declared["state"]["title"]) == ("Counter", "Demo")
    assert increment == {
        "name": "increment",
        "description": "Add to the counter.",
        "args": {
            "type": "object",
            "properties": {"by": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1}},
            "additionalProperties": False,
        },
    }
    assert (add["title"], add["confirm"], add["guard"]) == ("Put in", "Really?", True)
    assert add["args"]["required"] == ["item"]
    assert add["args"]["properties"]["where"] == {
        "type": "string",
        "enum": ["front", "back"],
        "default": "back",
    }


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"by": 0}, "by: input should be greater than or equal to 1, not 0"),
        ({"by": "many"}, "by: input should be a valid integer, unable to parse string as an"),
        ({"by": 1, "to": 2}, "to: is no argument of it; it takes by"),
        ([1], "the arguments must be an object, not an array"),
        ("by", "the arguments must be an object, not a string"),
    ],
)
def test_wrong_arguments_are_refused_with_the_field_named(
    launch: Launch, args: Any, message: str
) -> None:
    error = launch(TYPED).ready().run("increment", args)
    assert error["code"] == "invalid_args"
    assert error["message"].startswith(message)


def test_wrong_fields_of_an_argument_are_named_with_their_place(launch: Launch) -> None:
    error = launch(TYPED).ready().run("add", {"item": {"size": "x"}, "where": "top"})
    assert sorted(error["fields"]) == ["item.name", "item.size", "where"]
    assert error["fields"]["item.name"] == "is required"


def test_models_come_in_and_go_out(launch: Launch) -> None:
    child = launch(TYPED).ready()
    child.run("add", {"item": {"name": "b"}})
    data = child.run("add", {"item": {"name": "a", "size": "2"}, "where": "front"})
    assert data["items"] == [{"name": "a", "size": 2}, {"name": "b", "size": 0}]
    assert child.state()["value"] == data


def test_models_may_be_anywhere_in_a_result(launch: Launch) -> None:
    child = launch(TYPED).ready()
    assert child.run("nested") == {
        "items": [{"name": "a", "size": 0}],
        "pair": [{"name": "c", "size": 0}, None],
    }
    error = child.run("nested", {"bad": True})
    assert error["code"] == "unserializable"
    assert error["message"].startswith("result of `nested`.items[1]")


def test_a_typed_state_refuses_what_is_not_of_its_type(launch: Launch) -> None:
    child = launch(TYPED).ready()
    error = child.run("spoil")
    assert error["code"] == "unserializable"
    assert "count" in error["message"]
    assert "it must be a Demo, not dict" in child.run("plain")["message"]
    assert child.run("increment") == {"count": 1}


def test_a_guarded_command_of_an_older_rev_is_refused_with_the_present_one(launch: Launch) -> None:
    child = launch(TYPED).ready()
    item = {"item": {"name": "a"}}
    assert child.run("add", item, ifRev=0)["items"] == [{"name": "a", "size": 0}]
    error = child.run("add", item, ifRev=0)
    assert (error["code"], error["rev"]) == ("stale", 1)
    assert child.run("increment", ifRev=0) == {"count": 1}  # not guarded
    assert len(child.run("add", item)["items"]) == 2  # nobody said which state was seen
    assert len(child.run("add", item, ifRev=3)["items"]) == 3


# ---------------------------------------------------------------- the state, again


def test_a_host_may_ask_for_a_state_again_and_gets_the_same_rev(counter: Child) -> None:
    counter.run("increment")
    counter.send({"type": "piweb_state_set", "key": "ui.theme", "value": "dark"})
    counter.send({"type": "piweb_state_delete", "key": "ui.old"})
    counter.barrier()
    sent = {line["key"]: line for line in counter.lines if line["type"] == "piweb_state"}
    mark = len(counter.lines)
    counter.send({"type": "piweb_state_get", "key": "surface:demo"})
    counter.send({"type": "piweb_state_get", "key": "unheard of"})
    counter.send({"type": "piweb_state_get"})
    counter.barrier()
    again = [line for line in counter.since(mark) if line["type"] == "piweb_state"]
    assert again == [sent["surface:demo"], *sent.values()]


def test_states_are_full_values_and_rev_rises_by_one(counter: Child) -> None:
    for _ in range(5):
        counter.run("increment")
    states = counter.states()
    assert [line["rev"] for line in states] == [0, 1, 2, 3, 4, 5]
    assert [line["value"]["count"] for line in states] == [0, 1, 2, 3, 4, 5]
    assert all(is_state(line, "surface:demo") for line in states)

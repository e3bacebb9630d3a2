"""pi's commands: what is answered, in which form and order; nothing here needs a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from piweb_jupyter.agent import Agent, create_surface, define_agent
from piweb_jupyter.runner.model import ModelError
from piweb_jupyter.wire.json import dumps
from tests.agent.talk import Talk, summary


@pytest.fixture
def talk() -> Iterator[Talk]:
    with Talk(session_id="s1") as talk:
        yield talk


def raw(talk: Talk, line: bytes) -> dict[str, object]:
    """The answer to a line as it stands."""
    before = len(talk.lines.all())
    talk.write(line)
    (answer,) = talk.lines.all()[before:]
    return answer


def test_get_state_of_a_fresh_agent_has_every_field_that_pi_has(talk: Talk) -> None:
    state = talk.data("get_state")
    assert state["model"]["id"] == state["model"]["provider"] == "stub"
    del state["model"]
    assert state == {
        "thinkingLevel": "off",
        "isStreaming": False,
        "isCompacting": False,
        "steeringMode": "one-at-a-time",
        "followUpMode": "one-at-a-time",
        "sessionId": "s1",
        "autoCompactionEnabled": False,
        "messageCount": 0,
        "pendingMessageCount": 0,
    }


def test_without_a_model_get_state_has_pis_placeholder() -> None:
    with Talk(define_agent()) as talk:
        model = talk.data("get_state")["model"]
    assert (model["id"], model["provider"], model["reasoning"]) == ("unknown", "unknown", False)


def test_a_prompt_without_a_model_is_refused_and_the_error_names_the_next_action() -> None:
    with Talk(define_agent()) as talk:
        error = talk.error("prompt", message="hello")
        assert talk.data("get_state")["isStreaming"] is False
    assert "define_agent(model=...)" in error
    assert '"stub" works offline' in error
    assert "pip install 'piweb-jupyter[llm]'" in error


def test_the_command_lines_model_goes_before_the_agents() -> None:
    with Talk(define_agent(model="openai:gpt-5-mini"), model="stub") as talk:
        assert talk.data("get_state")["model"]["id"] == "stub"


def test_questions_about_the_state_import_neither_asyncio_nor_an_engine() -> None:
    script = """
import sys
from tests.agent.talk import Lines
from piweb_jupyter.agent import create_surface, define_agent
from piweb_jupyter.runner.rpc import RpcLoop
from piweb_jupyter.runner.runtime import Runtime
from piweb_jupyter.wire.host_frames import decode_host_line

writer = Lines()
demo = create_surface("demo", {"count": 0})
agent = define_agent(model="openai:gpt-5-mini", surfaces=[demo])
rpc = RpcLoop(Runtime(agent, "agent.py", writer))
for name in ("get_state", "get_messages", "get_commands", "get_available_models",
             "get_session_stats", "get_last_assistant_text", "get_fork_messages",
             "get_available_thinking_levels", "clear_queue", "abort", "new_session"):
    rpc.handle(decode_host_line(b'{"id":"1","type":"%s"}' % name.encode()))
assert all(line["success"] for line in writer.all())
assert len(writer.all()) == 11
print([m for m in ("asyncio", "pydantic", "pydantic_ai", "http", "ssl") if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            b'{"id":"x","type":"no_such"}',
            {"id": "x", "command": "no_such", "error": "Unknown command: no_such"},
        ),
        (
            b'{"id":"x","type":"bash","command":"ls"}',
            {"id": "x", "command": "bash", "error": "Unknown command: bash"},
        ),
        (b'{"id":"x2"}', {"id": "x2", "error": "Unknown command: undefined"}),
        (b'{"id":"x3","type":null}', {"id": "x3", "error": "Unknown command: null"}),
        (b"[]", {"error": "Unknown command: undefined"}),
        (b'"str"', {"error": "Unknown command: undefined"}),
        (b"42", {"error": "Unknown command: undefined"}),
        (b"null", {"error": "Unknown command: undefined"}),
    ],
)
def test_what_is_no_command_gets_pis_error_form(
    talk: Talk, line: bytes, answer: dict[str, object]
) -> None:
    assert raw(talk, line) == {"type": "response", "success": False, **answer}


def test_a_line_that_is_not_json_is_refused_without_an_id(talk: Talk) -> None:
    answer = raw(talk, b"{bad json}")
    assert answer.pop("error") == "Failed to parse command: not JSON: '{bad json}'"
    assert answer == {"type": "response", "command": "parse", "success": False}


@pytest.mark.parametrize("id_", ["r1", 7, {"a": 1}, [1], True, ""])
def test_an_id_of_any_kind_comes_back_as_it_was(talk: Talk, id_: object) -> None:
    answer = raw(talk, dumps({"id": id_, "type": "get_last_assistant_text"}))
    assert answer["id"] == id_
    assert answer["data"] == {}


def test_a_command_without_an_id_is_answered_without_one(talk: Talk) -> None:
    assert "id" not in raw(talk, b'{"type":"get_state"}')


@pytest.mark.parametrize(
    ("type_", "fields", "told"),
    [
        ("prompt", {}, "`message`"),
        ("prompt", {"message": 5}, "`message`"),
        ("prompt", {"message": "x", "images": "no"}, "`images`"),
        ("prompt", {"message": "x", "images": [{"type": "text"}]}, "`images[0]`"),
        ("prompt", {"message": "x", "streamingBehavior": "later"}, "`streamingBehavior`"),
        ("steer", {}, "`message`"),
        ("follow_up", {"message": None}, "`message`"),
        ("set_model", {"provider": "x"}, "`modelId`"),
        ("set_thinking_level", {}, "`level`"),
        ("set_steering_mode", {"mode": "weird"}, "`mode`"),
        ("set_follow_up_mode", {}, "`mode`"),
        ("set_session_name", {}, "`name`"),
        ("set_session_name", {"name": "  "}, "Session name cannot be empty"),
        ("fork", {}, "`entryId`"),
        ("fork", {"entryId": "zzz"}, "Invalid entry ID for forking"),
    ],
)
def test_a_missing_or_mistyped_field_is_named(
    talk: Talk, type_: str, fields: dict[str, object], told: str
) -> None:
    assert told in talk.error(type_, **fields)


def surfaces_agent() -> Agent:
    return define_agent(surfaces=[create_surface("demo", {}), create_surface("other", {})])


def test_get_commands_lists_a_probe_per_surface() -> None:
    with Talk(surfaces_agent()) as talk:
        commands = talk.data("get_commands")["commands"]
    assert [c["name"] for c in commands] == ["surface:demo", "surface:other"]
    assert {c["source"] for c in commands} == {"extension"}
    assert all(c["sourceInfo"]["path"] == "agent.py" for c in commands)


def test_a_probe_command_is_handled_and_starts_nothing() -> None:
    with Talk(surfaces_agent()) as talk:
        before = len(talk.lines.all())
        # Without a model, too: nothing is asked of one.
        assert talk.data("prompt", message="/surface:demo") == {"disposition": "handled"}
        assert "cannot be queued" in talk.error("steer", message="/surface:demo x")
        lines = talk.lines.all()[before:]
    assert [summary(line) for line in lines] == ["response prompt", "response steer"]


def test_queueing_tells_the_queues_before_it_answers(talk: Talk) -> None:
    assert talk.data("steer", message="a") == {"disposition": "queued"}
    assert talk.data("follow_up", message="b") == {"disposition": "queued"}
    assert talk.data("get_state")["pendingMessageCount"] == 2
    assert talk.data("clear_queue") == {"steering": ["a"], "followUp": ["b"]}
    assert talk.data("clear_queue") == {"steering": [], "followUp": []}
    lines = [line for line in talk.lines.all() if line.get("command") != "get_state"]
    assert [summary(line) for line in lines] == [
        "queue_update",
        "response steer",
        "queue_update",
        "response follow_up",
        "queue_update",
        "response clear_queue",
        "response clear_queue",
    ]
    updates = [line for line in lines if line["type"] == "queue_update"]
    assert [(u["steering"], u["followUp"]) for u in updates] == [
        (["a"], []),
        (["a"], ["b"]),
        ([], []),
    ]


def test_pi_webs_clear_queue_takes_back_what_was_queued(talk: Talk) -> None:
    talk.data("follow_up", message="b")
    talk.data("steer", message="a")
    talk.write(b'{"type":"piweb_clear_queue","id":"q1"}')
    talk.write(b'{"type":"piweb_clear_queue","id":"q2"}')
    results = [x for x in talk.lines.all() if x["type"] == "piweb_clear_queue_result"]
    assert results == [
        {"type": "piweb_clear_queue_result", "id": "q1", "steering": ["a"], "followUp": ["b"]},
        {"type": "piweb_clear_queue_result", "id": "q2", "steering": [], "followUp": []},
    ]


def test_thinking_levels_change_with_an_event_before_the_answer(talk: Talk) -> None:
    assert talk.data("get_available_thinking_levels")["levels"][0] == "off"
    talk.data("set_thinking_level", level="high")
    talk.data("set_thinking_level", level="high")
    assert talk.data("cycle_thinking_level") == {"level": "xhigh"}
    assert talk.data("cycle_thinking_level") == {"level": "off"}
    talk.data("set_thinking_level", level="nonsense")
    assert talk.data("get_state")["thinkingLevel"] == "off"
    assert [summary(line) for line in talk.lines.all()[1:6]] == [
        "thinking_level_changed",
        "response set_thinking_level",
        "response set_thinking_level",
        "thinking_level_changed",
        "response cycle_thinking_level",
    ]


def test_without_a_model_there_is_no_thinking_level_to_choose() -> None:
    with Talk(define_agent()) as talk:
        assert talk.data("get_available_thinking_levels") == {"levels": ["off"]}
        assert talk.data("cycle_thinking_level") is None
        assert [m["id"] for m in talk.data("get_available_models")["models"]] == ["stub"]


def test_the_stub_can_be_chosen_while_running_and_models_are_cycled() -> None:
    with Talk(define_agent()) as talk:
        assert talk.data("set_model", provider="stub", modelId="stub")["id"] == "stub"
        assert talk.data("get_state")["model"]["id"] == "stub"
        assert talk.data("cycle_model") is None


def test_a_model_or_a_level_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(ModelError, match="'gpt-5' names no model: write provider:name"):
        Talk(define_agent(model="gpt-5"))
    with pytest.raises(ModelError, match="thinking='hihg' is no level; there are: off, minimal"):
        Talk(define_agent(model="stub", thinking="hihg"))


def test_the_session_can_be_named(talk: Talk) -> None:
    talk.data("set_session_name", name=" my work ")
    assert talk.data("get_state")["sessionName"] == "my work"
    assert [summary(line) for line in talk.lines.all()[:2]] == [
        "session_info_changed",
        "response set_session_name",
    ]


def test_a_new_session_forgets_messages_names_and_queues(talk: Talk) -> None:
    talk.prompt("SAY one")
    talk.data("set_session_name", name="n")
    talk.data("follow_up", message="later")
    assert talk.data("new_session") == {"cancelled": False}
    state = talk.data("get_state")
    assert (state["messageCount"], state["pendingMessageCount"]) == (0, 0)
    assert "sessionName" not in state
    assert state["sessionId"] != "s1"
    assert talk.data("get_messages") == {"messages": []}


def test_forking_goes_back_to_before_a_message_of_the_person(talk: Talk) -> None:
    talk.prompt("SAY one")
    talk.prompt("SAY two")
    found = talk.data("get_fork_messages")["messages"]
    assert [m["text"] for m in found] == ["SAY one", "SAY two"]
    assert talk.data("fork", entryId=found[1]["entryId"]) == {"text": "SAY two", "cancelled": False}
    assert talk.data("get_last_assistant_text") == {"text": "one"}
    assert len(talk.data("get_messages")["messages"]) == 2
    talk.prompt("SAY three")
    ids = [m["entryId"] for m in talk.data("get_fork_messages")["messages"]]
    assert len(ids) == len(set(ids)) == 2


def test_session_stats_add_up_what_the_responses_used(talk: Talk) -> None:
    talk.prompt("SAY one two three")
    first = talk.data("get_session_stats")
    talk.prompt("SAY four")
    second = talk.data("get_session_stats")
    assert (first["userMessages"], first["assistantMessages"]) == (1, 1)
    assert (second["userMessages"], second["assistantMessages"], second["totalMessages"]) == (
        2,
        2,
        4,
    )
    assert first["tokens"]["output"] == 3
    assert second["tokens"]["output"] == 4
    assert second["tokens"]["total"] == sum(
        second["tokens"][key] for key in ("input", "output", "cacheRead", "cacheWrite")
    )
    assert second["contextUsage"]["contextWindow"] == 32_000

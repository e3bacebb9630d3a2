"""Models of providers, for real: pydantic-ai in the runner's process against a scripted server."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from piweb_jupyter.agent import define_agent
from piweb_jupyter.runner.chat import text_of as message_text
from tests.agent.talk import Talk, TalkingChild, messages, order, text_of
from tests.interop.model_server import ModelServer

SECRET = "sk-a-secret-that-nobody-may-see"

AGENT = '''
from piweb_jupyter.agent import create_surface, define_agent

demo = create_surface("demo", {"count": 0})

@demo.command
def increment(ctx, by: int = 1) -> dict:
    """Add to the counter."""
    return ctx.set_state(lambda s: {"count": s["count"] + by})

agent = define_agent(system_prompt="Be brief.", model="openai-chat:fake-1", surfaces=[demo])

@agent.tool
def picture() -> bytes:
    """Look."""
    return b"\\x89PNG...."
'''


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llm") / "agent.py"
    path.write_text(AGENT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def child(agent: Path, models: ModelServer) -> Iterator[TalkingChild]:
    env = {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": models.url}
    with TalkingChild(agent, env=env) as child:  # type: ignore[arg-type]
        yield child
    assert SECRET not in child.stderr.decode()
    assert SECRET not in str(child.lines.all())


@pytest.fixture
def fresh(child: TalkingChild) -> TalkingChild:
    child.data("new_session")
    return child


def only(lines: list[dict[str, Any]]) -> dict[str, Any]:
    (message,) = messages(lines, "assistant")
    return message


def test_text_streams_as_it_does_from_pi(fresh: TalkingChild, models: ModelServer) -> None:
    lines = fresh.prompt("ECHO hello")
    assert order(lines) == [
        "response prompt",
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "message_start assistant",
        "text_start 0",
        "text_delta 0",
        "text_end 0",
        "message_end assistant",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]
    assert text_of(lines) == "You said: ECHO hello [images: 0]"
    message = only(lines)
    assert (message["stopReason"], message["provider"], message["model"]) == (
        "stop",
        "openai-chat",
        "fake-1",
    )
    # As pi counts: what came from a cache is not input.
    usage = message["usage"]
    assert (usage["output"], usage["cacheRead"]) == (20, 10)
    assert usage["totalTokens"] == usage["input"] + 30
    request = models.requests[-1]
    assert request.system == "Be brief."
    assert request.tools == ("increment", "picture")


def test_thinking_streams_as_its_own_block(fresh: TalkingChild) -> None:
    lines = fresh.prompt("THINK 3")
    assert text_of(lines, "thinking_delta") == "thought 0; thought 1; thought 2; "
    thinking, text = only(lines)["content"]
    assert thinking == {"type": "thinking", "thinking": "thought 0; thought 1; thought 2; "}
    assert text["type"] == "text"


def test_a_level_is_sent_only_when_somebody_has_chosen_one(
    fresh: TalkingChild, models: ModelServer
) -> None:
    fresh.data("set_model", provider="openai-chat", modelId="gpt-5-mini")
    assert fresh.data("get_state")["thinkingLevel"] == "off"
    fresh.prompt("ECHO")
    assert "reasoning_effort" not in models.requests[-1].body
    fresh.data("set_thinking_level", level="high")
    fresh.prompt("ECHO")
    assert models.requests[-1].body["reasoning_effort"] == "high"
    fresh.data("set_thinking_level", level="off")
    fresh.prompt("ECHO")
    assert models.requests[-1].body["reasoning_effort"] == "minimal"
    fresh.data("set_model", provider="openai-chat", modelId="fake-1")


def test_the_model_calls_a_surface_and_gets_its_result(
    fresh: TalkingChild, models: ModelServer
) -> None:
    lines = fresh.prompt('CALL increment {"by": 2}\nCALL increment {}')
    first, second = messages(lines, "assistant")
    assert first["stopReason"] == "toolUse"
    calls = [block for block in first["content"] if block["type"] == "toolCall"]
    assert [c["arguments"] for c in calls] == [{"by": 2}, {}]
    assert message_text(second).startswith("Tool results: 2")
    states = [line for line in lines if line["type"] == "piweb_state"]
    assert [s["cause"]["actor"] for s in states] == ["llm", "llm"]
    # The model saw its own calls and both results, under the same ids.
    asked, *told = models.requests[-1].answers
    assert [c["id"] for c in asked["tool_calls"]] == [c["id"] for c in calls]
    assert [t["tool_call_id"] for t in told] == [c["id"] for c in calls]


def test_images_reach_the_model_from_prompts_and_from_tools(
    fresh: TalkingChild, models: ModelServer
) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    assert text_of(fresh.prompt("ECHO", images=[image])) == "You said: ECHO [images: 1]"
    broken = {"type": "image", "data": "%%%", "mimeType": "image/png"}
    assert "an image that could not be read" in text_of(fresh.prompt("ECHO", images=[broken]))
    lines = fresh.prompt("CALL picture {}")
    assert lines[-1] == {"type": "agent_settled", "aborted": False}
    assert "iVBORy4uLi4=" in str(models.requests[-1].messages)


def test_arguments_that_are_not_json_come_back_to_the_model_as_an_error(
    fresh: TalkingChild,
) -> None:
    lines = fresh.prompt("BADCALL increment {oops")
    (result,) = messages(lines, "toolResult")
    assert result["isError"] is True
    assert message_text(result).startswith("Invalid arguments: the arguments are not JSON")
    assert lines[-1] == {"type": "agent_settled", "aborted": False}


def test_an_answer_that_is_too_long_says_so(fresh: TalkingChild) -> None:
    assert only(fresh.prompt("LENGTH"))["stopReason"] == "length"


@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        ("FAIL 401 9", "401: error 401 (check the provider's key and restart the agent)"),
        ("FAIL 500 9", "500: The server had an error"),
        ("FAILMSG 400 no such thing", "400: no such thing"),
        ("DROP 2", "Connection error."),
    ],
)
def test_a_providers_error_ends_the_turn_with_its_words(
    fresh: TalkingChild, prompt: str, error: str
) -> None:
    lines = fresh.prompt(prompt)
    message = only(lines)
    assert (message["stopReason"], message["errorMessage"]) == ("error", error)
    assert order(lines)[-3:] == ["turn_end", "agent_end", "agent_settled"]
    # What failed is no obstacle to what comes next.
    assert text_of(fresh.prompt("ECHO next")).startswith("You said: ECHO next")


def test_a_failure_that_passes_is_tried_again(fresh: TalkingChild) -> None:
    assert only(fresh.prompt("FAIL 500 1"))["stopReason"] == "stop"


@pytest.mark.parametrize("prompt", ["SLOW 1000 20", "HANG"])
def test_an_abort_ends_the_request_at_once(
    fresh: TalkingChild, models: ModelServer, prompt: str
) -> None:
    asked = len(models.requests)
    fresh.send("prompt", message=prompt)
    models.wait_requests(asked + 1)
    if prompt != "HANG":
        start = len(fresh.lines.all()) - 1
        fresh.lines.wait(lambda line: "text_delta" in str(line), start)
    assert fresh.ask("abort")["success"] is True
    settled, answered = fresh.lines.all()[-2:]
    assert settled == {"type": "agent_settled", "aborted": True}
    assert answered["command"] == "abort"
    assert text_of(fresh.prompt("ECHO next")).startswith("You said: ECHO next")


def test_a_tool_call_that_was_cut_off_by_an_abort_is_not_sent_again(
    fresh: TalkingChild, models: ModelServer
) -> None:
    fresh.prompt("CALL increment {}")
    fresh.send("prompt", message="SLOW 1000 20")
    fresh.lines.wait(lambda line: "word1" in str(line))
    fresh.ask("abort")
    fresh.prompt("ECHO next")
    roles = [m["role"] for m in models.requests[-1].messages]
    assert roles == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


def test_the_model_may_change_in_mid_conversation(fresh: TalkingChild, models: ModelServer) -> None:
    fresh.prompt("CALL increment {}")
    fresh.data("set_model", provider="stub", modelId="stub")
    fresh.prompt("CALL increment {}")
    chosen = fresh.data("set_model", provider="openai-chat", modelId="fake-1")
    assert (chosen["provider"], chosen["id"]) == ("openai-chat", "fake-1")
    assert text_of(fresh.prompt("ECHO on")).startswith("You said: ECHO on")
    calls = [m for m in models.requests[-1].messages if m.get("tool_calls")]
    assert len(calls) == 2
    offered = {m["id"] for m in fresh.data("get_available_models")["models"]}
    assert {"fake-1", "stub"} <= offered


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai-chat:x", "Set the `OPENAI_API_KEY` environment variable to use openai-chat:x"),
        ("opnai:x", "'opnai' is no provider. Write provider:name"),
        ("groq:x", 'pip install "pydantic-ai-slim[groq]"'),
    ],
)
def test_a_model_that_cannot_be_used_refuses_the_prompt_with_the_next_action(
    agent: Path, model: str, told: str
) -> None:
    env: dict[str, str | None] = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}
    with TalkingChild(agent, "--model", model, env=env) as child:
        error = child.error("prompt", message="hello")
        assert told in error
        assert 'model="stub"' in error
        assert child.data("get_state")["isStreaming"] is False
        provider, _, name = model.partition(":")
        assert told in child.error("set_model", provider=provider, modelId=name)
        child.data("set_model", provider="stub", modelId="stub")
        assert text_of(child.prompt("SAY on")) == "on"


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pydantic_ai" else find(name)
    )
    with Talk(define_agent(model="openai:gpt-5-mini")) as talk:
        error = talk.error("prompt", message="hello")
    assert "pip install 'piweb-jupyter[llm]'" in error
    assert 'model="stub"' in error

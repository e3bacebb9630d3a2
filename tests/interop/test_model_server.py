from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.interop.model_server import ModelServer


def _ask(models: ModelServer, prompt: str, *after: dict[str, Any]) -> list[dict[str, Any]]:
    body = {"model": "fake-1", "messages": [{"role": "user", "content": prompt}, *after]}
    request = urllib.request.Request(
        f"{models.url}/chat/completions", data=json.dumps(body).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        data = [line[6:] for line in answer.read().decode().split("\n\n") if line[:6] == "data: "]
    assert data[-1] == "[DONE]"
    return [json.loads(event) for event in data[:-1]]


def _said(events: list[dict[str, Any]]) -> str:
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("ECHO this", "You said: ECHO this [images: 0]"),
        (r'SAY "a\nb"', "a\nb"),
        ("BYTES 7", "xxxxxxx"),
        ("SLOW 3 1", "word0 word1 word2 "),
    ],
)
def test_the_prompt_decides_what_is_said(model_server: ModelServer, prompt: str, said: str) -> None:
    assert _said(_ask(model_server, prompt)) == said


def test_a_call_is_made_once_and_its_result_is_named(model_server: ModelServer) -> None:
    prompt = 'please\nCALL bash {"command": "ls"}'
    events = _ask(model_server, prompt)
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", [])]
    assert calls[0]["name"] == "bash"
    assert json.loads("".join(call["arguments"] for call in calls)) == {"command": "ls"}
    assistant = {"role": "assistant", "tool_calls": [{"id": "call_1_0_0"}]}
    result = {"role": "tool", "content": "four"}
    assert _said(_ask(model_server, prompt, assistant, result)) == "Tool results: 1 (4 chars)."


def test_an_error_comes_as_often_as_was_asked_for(model_server: ModelServer) -> None:
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as refused:
            _ask(model_server, "FAIL 503 2")
        assert refused.value.code == 503
        refused.value.close()
    assert _said(_ask(model_server, "FAIL 503 2")).startswith("Hello")

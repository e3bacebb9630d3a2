"""The offline model says the same to the same prompt, and does what a prompt asks of it."""

from __future__ import annotations

import re

from piweb_jupyter.agent import define_agent
from tests.agent.talk import Talk, messages, order, text_of


def spoken(prompt: str) -> str:
    with Talk() as talk:
        return text_of(talk.prompt(prompt))


def test_an_ordinary_prompt_is_answered_with_what_the_stub_understands() -> None:
    text = spoken("hello there")
    assert text.startswith("You said: hello there\n")
    for word in ("CALL", "THINK", "SAY", "SLOW", "TOKENS", "FAIL"):
        assert f"`{word} " in text


def test_the_answer_is_the_same_every_time_and_holds_no_number_of_its_own() -> None:
    first, second = spoken("hello"), spoken("hello")
    assert first == second
    assert not re.search(r"\d", first)


def test_it_names_its_tools_and_shows_how_to_call_one() -> None:
    agent = define_agent(model="stub")

    @agent.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    with Talk(agent) as talk:
        text = text_of(talk.prompt("hello"))
        assert 'My tools: `add`. For example: `CALL add {"a":1,"b":2}`' in text
        # The example can be typed as it stands.
        assert text_of(talk.prompt('CALL add {"a":1,"b":2}')).endswith("`add` returned: 3")


def test_say_streams_exactly_the_text() -> None:
    assert spoken("SAY *one*  two") == "*one*  two"
    assert spoken('SAY "line\\nbreak  \\u00e9 "') == "line\nbreak  é "
    assert spoken("SAY a\nSAY b") == "a\nb"
    assert spoken('SAY "not json') == '"not json'


def test_think_streams_thinking_before_the_text() -> None:
    with Talk() as talk:
        lines = talk.prompt("THINK about it\nSAY done")
    assert text_of(lines, "thinking_delta") == "about it"
    assert text_of(lines) == "done"
    found = order(lines)
    assert found.index("thinking_end 0") < found.index("text_start 1")


def test_slow_and_tokens_stream_as_many_words_as_asked() -> None:
    assert spoken("SLOW 7 1").split() == [f"word{n}" for n in range(1, 8)]
    assert len(spoken("TOKENS 500 100000").split()) == 500


def test_fail_breaks_off_with_the_text_as_the_error() -> None:
    with Talk() as talk:
        lines = talk.prompt("SAY half\nFAIL the provider is down")
    (message,) = messages(lines, "assistant")
    assert message["stopReason"] == "error"
    assert message["errorMessage"] == "the provider is down"
    assert message["content"] == [{"type": "text", "text": "half"}]


def test_images_are_counted() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    with Talk() as talk:
        assert "With 2 images." in text_of(talk.prompt("look", images=[image, image]))


def test_a_word_in_the_middle_of_a_line_is_no_instruction() -> None:
    assert spoken("please CALL me FAIL").startswith("You said: please CALL me FAIL")


def test_a_call_with_its_arguments_may_stand_anywhere_in_a_line() -> None:
    from piweb_jupyter.runner.stub import _read  # the pure half of it

    script = _read('Please CALL add {"a": 1} and `CALL take {"b": [2]}`, thanks.\nCALL look')
    assert script.calls == [("add", '{"a": 1}'), ("take", '{"b": [2]}'), ("look", "{}")]
    assert _read("CALL add {broken").calls == [("add", "{broken")]


def test_an_empty_prompt_is_answered_too() -> None:
    assert spoken("").startswith("You said nothing.")

from __future__ import annotations

import typing
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piweb_jupyter.errors import ProtocolError
from piweb_jupyter.wire import events, rpc
from piweb_jupyter.wire.events import ContentDelta, ContentEnd, ContentError, ContentStart
from piweb_jupyter.wire.frames import decode_frame
from piweb_jupyter.wire.host_frames import decode_host_line
from piweb_jupyter.wire.rpc import Response, RpcCommand, UiAnswer, UiRequest

MESSAGE = {"role": "assistant", "content": [{"type": "text", "text": "hi \u2028 😀"}]}
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}

EVENTS: list[events.Event] = [
    events.AgentStart(),
    events.AgentEnd([MESSAGE], True),
    events.AgentEnd(),
    events.AgentSettled(True),
    events.TurnStart(),
    events.TurnEnd(MESSAGE, [{"role": "toolResult"}]),
    events.MessageStart({"role": "user", "content": "hi"}),
    events.MessageEnd(MESSAGE),
    ContentStart("text", 0),
    ContentStart("thinking", 3),
    ContentStart("toolcall", 1, "c1", "bash"),
    ContentDelta("text", 0, "\ud7ff a\nb"),
    ContentDelta("thinking", 1, ""),
    ContentDelta("toolcall", 2, '{"a'),
    ContentEnd("text", 0, "whole"),
    ContentEnd("thinking", 0, "hm"),
    ContentEnd("toolcall", 1, tool_call=CALL),
    ContentError("error", "500: no"),
    ContentError("aborted", "Request was aborted"),
    events.ToolStart("c1", "bash", {"command": "ls"}),
    events.ToolUpdate("c1", "bash", {}, {"content": []}),
    events.ToolEnd("c1", "bash", {"content": []}, True),
    events.ToolEnd("c1", "bash", {"content": []}, False, 12.5),
    events.QueueUpdate(["a"], ["b", "c"]),
    events.RetryStart(1, 3, 2000, "429"),
    events.RetryEnd(True, 2),
    events.RetryEnd(False, 3, "503"),
    events.CompactionStart("manual"),
    events.CompactionEnd("threshold", {"summary": "S"}),
    events.CompactionEnd("overflow", None, True, True, "why"),
    events.BashUpdate("b1", "out"),
    events.BashUpdate(None, "out"),
    events.SessionInfoChanged("name"),
    events.ThinkingLevelChanged("high"),
    events.ExtensionError("ext.ts", "turn_end", "boom"),
    events.OtherEvent("brand_new", {"type": "brand_new", "x": [1]}),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_reads_as_it_was_written(event: events.Event) -> None:
    line = events.encode_event(event)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert decode_frame(line[:-1]) == event


def test_every_kind_of_event_is_in_the_table_above() -> None:
    assert {type(event) for event in EVENTS} == set(typing.get_args(events.Event))


def test_no_other_object_passes_for_an_event() -> None:
    with pytest.raises(TypeError, match="no event"):
        events.encode_event(Response("r", "x", True))  # type: ignore[arg-type]


def read(**fields: Any) -> Any:
    return decode_frame(orjson.dumps(fields))


def update(**fields: Any) -> Any:
    return read(type="message_update", assistantMessageEvent=fields)


@pytest.mark.parametrize(
    "line",
    [
        {"type": "message_start"},
        {"type": "message_start", "message": None},
        {"type": "message_end", "message": [1]},
        {"type": "turn_end", "message": "text"},
        {"type": "tool_execution_start", "toolName": "bash"},
        {"type": "tool_execution_start", "toolCallId": 7, "toolName": "bash"},
        {"type": "tool_execution_start", "toolCallId": "c1"},
        {"type": "tool_execution_update"},
        {"type": "tool_execution_end", "toolCallId": None},
        {"type": "thinking_level_changed"},
        {"type": "bash_execution_update", "id": "b1"},
        {"type": "bash_execution_update", "delta": 3},
        {"type": "message_update"},
        {"type": "message_update", "assistantMessageEvent": "text_delta"},
        {"type": "message_update", "assistantMessageEvent": {}},
        {"type": "message_update", "assistantMessageEvent": {"type": 3}},
        *(
            {"type": "message_update", "assistantMessageEvent": event}
            for event in (
                {"type": "text_delta", "delta": "x"},
                {"type": "text_delta", "contentIndex": "0", "delta": "x"},
                {"type": "text_delta", "contentIndex": True, "delta": "x"},
                {"type": "text_delta", "contentIndex": -1, "delta": "x"},
                {"type": "text_delta", "contentIndex": 0},
                {"type": "text_delta", "contentIndex": 0, "delta": None},
                {"type": "text_start"},
                {"type": "toolcall_end", "contentIndex": 0},
                {"type": "toolcall_end", "contentIndex": 0, "toolCall": "bash"},
            )
        ),
    ],
    ids=lambda line: orjson.dumps(line).decode()[8:70],
)
def test_a_malformed_event_is_a_protocol_error_that_names_it(line: dict[str, Any]) -> None:
    raw = orjson.dumps(line)
    with pytest.raises(ProtocolError, match="malformed") as caught:
        decode_frame(raw)
    assert str(line["type"]) in caught.value.reason
    assert caught.value.line == raw


def test_a_field_that_can_be_done_without_may_have_any_shape() -> None:
    assert read(type="agent_end", messages=3, willRetry="yes") == events.AgentEnd()
    assert read(type="agent_settled") == events.AgentSettled()
    assert read(type="turn_end") == events.TurnEnd({})
    assert read(type="queue_update", steering=["a", 1], followUp=None) == events.QueueUpdate(
        ["a"], []
    )
    assert read(type="auto_retry_start", attempt=True) == events.RetryStart(0, 0, 0, "")
    assert read(type="compaction_end", aborted=1) == events.CompactionEnd("")
    assert read(type="session_info_changed") == events.SessionInfoChanged("")
    assert read(type="extension_error") == events.ExtensionError("", "", "")
    ended = events.ToolEnd("c", "", None, False)
    assert read(type="tool_execution_end", toolCallId="c", durationMs="1") == ended
    assert update(type="text_end", contentIndex=0) == ContentEnd("text", 0, "")


def test_an_older_pi_names_a_tool_call_only_in_the_message_so_far() -> None:
    partial = {"content": [{"type": "text"}, {"type": "toolCall", "id": "c1", "name": "bash"}]}
    started = update(type="toolcall_start", contentIndex=1, partial=partial)
    assert started == ContentStart("toolcall", 1, "c1", "bash")
    strange: list[Any] = [None, {}, {"content": 3}, {"content": ["x", "y"]}, {"content": []}]
    for odd in strange:
        started = update(type="toolcall_start", contentIndex=1, partial=odd)
        assert started == ContentStart("toolcall", 1)


def test_a_broken_stream_says_why_in_whatever_form() -> None:
    error = {"errorMessage": "500"}
    assert update(type="error", reason="error", error=error) == ContentError("error", "500")
    assert update(type="error", error={"message": "m"}) == ContentError("error", "m")
    assert update(type="error", error="plain") == ContentError("error", "plain")
    assert update(type="error", reason="aborted") == ContentError("aborted", "")
    assert update(type="error", error=[1]) == ContentError("error", "")


def test_an_unknown_step_of_a_message_is_passed_on() -> None:
    event = update(type="citation_start", contentIndex=0)
    assert isinstance(event, events.OtherEvent)
    assert event.type == "message_update:citation_start"


@given(st.sampled_from(["text", "thinking", "toolcall"]), st.integers(0, 1 << 40), st.text())
def test_any_delta_survives_the_pipe(kind: events.ContentKind, index: int, text: str) -> None:
    event = ContentDelta(kind, index, text)
    line = events.encode_event(event)
    assert line.count(b"\n") == 1
    assert decode_frame(line[:-1]) == event


# ---------------------------------------------------------------- commands and answers


@pytest.mark.parametrize(
    "response",
    [
        Response("r1", "prompt", True, {"disposition": "started"}),
        Response(7, "abort", True),
        Response({"a": 1}, "get_state", True, []),
        Response(None, "parse", False, error="Failed to parse command: x"),
        Response("x2", None, False, error="Unknown command: undefined"),
    ],
)
def test_a_response_reads_as_it_was_written(response: Response) -> None:
    assert decode_frame(rpc.encode_response(response)[:-1]) == response


def test_a_response_leaves_out_what_is_absent() -> None:
    line = rpc.encode_response(Response(None, "abort", True))
    assert line == b'{"type":"response","command":"abort","success":true}\n'


def test_a_response_that_does_not_say_how_it_went_is_a_protocol_error() -> None:
    for success in (None, "true", 1):
        with pytest.raises(ProtocolError, match="success"):
            read(type="response", command="prompt", success=success)


def test_an_error_that_is_no_text_is_shown_as_json() -> None:
    response = read(type="response", command="x", success=False, error={"code": 3})
    assert response.error == '{"code":3}'


def test_a_command_reads_as_it_was_written() -> None:
    line = rpc.encode_rpc_command("r1", "prompt", {"message": "hi", "images": []})
    assert line.startswith(b'{"id":"r1","type":"prompt"')
    fields = {"id": "r1", "type": "prompt", "message": "hi", "images": []}
    assert decode_host_line(line[:-1]) == RpcCommand("prompt", "r1", fields)


# ---------------------------------------------------------------- extension UI


def test_a_ui_request_reads_as_it_was_written() -> None:
    request = UiRequest("u1", "select", {"title": "Which?", "options": ["a", "b"], "timeout": 5})
    assert decode_frame(rpc.encode_ui_request(request)[:-1]) == request


@pytest.mark.parametrize("fields", [{"id": "u1"}, {"method": "select"}, {"id": 1, "method": "x"}])
def test_a_ui_request_without_id_or_method_is_a_protocol_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="id or method"):
        read(type="extension_ui_request", **fields)


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        (UiAnswer("u", value="x"), {"value": "x"}),
        (UiAnswer("u", value=""), {"value": ""}),
        (UiAnswer("u"), {"value": ""}),
        (UiAnswer("u", confirmed=True), {"confirmed": True}),
        (UiAnswer("u", confirmed=False), {"confirmed": False}),
        (UiAnswer("u", cancelled=True), {"cancelled": True}),
        (UiAnswer("u", value="x", cancelled=True), {"cancelled": True}),
    ],
)
def test_an_answer_is_exactly_the_object_that_pi_expects(
    answer: UiAnswer, fields: dict[str, Any]
) -> None:
    line = rpc.encode_ui_answer(answer)
    assert orjson.loads(line) == {"type": "extension_ui_response", "id": "u", **fields}
    told = decode_host_line(line[:-1])
    assert isinstance(told, UiAnswer)
    assert (told.confirmed, told.cancelled) == (answer.confirmed, answer.cancelled)


def test_methods_that_ask_and_methods_that_tell_are_kept_apart() -> None:
    assert not rpc.QUESTION_METHODS & rpc.TELL_METHODS

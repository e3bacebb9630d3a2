from __future__ import annotations

from typing import Any

import orjson
import pytest

from piweb_jupyter.errors import ProtocolError
from piweb_jupyter.wire import frames, host_frames
from piweb_jupyter.wire.events import OtherEvent
from piweb_jupyter.wire.frames import (
    Cause,
    CommandResult,
    RunnerReady,
    StateFrame,
    SurfaceDeclared,
    decode_frame,
)
from piweb_jupyter.wire.host_frames import (
    OtherHostFrame,
    StateSet,
    SurfaceCommand,
    decode_host_line,
)
from piweb_jupyter.wire.rpc import Response, RpcCommand, UiAnswer
from piweb_jupyter.wire.surface import CommandSpec, SurfaceSpec


def test_a_state_line_keeps_its_bytes() -> None:
    line = '{"type":"piweb_state","key":"surface:demo","value":{"s":"a\u2028b"},"rev":3}'.encode()
    frame = decode_frame(line)
    assert frame == StateFrame("surface:demo", 3, {"s": "a\u2028b"}, False, None, line)


def test_a_state_line_that_only_javascript_accepts_is_kept_clean() -> None:
    frame = decode_frame(b'{"type":"piweb_state","key":"k","value":"\\ud800","rev":0}')
    assert isinstance(frame, StateFrame)
    assert orjson.loads(frame.line)["value"] == "\ufffd" == frame.value


def test_encoded_states_decode_to_what_they_say() -> None:
    cause = Cause("c1", "increment", "llm")
    line = frames.encode_state("surface:demo", 7, b'{"count":1}', cause)
    assert line.endswith(b"}\n")
    frame = decode_frame(line[:-1])
    assert isinstance(frame, StateFrame)
    told = {"correlationId": "c1", "action": "increment", "actor": "llm"}
    assert frame == StateFrame("surface:demo", 7, {"count": 1}, False, told, line[:-1])
    assert frame.cause == cause
    gone = decode_frame(frames.encode_state("k", 8, None, deleted=True))
    assert isinstance(gone, StateFrame)
    assert (gone.deleted, gone.value, gone.rev) == (True, None, 8)


def test_a_result_says_ok_outside_and_inside_and_its_error_inside_only() -> None:
    line = frames.encode_command_result("c1", "demo", "increment", error=("full", "no room"))
    assert orjson.loads(line) == {
        "type": "ui_rpc_response",
        "response": {
            "correlationId": "c1",
            "ok": False,
            "result": {
                "domain": "demo",
                "action": "increment",
                "ok": False,
                "error": {"code": "full", "message": "no room"},
            },
        },
    }
    assert decode_frame(line) == CommandResult("c1", False, None, "full", "no room")
    done = frames.encode_command_result("c2", "demo", "increment", data=b'{"count":1}')
    assert decode_frame(done) == CommandResult("c2", True, {"count": 1})
    assert decode_frame(frames.encode_command_result("c3", "d", "a")) == CommandResult("c3", True)


def test_a_result_keeps_what_an_error_says_besides() -> None:
    line = frames.encode_command_result(
        "c1", "demo", "drop", error=("stale", "moved on"), details={"rev": 9}
    )
    assert decode_frame(line) == CommandResult("c1", False, None, "stale", "moved on", {"rev": 9})


def test_a_declaration_comes_back_whole() -> None:
    spec = SurfaceSpec(
        "demo",
        "Counter",
        (
            CommandSpec("increment", "Add", "Add to it.", {"type": "object"}, "", True, False),
            CommandSpec("reset", confirm="Really?", concurrent=True),
        ),
        {"type": "object"},
        "export default {}",
        ".a{}",
    )
    assert decode_frame(frames.encode_surface_spec(spec)) == SurfaceDeclared(spec)


def test_a_hostile_declaration_keeps_what_can_be_used() -> None:
    line = orjson.dumps(
        {
            "type": "piweb_surface",
            "domain": "demo",
            "title": 7,
            "commands": [None, {"name": 1}, {"name": "go", "args": "x", "confirm": []}],
            "view": {"module": "x" * 300_000},
            "state": [],
        }
    )
    assert decode_frame(line) == SurfaceDeclared(SurfaceSpec("demo", "", (CommandSpec("go"),)))


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"null",
        b"[]",
        b"42",
        b'"x"',
        b"{}",
        b'{"type":1}',
        b'{"type":""}',
        b'{"type":["a"]}',
        b'{"type":"piweb_state","key":"k"}',
        b'{"type":"piweb_state","key":"","rev":0}',
        b'{"type":"piweb_state","key":"k","rev":-1}',
        b'{"type":"piweb_state","key":"k","rev":true}',
        b'{"type":"piweb_state","key":"k","rev":1.5}',
        b'{"type":"ui_rpc_response"}',
        b'{"type":"ui_rpc_response","response":{"correlationId":"","ok":true}}',
        b'{"type":"ui_rpc_response","response":{"correlationId":"c","ok":1}}',
        b'{"type":"piweb_command_started"}',
        b'{"type":"piweb_surface"}',
        b'{"type":"response","id":"r1"}',
        b'{"type":"extension_ui_request","id":"q"}',
        b'{"type":"message_update"}',
        b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0}}',
        b'{"type":"tool_execution_start"}',
    ],
)
def test_a_line_that_is_no_frame_raises_with_the_line(line: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_frame(line)
    assert caught.value.line == line


def test_an_unknown_type_is_an_event_not_an_error() -> None:
    assert decode_frame(b'{"type":"new_thing","a":1}') == OtherEvent(
        "new_thing", {"type": "new_thing", "a": 1}
    )
    assert decode_frame(b'{"type":"runner_ready"}') == RunnerReady()
    assert decode_frame(b'{"id":7,"type":"response","command":"x","success":true}') == Response(
        7, "x", True
    )


def test_a_command_carries_pi_webs_fields_and_never_a_name() -> None:
    line = host_frames.encode_surface_command(
        SurfaceCommand("c1", "demo", "increment", {"by": 2}, "cell", 4)
    )
    assert orjson.loads(line) == {
        "type": "ui_rpc",
        "request": {
            "correlationId": "c1",
            "point": "command",
            "action": "execute",
            "payload": {
                "domain": "demo",
                "action": "increment",
                "args": {"by": 2},
                "actor": "cell",
                "ifRev": 4,
            },
            "protocolVersion": "0.1.0",
        },
    }
    assert decode_host_line(line) == SurfaceCommand("c1", "demo", "increment", {"by": 2}, "cell", 4)


@pytest.mark.parametrize("name", ["demo", "50%", '%d"%s', "dömain"])
@pytest.mark.parametrize("args", [None, {"by": "%b"}, [1]])
def test_a_filled_template_is_the_line_that_is_encoded(name: str, args: Any) -> None:
    filled = host_frames.command_template(name, name, "user") % (7, host_frames.encode_args(args))
    assert decode_host_line(filled) == SurfaceCommand("c7", name, name, args, "user")
    whole = host_frames.encode_surface_command(SurfaceCommand("c7", name, name, args, "user"))
    assert orjson.loads(filled) == orjson.loads(whole)
    cause = frames.Cause("c7", name, "user")
    state = frames.state_template(name) % (b'"%d"', 7, frames.encode_cause(cause))
    decoded = decode_frame(state[:-1])
    assert isinstance(decoded, StateFrame)
    assert (decoded.key, decoded.value, decoded.cause) == (name, "%d", cause)
    assert state == frames.encode_state(name, 7, b'"%d"', cause)
    assert frames.cause_template(name, "user") % b'"c7"' == frames.encode_cause(cause)


def request(**changes: Any) -> bytes:
    fields = {
        "correlationId": "c1",
        "point": "command",
        "action": "execute",
        "payload": {"domain": "demo", "action": "go"},
        "protocolVersion": "0.1.0",
    }
    merged = {key: value for key, value in {**fields, **changes}.items() if value is not ...}
    return orjson.dumps({"type": "ui_rpc", "request": merged})


def test_a_payload_with_a_name_of_its_own_still_runs_and_a_host_command_does_not() -> None:
    payload = {"domain": "demo", "action": "go", "name": "x"}
    assert decode_host_line(request(payload=payload)) == SurfaceCommand("c1", "demo", "go")
    assert isinstance(decode_host_line(request(payload={"name": "clear"})), OtherHostFrame)
    assert isinstance(decode_host_line(request(point="slash")), OtherHostFrame)
    assert decode_host_line(request(protocolVersion="99.0.0")) == SurfaceCommand("c1", "demo", "go")
    assert decode_host_line(request(payload={"domain": "d", "action": "a", "actor": "root"})) == (
        SurfaceCommand("c1", "d", "a", None, "user")
    )


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        request(correlationId=""),
        request(correlationId=...),
        request(protocolVersion=...),
        request(payload=...),
        request(payload={"domain": "", "action": "go"}),
        request(payload={"action": "go"}),
        b'{"type":"ui_rpc"}',
        b'{"type":"piweb_state_set","value":1}',
        b'{"type":"piweb_state_set","key":7}',
        b'{"type":"piweb_clear_queue"}',
        b'{"type":"extension_ui_response"}',
    ],
)
def test_a_host_line_that_breaks_its_schema_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_host_line(line)


def test_whatever_is_no_pi_web_frame_is_a_command_for_pi() -> None:
    assert decode_host_line(b"null") == RpcCommand(None, None, {})
    assert decode_host_line(b"[1]") == RpcCommand(None, None, {})
    assert decode_host_line(b'{"id":7,"type":"get_state"}') == RpcCommand(
        "get_state", 7, {"id": 7, "type": "get_state"}
    )
    assert decode_host_line(b'{"type":null}') == RpcCommand(None, None, {"type": None})


def test_a_preference_without_a_value_is_told_from_null() -> None:
    assert decode_host_line(b'{"type":"piweb_state_set","key":"k"}') == StateSet("k", None, False)
    assert decode_host_line(host_frames.encode_state_set("k", b"null")) == StateSet("k", None, True)


def test_an_answer_to_a_question_is_read_as_it_is_written() -> None:
    from piweb_jupyter.wire.rpc import encode_ui_answer

    for answer in (
        UiAnswer("q", value="a"),
        UiAnswer("q", confirmed=False),
        UiAnswer("q", cancelled=True),
    ):
        assert decode_host_line(encode_ui_answer(answer)) == answer


def test_what_an_agent_tells_of_its_own_accord_is_read_as_it_is_written() -> None:
    withdrawn = frames.QuestionWithdrawn("q")
    assert decode_frame(frames.encode_question_withdrawn("q")) == withdrawn
    finished = frames.CommandFinished("demo", "add", {"by": 2}, "llm", "full", 3, 4)
    assert decode_frame(frames.encode_command_finished(finished)) == finished
    finished.args = object()
    with pytest.raises(TypeError):
        frames.encode_command_finished(finished)


def test_a_finished_command_needs_a_name_and_the_rest_is_what_it_may_be() -> None:
    line = b'{"type":"piweb_command_finished","domain":"demo","action":"add","actor":7,"code":null}'
    assert decode_frame(line) == frames.CommandFinished("demo", "add", None, "llm", "", -1, -1)
    for bad in (
        b'{"type":"piweb_command_finished","domain":"demo"}',
        b'{"type":"piweb_command_finished","domain":"","action":"add"}',
        b'{"type":"piweb_question_withdrawn"}',
        b'{"type":"piweb_question_withdrawn","id":7}',
    ):
        with pytest.raises(ProtocolError):
            decode_frame(bad)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from piweb_jupyter.host.conversation import (
    ConversationBridge,
    Fallback,
    OpResult,
    SurfaceOp,
    render_surface_op,
)

OP = SurfaceOp(
    "Resize logo",
    "image_edit",
    [("images", "[att_AAA]"), ("prompt", ""), ("size", "512x512"), ("mask", None)],
    fallback=Fallback("resize", {"size": 512}),
)
RENDERED = "Resize logo\n\n```surface-op\ntool: image_edit\nimages: [att_AAA]\nsize: 512x512\n```"


class Host:
    """Takes down what it is given, and answers with a word."""

    def __init__(self) -> None:
        self.said: list[tuple[str, tuple[str, ...]]] = []
        self.ran: list[tuple[str, Any]] = []

    def submit(self, text: str, *, attachment_ids: Sequence[str] = ()) -> str:
        self.said.append((text, tuple(attachment_ids)))
        return "turn"

    def submit_text(self, text: str) -> str:
        self.said.append((text, ("text only",)))
        return "turn of text"

    def run(self, action: str, args: Any) -> str:
        self.ran.append((action, args))
        return "result"


@pytest.fixture
def host() -> Host:
    return Host()


def test_an_operation_is_told_as_a_title_and_a_fenced_block() -> None:
    assert render_surface_op(OP) == RENDERED == render_surface_op(OP)


def test_values_stand_there_as_they_are() -> None:
    op = SurfaceOp("T", "t", [("a", " x "), ("b", "1\n```2")], fence="canvas-op")
    assert render_surface_op(op) == "T\n\n```canvas-op\ntool: t\na:  x \nb: 1\n```2\n```"
    assert render_surface_op(SurfaceOp("T", "t")) == "T\n\n```surface-op\ntool: t\n```"


def test_an_operation_goes_into_the_conversation_first(host: Host) -> None:
    bridge = ConversationBridge(submit=host.submit, submit_text=host.submit_text, run=host.run)
    assert bridge.op_channel == "prompt"
    assert bridge.submit_op(OP) == OpResult(True, "prompt", "turn")
    assert host.said == [(RENDERED, ())]
    assert host.ran == []


def test_a_conversation_of_text_alone_takes_operations_but_no_attachments(host: Host) -> None:
    bridge = ConversationBridge(submit_text=host.submit_text, run=host.run)
    assert bridge.op_channel == "prompt"
    assert bridge.submit_op(OP) == OpResult(True, "prompt", "turn of text")
    assert host.said == [(RENDERED, ("text only",))]
    result = bridge.bring_to_conversation(["att_A"])
    assert (result.ok, result.code) == (False, "unavailable")


def test_without_a_conversation_its_command_stands_for_it(host: Host) -> None:
    bridge = ConversationBridge(run=host.run)
    assert bridge.op_channel == "command"
    assert bridge.submit_op(OP) == OpResult(True, "command", "result")
    assert host.ran == [("resize", {"size": 512})]


def test_an_operation_that_no_command_stands_for_says_so(host: Host) -> None:
    bridge = ConversationBridge(run=host.run)
    result = bridge.submit_op(SurfaceOp("Paint", "paint"))
    assert (result.ok, result.channel, result.code) == (False, "command", "no_fallback")
    assert "Paint" in result.message
    assert bridge.op_channel == "command", "whether an operation has one makes no difference"
    assert host.ran == []


def test_where_nothing_can_take_it_that_is_a_value_and_no_exception(host: Host) -> None:
    for bridge in (
        ConversationBridge(),
        ConversationBridge(run=host.run, is_available=lambda: False),
    ):
        assert bridge.op_channel == "unavailable"
        for result in (bridge.submit_op(OP), bridge.bring_to_conversation(["att_A"])):
            assert (result.ok, result.channel, result.code) == (False, "unavailable", "unavailable")
    assert host.ran == []


def test_the_channel_is_what_it_is_now(host: Host) -> None:
    told = iter([True, False])
    bridge = ConversationBridge(run=host.run, is_available=lambda: next(told))
    assert [bridge.op_channel for _ in range(2)] == ["command", "unavailable"]


def test_a_message_that_cannot_be_sent_reaches_the_caller() -> None:
    def refuse(text: str, *, attachment_ids: Sequence[str] = ()) -> None:
        raise RuntimeError("still answering")

    with pytest.raises(RuntimeError, match="still answering"):
        ConversationBridge(submit=refuse).submit_op(OP)


def test_attachments_are_brought_with_a_summary_or_their_number(host: Host) -> None:
    bridge = ConversationBridge(submit=host.submit)
    assert bridge.bring_to_conversation(["att_A", "att_B"]) == OpResult(True, "prompt", "turn")
    bridge.bring_to_conversation(["att_A"], "")
    bridge.bring_to_conversation(["att_A"], "The logo, 512 px wide")
    assert host.said == [
        ("Here are 2 items.", ("att_A", "att_B")),
        ("Here is 1 item.", ("att_A",)),
        ("The logo, 512 px wide", ("att_A",)),
    ]


def test_the_end_of_a_turn_is_another_signal_than_before() -> None:
    bridge = ConversationBridge()
    calls: list[str] = []
    stop = bridge.on_turn_end(lambda: calls.append("end"))
    bridge.sync(0)
    assert calls == [], "the first one observed is none"
    bridge.sync(0)
    bridge.sync(1_000_000)
    bridge.sync(int("1000000"))  # equal, and another object
    assert calls == ["end"]
    bridge.sync({})
    bridge.sync({})  # equal, and new
    assert calls == ["end"] * 3
    stop()
    bridge.sync(5)
    assert calls == ["end"] * 3


def test_a_callback_registered_twice_is_called_once_until_it_is_undone_twice() -> None:
    bridge = ConversationBridge()
    calls: list[str] = []

    def note() -> None:
        calls.append("end")

    first, second = bridge.on_turn_end(note), bridge.on_turn_end(note)
    for signal in range(3):
        bridge.sync(signal)
    assert calls == ["end", "end"]
    first()
    first()
    bridge.sync(3)
    assert calls == ["end"] * 3
    second()
    bridge.sync(4)
    assert calls == ["end"] * 3


def test_a_callback_that_fails_does_not_keep_the_next_from_being_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bridge = ConversationBridge()
    calls: list[str] = []
    bridge.on_turn_end(lambda: 1 // 0)  # type: ignore[arg-type]
    bridge.on_turn_end(lambda: calls.append("end"))
    bridge.sync(0)
    bridge.sync(1)
    assert calls == ["end"]
    assert "a callback for the end of a turn failed" in caplog.text

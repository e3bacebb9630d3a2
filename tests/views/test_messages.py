from __future__ import annotations

from typing import Any

import pytest

from piweb_jupyter.views.messages import (
    Ack,
    Answer,
    Hello,
    PageMessage,
    Prompt,
    Restart,
    RunCommand,
    decode_message,
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"kind": "hello", "page": "p"}, Hello("p")),
        ({"kind": "ack", "page": "p", "epoch": 1, "rev": 7}, Ack("p", (1, 7), None)),
        ({"kind": "ack", "page": "p", "seq": 7}, Ack("p", None, 7)),
        (
            {"kind": "command", "id": "p.1", "action": "add", "args": {"by": 1}, "epoch": 2},
            RunCommand("p.1", "add", {"by": 1}, 2, None),
        ),
        (
            {"kind": "command", "id": "p.1", "action": "add", "epoch": 2, "ifRev": 0},
            RunCommand("p.1", "add", None, 2, 0),
        ),
        (
            {"kind": "prompt", "id": "p.1", "page": "p", "text": "hi", "mode": "steer"},
            Prompt("p.1", "p", "hi", "steer"),
        ),
        ({"kind": "answer", "question": "q", "value": None}, Answer("q", None)),
        ({"kind": "answer", "question": "q", "value": False}, Answer("q", False)),
        ({"kind": "restart"}, Restart()),
    ],
)
def test_what_a_page_sends_is_read_once(content: dict[str, Any], message: PageMessage) -> None:
    assert decode_message(content) == message


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        "hello",
        {},
        {"kind": None},
        {"kind": ["hello"]},
        {"kind": "unheard-of"},
        {"kind": "hello"},
        {"kind": "hello", "page": ""},
        {"kind": "hello", "page": "x" * 101},
        {"kind": "ack", "page": "p", "epoch": "1", "rev": 2},
        {"kind": "ack", "page": "p", "epoch": True, "rev": 2},
        {"kind": "command", "id": 3, "action": "add"},
        {"kind": "command", "id": "a", "action": None},
        {"kind": "command", "id": "a", "action": "add", "epoch": 1.5},
        {"kind": "prompt", "id": "a", "page": "p", "text": "x", "mode": "__class__"},
        {"kind": "answer", "question": "q", "value": {"a": 1}},
        {"kind": "answer", "question": "q"},
        {"kind": "anywidget-command", "id": "a", "name": "x", "msg": {}},
    ],
)
def test_what_no_page_of_ours_sends_is_nothing(content: object) -> None:
    assert decode_message(content) is None

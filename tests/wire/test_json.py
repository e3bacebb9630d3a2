from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piweb_jupyter.errors import ProtocolError, StateValueError
from piweb_jupyter.wire.json import dumps_strict, loads, reread

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_what_is_json_comes_back_equal(value: Any) -> None:
    assert loads(dumps_strict(value, "state")) == value


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: Any = 0
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"a": [1, float("nan")]}, "state.a[1]: nan is not JSON"),
        ({"a": float("inf")}, "state.a: inf is not JSON"),
        ({"a": None, "b": {"c": float("-inf")}}, "state.b.c: -inf is not JSON"),
        ({"n": 2**53}, "state.n: an integer beyond 2^53"),
        ({"n": -(2**70)}, "state.n: an integer beyond 2^53"),
        ({1: "a"}, "state: a key must be a string, not int 1"),
        ({"a": {"b": {1, 2}}}, "state.a.b: set is not JSON"),
        ({"a": object()}, "state.a: object is not JSON"),
        ({"a": "\ud800"}, "state.a: a string with a lone surrogate"),
        (LOOP, "state[0]: the structure contains itself"),
        (DEEP, "nested deeper than 250 levels"),
        ({"a": b"x"}, "state.a: bytes is not JSON"),
    ],
)
def test_what_javascript_could_not_read_back_is_refused_with_its_place(
    value: Any, named: str
) -> None:
    with pytest.raises(StateValueError) as caught:
        dumps_strict(value, "state")
    assert named in str(caught.value)


def test_none_beside_clean_floats_is_fine() -> None:
    assert dumps_strict({"a": None, "b": 1.5}, "state") == b'{"a":null,"b":1.5}'


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a":"\\ud83d"}', {"a": "\ufffd"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"a":"\xff\xfe"}', {"a": "\ufffd\ufffd"}),
        (b'{"a":1e400,"b":NaN,"c":-Infinity}', {"a": None, "b": None, "c": None}),
        (b'{"\\udc00":1}', {"\ufffd": 1}),
        (
            b'{"a":"\\udc00","i":-12345678901234567890}',
            {"a": "\ufffd", "i": -1.2345678901234567e19},
        ),
        (b'{"a":"\\udc00","i":' + b"9" * 5000 + b"}", {"a": "\ufffd", "i": None}),
    ],
)
def test_a_second_reading_replaces_what_only_javascript_accepts(line: bytes, value: Any) -> None:
    read, clean = reread(line)
    assert read == value
    assert loads(clean) == value


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b'{"a":1}{"b":2}', "not JSON"),
        (b'\xef\xbb\xbf{"a":1}', "not JSON"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (b'{"a":"\x01"}', "not JSON"),
    ],
)
def test_what_is_no_json_even_so_is_a_protocol_error(line: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        reread(line)
    assert caught.value.reason == reason
    assert len(str(caught.value)) < 1000


def test_the_clean_line_of_a_second_reading_is_plain_json() -> None:
    _, clean = reread(b'{"a":"\\ud800x","big":123456789012345678901234567890}')
    assert json.loads(clean) == {"a": "\ufffdx", "big": 123456789012345678901234567890.0}

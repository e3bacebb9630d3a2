"""Records behave as the dataclasses that they stand for."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from dataclasses import field as dataclass_field

import pytest

from piweb_jupyter.wire.events import AgentEnd, AgentStart, ContentDelta
from piweb_jupyter.wire.record import Record, field
from piweb_jupyter.wire.surface import CommandSpec


class Point(Record):
    x: int
    label: str = ""
    near: list[int] = field(default_factory=list)
    secret: str = field(default="-", repr=False)


@dataclass(slots=True)
class Same:
    x: int
    label: str = ""
    near: list[int] = dataclass_field(default_factory=list)
    secret: str = dataclass_field(default="-", repr=False)


def test_a_record_is_made_shown_and_compared_like_a_dataclass() -> None:
    for point, same in ((Point(1), Same(1)), (Point(2, "b", [3]), Same(2, "b", [3]))):
        assert repr(point) == repr(same).replace("Same", "Point")
        assert (point.x, point.label, point.near, point.secret) == (
            same.x,
            same.label,
            same.near,
            same.secret,
        )
    assert Point(x=1, label="a") == Point(1, "a")
    assert Point(1) != Point(2)
    assert Point(1) != Same(1)
    assert Point.__match_args__ == Same.__match_args__


def test_default_lists_are_not_shared() -> None:
    Point(1).near.append(9)
    assert Point(1).near == []
    assert AgentEnd().messages is not AgentEnd().messages


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required .* 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        Point(1, y=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Point(1).other = 2  # type: ignore[attr-defined]


def test_a_record_is_matched_by_position_and_can_be_copied() -> None:
    match ContentDelta("text", 0, "hi"):
        case ContentDelta("text", 0, delta):
            assert delta == "hi"
        case _:
            pytest.fail("not matched")
    point = Point(1, "a", [2])
    assert copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point
    assert AgentStart() == AgentStart()
    assert "description" not in repr(CommandSpec("go", description="far"))

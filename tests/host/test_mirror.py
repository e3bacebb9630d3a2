from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from piweb_jupyter.host.mirror import StateMirror
from piweb_jupyter.wire.frames import StateFrame, decode_frame, encode_state


def frame(key: str, rev: int, value: object = 0, *, deleted: bool = False) -> StateFrame:
    line = encode_state(key, rev, None if deleted else orjson.dumps(value), deleted=deleted)
    decoded = decode_frame(line)
    assert isinstance(decoded, StateFrame)
    return decoded


def fresh() -> StateMirror:
    mirror = StateMirror()
    mirror.begin_epoch(1)
    return mirror


def test_a_frame_that_is_not_newer_is_ignored() -> None:
    mirror = fresh()
    assert [mirror.apply(frame("k", rev, rev)) for rev in (1, 3, 2, 3)] == [
        True,
        True,
        False,
        False,
    ]
    held = mirror.get("k")
    assert held is not None
    assert (held.value(), held.version) == (3, (1, 3))


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=30))
def test_whatever_the_order_the_newest_wins_and_a_deletion_leaves_a_tombstone(
    arrivals: list[tuple[int, bool]],
) -> None:
    mirror = fresh()
    best: tuple[int, bool] | None = None
    for rev, deleted in arrivals:
        taken = mirror.apply(frame("k", rev, rev, deleted=deleted))
        assert taken == (best is None or rev > best[0])
        if taken:
            best = (rev, deleted)
    held = mirror.get("k")
    if best is None or best[1]:
        assert held is None
    else:
        assert held is not None
        assert held.value() == best[0]


def test_a_gap_is_counted_and_nothing_more() -> None:
    mirror = fresh()
    mirror.apply(frame("k", 0))
    assert mirror.apply(frame("k", 5))
    assert mirror.gaps == 1


def test_a_new_life_makes_every_key_stale_until_the_agent_sends_it() -> None:
    mirror = fresh()
    mirror.apply(frame("a", 17, "old"))
    mirror.apply(frame("b", 3, "old"))
    assert sorted(mirror.begin_epoch(2)) == ["a", "b"]
    assert mirror.apply(frame("a", 0, "new"))
    a, b = mirror.get("a"), mirror.get("b")
    assert a is not None
    assert b is not None
    assert (a.value(), a.stale, a.version) == ("new", False, (2, 0))
    assert (b.value(), b.stale, b.version) == ("old", True, (1, 3))
    assert mirror.drop_stale() == ["b"]
    assert mirror.get("b") is None
    assert mirror.apply(frame("b", 0, "late"))


def test_what_a_reader_gets_is_its_own() -> None:
    mirror = fresh()
    mirror.apply(frame("k", 0, {"list": [1]}))
    held = mirror.get("k")
    assert held is not None
    held.value()["list"].append(2)
    assert held.value() == {"list": [1]}


def test_versions_tell_tombstones_too() -> None:
    mirror = fresh()
    mirror.apply(frame("k", 0))
    mirror.apply(frame("k", 1, deleted=True))
    assert mirror.versions() == {"k": (1, 1)}
    assert mirror.keys() == []

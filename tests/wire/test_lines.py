from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piweb_jupyter.wire.lines import LineSplitter


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` in chunks of the given sizes, over and over."""
    chunks, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        chunks.append(data[at : at + size])
        at += size
        turn += 1
    return chunks


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=12),
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
    st.booleans(),
)
def test_any_chunking_gives_the_same_lines(
    lines: list[bytes], sizes: list[int], ended: bool
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    splitter = LineSplitter()
    got = [line for chunk in cut(data, sizes) for line in splitter.feed(chunk)]
    tail = splitter.flush()
    expected = [line for line in data.split(b"\n") if line not in (b"", b"\r")]
    assert got + ([tail] if tail is not None else []) == expected


@given(st.text(alphabet="aé你😀\u2028\u2029\x85\r", max_size=60), st.integers(1, 7))
def test_only_a_newline_ends_a_line_and_characters_stay_whole(text: str, size: int) -> None:
    splitter = LineSplitter()
    data = f"<{text}>\n".encode()
    assert [line for chunk in cut(data, [size]) for line in splitter.feed(chunk)] == [data[:-1]]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_line_over_the_limit_is_reported_and_the_next_one_is_read(size: int) -> None:
    seen: list[tuple[bytes, int]] = []
    splitter = LineSplitter(limit=100, on_oversize=lambda head, size: seen.append((head, size)))
    data = b"before\n" + b"x" * 1000 + b"\nafter\n" + b"y" * 100 + b"\n" + b"z" * 101 + b"\nlast\n"
    got = [line for chunk in cut(data, [size]) for line in splitter.feed(chunk)]
    assert got == [b"before", b"after", b"y" * 100, b"last"]
    assert [size for _, size in seen] == [1000, 101]
    assert all(head and set(head) <= set(b"xz") for head, _ in seen)


def test_an_endless_line_is_not_kept_in_memory() -> None:
    splitter = LineSplitter(limit=1000)
    for _ in range(1000):
        splitter.feed(b"x" * 500)
    assert splitter.feed(b"\nnext\n") == [b"next"]


def test_blank_lines_are_skipped_and_a_space_is_not_blank() -> None:
    assert LineSplitter().feed(b"\n\r\na\r\n \n\n") == [b"a\r", b" "]


def test_the_tail_is_given_once() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == [b"a"]
    assert splitter.flush() == b"b"
    assert splitter.flush() is None

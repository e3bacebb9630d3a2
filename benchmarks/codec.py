"""What reading a line costs: plain checks after orjson, or a pydantic model.

The hot frames are checked with `type(...) is` because of the first figures here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, cast

import orjson
from pydantic import BaseModel, ConfigDict

from piweb_jupyter.host.transcript import Op, Transcript
from piweb_jupyter.wire.events import Event
from piweb_jupyter.wire.frames import Cause, StateFrame, decode_frame, encode_state
from piweb_jupyter.wire.host_frames import SurfaceCommand, decode_host_line, encode_surface_command

from .report import Figure, note
from .visits import Comparison, Scale, summarise
from .work import make_pad

__all__ = ["measure"]


class _Cause(BaseModel):
    correlationId: str = ""
    action: str = ""
    actor: str = ""


class _State(BaseModel):
    """The state frame as a model, `value` unlooked at: the least that pydantic can do."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: Literal["piweb_state"]
    key: str
    rev: int
    value: Any = None
    deleted: bool = False
    cause: _Cause | None = None


def measure(scale: Scale) -> Iterator[Figure]:
    cause = Cause("c1", "increment", "cell")
    for name, value in (("small", {"count": 1}), ("60 KB", {"pad": make_pad(60_000)})):
        line = encode_state("surface:demo", 7, orjson.dumps(value), cause)[:-1]
        assert isinstance(decode_frame(line), StateFrame)
        loads = partial(orjson.loads, line)
        ours = partial(decode_frame, line)
        model = partial(_State.model_validate_json, line)
        found = _compare(loads, ours, scale)
        us = f"loads {found.a / 1e3:.2f} µs, ours {found.b / 1e3:.2f} µs"
        yield note("codec", f"{name} state: `decode_frame` / orjson.loads", found, detail=us)
        found = _compare(ours, model, scale)
        us = f"model {found.b / 1e3:.2f} µs"
        yield note("codec", f"{name} state: a pydantic model / `decode_frame`", found, detail=us)
    command = encode_surface_command(SurfaceCommand("c1", "demo", "increment", {"by": 1}, "cell"))
    found = _compare(partial(orjson.loads, command), partial(decode_host_line, command), scale)
    yield note("codec", "command: `decode_host_line` / orjson.loads", found)
    yield from _transcript(scale)


def _transcript(scale: Scale) -> Iterator[Figure]:
    """What folding one streamed token costs in the kernel."""
    transcript = Transcript()
    before = [
        {"type": "agent_start"},
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        _update({"type": "text_start", "contentIndex": 0}),
    ]
    line = orjson.dumps(_update({"type": "text_delta", "contentIndex": 0, "delta": "token "}))

    def fold(line: bytes = line) -> list[Op]:
        return transcript.apply(cast(Event, decode_frame(line)))

    for fields in before:
        fold(orjson.dumps(fields))
    assert fold(), "a delta must change the transcript"

    found = _compare(partial(orjson.loads, line), fold, scale)
    us = f"{found.b / 1e3:.1f} µs per delta, decoded and folded"
    yield note("codec", "a text delta in the transcript / orjson.loads", found, detail=us)


def _update(event: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message_update", "assistantMessageEvent": event}


def _compare(a: Callable[[], object], b: Callable[[], object], scale: Scale) -> Comparison:
    number = scale.count(2000, 5)
    return summarise([(_time(a, number), _time(b, number)) for _ in range(scale.pairs)])


def _time(fn: Callable[[], object], number: int) -> float:
    best = float("inf")
    for _ in range(4):
        begin = time.perf_counter_ns()
        for _ in range(number // 4 or 1):
            fn()
        best = min(best, (time.perf_counter_ns() - begin) / (number // 4 or 1))
    return best

"""The floor's other end: reads requests, counts, answers each with a state and a result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.work import make_pad

_counter = 0


def _count(args: dict[str, Any]) -> dict[str, Any]:
    global _counter
    _counter += args["by"]
    size = args["size"]
    return {"counter": _counter, "pad": make_pad(size)} if size else {"counter": _counter}


def _answer(line: bytes) -> tuple[bytes, ...]:
    message = orjson.loads(line)
    args = message["params"]
    if message["method"] == "push":
        _push(args["count"])
        return (orjson.dumps({"id": message["id"], "result": None}),)
    state = _count(args)
    return (
        orjson.dumps({"method": "state", "params": state}),
        orjson.dumps({"id": message["id"], "result": {"counter": state["counter"]}}),
    )


def _answer_as_ours(line: bytes) -> tuple[bytes, ...]:
    """The same work in the words of our wire."""
    request = orjson.loads(line)["request"]
    payload, id_ = request["payload"], request["correlationId"]
    state = _count(payload["args"])
    cause = {"correlationId": id_, "action": "increment", "actor": "cell"}
    frame = {"type": "piweb_state", "key": "surface:demo", "value": state, "rev": _counter}
    data = {"counter": state["counter"]}
    result = {"domain": "demo", "action": "increment", "ok": True, "data": data}
    response = {"correlationId": id_, "ok": True, "result": result}
    return (
        orjson.dumps({**frame, "cause": cause}),
        orjson.dumps({"type": "ui_rpc_response", "response": response}),
    )


def _push(count: int) -> None:
    """A state per change, each sent at once: the first must not wait for the second."""
    global _counter
    for _ in range(count):
        _counter += 1
        _write_all(orjson.dumps({"method": "state", "params": {"counter": _counter}}) + b"\n")


def _write_all(data: bytes) -> None:
    written = os.write(1, data)
    if written != len(data):
        rest = memoryview(data)
        while written < len(rest):
            written += os.write(1, rest[written:])


def _batches() -> Iterator[list[bytes]]:
    held = bytearray()
    while chunk := os.read(0, 65536):
        if not held and chunk[-1] == 10:
            yield chunk[:-1].split(b"\n")
            continue
        held += chunk
        cut = held.rfind(b"\n")
        if cut >= 0:
            lines = bytes(memoryview(held)[:cut]).split(b"\n")
            del held[: cut + 1]
            yield lines


def main(answer: Callable[[bytes], tuple[bytes, ...]]) -> None:
    for batch in _batches():
        out: list[bytes] = []
        for line in batch:
            out += answer(line)
        out.append(b"")
        _write_all(b"\n".join(out))


if __name__ == "__main__":
    main(_answer_as_ours if sys.argv[1:] == ["ours"] else _answer)

"""An agent that plays a recorded conversation back: `player.py RECORDING [CHUNKING]`.

What the agent wrote (`out`, `err`) is written in the recorded order. Where the host had said
something (`in`) the player waits until this host has said the like; answers to it then carry the
id that this host gave. What this host asks beside that (it looks at the state when it starts, for
one) is answered as an idle agent would.

Before each such wait it sends the state `player`, a count, so that a test knows how far it is; at
the end it waits for the line `{"type":"player_exit"}`, and ends as the recorded agent did.

CHUNKING is how stdout is cut: `whole`, `lines`, `64k`, `utf8` (inside every character of more than
one byte) or a number of bytes.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What tells two commands of one type apart.
MARKS = {
    "prompt": ("message",),
    "steer": ("message",),
    "follow_up": ("message",),
    "bash": ("command",),
    "extension_ui_response": ("id",),
    "piweb_state_set": ("key",),
    "piweb_state_delete": ("key",),
    "piweb_agent_route_request": ("id",),
}
READS: dict[Any, dict[str, Any]] = {
    "get_state": {"isStreaming": False, "messageCount": 0, "pendingMessageCount": 0},
    "get_commands": {"commands": []},
    "get_messages": {"messages": []},
}


def main() -> None:
    path, chunking = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "lines"
    Player(read(path), chunking).play()


def read(path: Path) -> list[tuple[str, Any]]:
    """The recorded lines with their direction; what was written in pieces is put together."""
    entries: list[tuple[str, Any]] = []
    raw = ""
    for text in path.read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        entry = json.loads(text)
        kind, line = entry["dir"], entry["line"]
        if kind == "in":
            if isinstance(line, dict) and "$raw" in line:
                line = line["$raw"]
            if isinstance(line, str):
                raw += line
                if not raw.endswith("\n"):
                    continue
                # One write of the host may have held several lines.
                entries += [("in", piece + "\n") for piece in raw.split("\n")[:-1]]
                raw = ""
                continue
            if "$event" in line or "$note" in line:
                continue
        entries.append((kind, line))
    return [*entries, ("in", raw + "\n")] if raw else entries


def key_of(line: Any) -> Any:
    """What a line of the host is recognised by. A cut recording is recognised by its type alone."""
    if not isinstance(line, dict):
        return line
    kind = line.get("type")
    if "_cut" in line:
        return (kind,)
    if kind == "ui_rpc":
        payload = (line.get("request") or {}).get("payload") or {}
        parts = [payload.get(name) for name in ("domain", "action", "args")]
        return (kind, json.dumps(parts, sort_keys=True))
    return (kind, *(json.dumps(line.get(name)) for name in MARKS.get(str(kind), ())))


def is_like(line: bytes, expected: Any) -> bool:
    if isinstance(expected, str):
        if line == expected.encode()[:-1]:
            return True
        expected = decoded(expected.encode())
        if not isinstance(expected, dict) or "id" not in expected:
            return False
    key, wanted = key_of(decoded(line)), key_of(expected)
    return key == wanted or ("_cut" in expected and key[:1] == wanted)


def decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


class Player:
    def __init__(self, entries: list[tuple[str, Any]], chunking: str) -> None:
        self.entries = entries
        self.chunking = chunking
        self.heard: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.early: list[bytes] = []
        self.ids: dict[str, Any] = {}
        self.given: set[int] = set()
        self.waits = 0
        self.pending = b""
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        rest = b""
        while chunk := os.read(0, 65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.heard.put(line)
        self.heard.put(None)

    def play(self) -> None:
        code = 0
        for i, (kind, line) in enumerate(self.entries):
            if kind == "out" and i not in self.given:
                self.say(line)
            elif kind == "err":
                self.flush()
                os.write(2, str(line).encode() + b"\n")
            elif kind == "in":
                self.await_line(line)
                self.answer_ahead(i, line)
            elif kind == "meta":
                code = line.get("exit", line.get("rc", code))
        self.await_line({"type": "player_exit"})
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)

    def answer_ahead(self, i: int, line: Any) -> None:
        """Answer now what the recorded host did not wait for: ours says one thing at a time."""
        follower = self.entries[i + 1] if i + 1 < len(self.entries) else ("", None)
        if follower[0] != "in" or not isinstance(line, dict) or line.get("id") is None:
            return
        for j in range(i + 1, len(self.entries)):
            kind, answer = self.entries[j]
            answers = isinstance(answer, dict) and answer.get("type") == "response"
            if kind == "out" and answers and answer.get("id") == line["id"]:
                self.given.add(j)
                return self.say(answer)

    def await_line(self, expected: Any) -> None:
        """Wait until the host says the like of `expected`."""
        self.waits += 1
        self.say({"type": "piweb_state", "key": "player", "value": self.waits, "rev": self.waits})
        self.flush()
        for line in self.early:
            if is_like(line, expected):
                self.early.remove(line)
                return self.note_ids(expected, decoded(line))
        while True:
            heard = self.heard.get()
            if heard is None:
                os._exit(0)
            if is_like(heard, expected):
                return self.note_ids(expected, decoded(heard))
            if not self.answer_idly(decoded(heard)):
                self.early.append(heard)

    def note_ids(self, expected: Any, line: Any) -> None:
        if isinstance(expected, str):
            expected = decoded(expected.encode())
        if isinstance(expected, dict) and isinstance(line, dict):
            if "id" in expected:
                self.ids[json.dumps(expected["id"])] = line.get("id")
            recorded, ours = expected.get("request"), line.get("request")
            if isinstance(recorded, dict) and isinstance(ours, dict):
                self.ids[json.dumps(recorded.get("correlationId"))] = ours.get("correlationId")

    def answer_idly(self, line: Any) -> bool:
        kind = line.get("type") if isinstance(line, dict) else None
        if kind in READS:
            data = READS[kind]
            if kind == "get_state" and (model := self.recorded_model()) is not None:
                data = {**data, "model": model}
        elif kind == "clear_queue":
            data = {"steering": [], "followUp": []}
        elif kind == "piweb_clear_queue":
            self.put({**line, "type": "piweb_clear_queue_result", "steering": [], "followUp": []})
            return True
        else:
            return False
        self.put(
            {"id": line["id"], "type": "response", "command": kind, "success": True, "data": data}
        )
        self.flush()
        return True

    def recorded_model(self) -> Any:
        for kind, line in self.entries:
            if kind == "out" and isinstance(line, dict) and line.get("command") == "get_state":
                return line["data"]["model"]
        return None

    def say(self, line: Any) -> None:
        """Write a recorded line, with this host's ids in the place of the recorded host's."""
        if isinstance(line, dict):
            if line.get("type") in ("response", "bash_execution_update") or "_result" in str(
                line.get("type")
            ):
                if line.get("id") is not None:
                    recorded = json.dumps(line["id"])
                    line = {**line, "id": self.ids.get(recorded, f"recorded {recorded}")}
            elif line.get("type") == "ui_rpc_response":
                response = line["response"]
                recorded = json.dumps(response["correlationId"])
                ours = self.ids.get(recorded, f"recorded {recorded}")
                line = {**line, "response": {**response, "correlationId": ours}}
        self.put(line)

    def put(self, line: Any) -> None:
        text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
        self.pending += text.encode() + b"\n"

    def flush(self) -> None:
        data, self.pending = self.pending, b""
        for chunk in chunks(data, self.chunking):
            while chunk:
                chunk = chunk[os.write(1, chunk) :]


def chunks(data: bytes, chunking: str) -> Iterator[bytes]:
    match chunking:
        case "whole":
            size = len(data)
        case "64k":
            size = 65536
        case "lines":
            yield from data.splitlines(keepends=True)
            return
        case "utf8":
            start = 0
            for i in range(1, len(data)):
                if data[i] & 0xC0 == 0x80:
                    yield data[start:i]
                    start = i
            yield data[start:]
            return
        case _:
            size = int(chunking)
    yield from (data[i : i + size] for i in range(0, len(data), size or 1))


if __name__ == "__main__":
    main()

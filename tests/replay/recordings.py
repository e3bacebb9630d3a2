"""Recorded conversations of real agents, and how to play them into the host without a process.

`tests/wire/recorded` holds one JSON object a line: `{"t", "dir", "line"}` with `dir` one of `in`
(host to agent), `out`, `err` and `meta`. A line that was no JSON is a string, or `{"$raw": …}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from piweb_jupyter.errors import ProtocolError
from piweb_jupyter.host.mirror import StateMirror
from piweb_jupyter.host.questions import Question, Questions
from piweb_jupyter.host.transcript import Message, Transcript
from piweb_jupyter.wire import events, frames, rpc
from piweb_jupyter.wire.lines import LineSplitter
from tests.host.chat_copy import ChatCopy

__all__ = ["CHUNKINGS", "RECORDED", "Entry", "Replay", "chunked", "encoded", "names", "read"]

RECORDED = Path(__file__).parents[1] / "wire" / "recorded"

CHUNKINGS = ("whole", "lines", "1", "7", "utf8", "64k")

_EVENTS = get_args(events.Event)
_REPLACING = ("new_session", "switch_session", "fork", "clone")


@dataclass(frozen=True)
class Entry:
    """One recorded line. `t` is in milliseconds."""

    t: float
    dir: str
    line: Any

    @property
    def raw(self) -> str | None:
        """What was written, if it was not written as an object."""
        return self.line if isinstance(self.line, str) else self.line.get("$raw")

    @property
    def fields(self) -> dict[str, Any]:
        """The line as an object; empty if it is none."""
        if self.raw is None:
            return dict(self.line)
        try:
            fields = json.loads(self.raw)
        except ValueError:
            return {}
        return fields if isinstance(fields, dict) else {}


def names() -> list[str]:
    """Every recording, as `pi/02-prompt-text`."""
    paths = sorted(RECORDED.glob("*/*.jsonl"))
    return [f"{path.parent.name}/{path.stem}" for path in paths]


def read(name: str) -> list[Entry]:
    text = (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8")
    entries = map(json.loads, text.removesuffix("\n").split("\n"))
    return [Entry(**entry) for entry in entries]


def encoded(line: Any) -> bytes:
    """A recorded line as the agent wrote it, newline and all."""
    if isinstance(line, str):
        return line.encode() + b"\n"
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def chunked(data: bytes, chunking: str) -> Iterator[bytes]:
    """The same bytes, cut up in one of the ways a pipe may cut them, and a few it never would."""
    match chunking:
        case "whole":
            yield data
        case "lines":
            yield from data.splitlines(keepends=True)
        case "utf8":
            start = 0
            for i in range(1, len(data)):
                if data[i] & 0xC0 == 0x80:  # inside a character
                    yield data[start:i]
                    start = i
            yield data[start:]
        case "64k":
            yield from (data[i : i + 65536] for i in range(0, len(data), 65536))
        case _:
            size = int(chunking)
            yield from (data[i : i + size] for i in range(0, len(data), size))


@dataclass
class Replay:
    """What the host's parts make of a recording."""

    transcript: Transcript = field(default_factory=Transcript)
    questions: Questions = field(default_factory=Questions)
    mirror: StateMirror = field(default_factory=StateMirror)
    refused: list[str] = field(default_factory=list)
    results: dict[str, frames.CommandResult] = field(default_factory=dict)
    declared: list[str] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    chapters: list[list[Message]] = field(default_factory=list)  # chats that a new session replaced
    last_texts: list[tuple[str, str]] = field(default_factory=list)
    ready: bool = False

    def __post_init__(self) -> None:
        self._copy = ChatCopy(self.transcript)
        self._splitter = LineSplitter()
        self._marks: dict[str, int] = {}
        self._deadlines: list[tuple[float, Question]] = []
        self._now = 0.0
        self.mirror.begin_epoch(1)

    def play(self, entries: list[Entry], chunking: str = "lines") -> Replay:
        """Play it through: what the host said is taken in where it was said."""
        pending = b""
        for entry in entries:
            if any(deadline <= entry.t for deadline, _ in self._deadlines):
                self._take(pending, chunking)
                pending = b""
                self._expire(entry.t)
            self._now = entry.t
            if entry.dir == "out":
                pending += encoded(entry.line)
            elif entry.dir == "in":
                self._take(pending, chunking)
                pending = b""
                self._said(entry.fields)
        self._take(pending, chunking)
        assert self._splitter.flush() is None
        self._copy.check()
        return self

    def _take(self, data: bytes, chunking: str) -> None:
        if data:
            for chunk in chunked(data, chunking):
                for line in self._splitter.feed(chunk):
                    self._line(line)

    def _line(self, line: bytes) -> None:
        try:
            frame = frames.decode_frame(line)
        except ProtocolError as exc:
            self.refused.append(exc.reason)
            return
        match frame:
            case frames.StateFrame():
                self.mirror.apply(frame)
            case frames.CommandResult():
                self.results[frame.correlation_id] = frame
            case frames.RunnerReady():
                self.ready = True
            case frames.Declaration():
                self.declared.append(frame.type)
            case rpc.Response():
                self._answered(frame)
            case rpc.UiRequest() if frame.method in rpc.TELL_METHODS:
                self._copy.take(self.transcript.apply_ui(frame))
            case rpc.UiRequest():
                question = self.questions.add(frame)
                self.asked.append(question)
                if question.timeout is not None:
                    self._deadlines.append((self._now + question.timeout, question))
            case _ if isinstance(frame, _EVENTS):
                busy = self.transcript.busy
                self._copy.take(self.transcript.apply(frame))
                if busy and not self.transcript.busy:
                    self.questions.cancel_with_run()
            case _:
                self.declared.append(type(frame).__name__)

    def _said(self, fields: dict[str, Any]) -> None:
        match fields.get("type"):
            case "bash":
                command = str(fields.get("command", ""))
                self._copy.take(self.transcript.start_bash(fields.get("id"), command))
            case "extension_ui_response" if fields.get("id") in {q.id for q in self.questions.open}:
                # Recorded were also answers that our host does not let through.
                self.questions.answer(fields["id"], None)
            case kind if kind in _REPLACING:
                self._marks[fields["id"]] = self.transcript.mark()

    def _expire(self, now: float) -> None:
        for deadline, question in self._deadlines:
            if deadline <= now:
                self.questions.expire(question)
        self._deadlines = [entry for entry in self._deadlines if entry[0] > now]

    def _answered(self, response: rpc.Response) -> None:
        self._copy.take(self.transcript.apply_response(response))
        # A session that was switched to is not loaded here, unless the recording asks for it.
        if response.command == "get_last_assistant_text" and len(self.transcript):
            told = response.data.get("text", "")
            self.last_texts.append((told, self.transcript.run_summary().text))
        if response.command == "get_messages" and not len(self.transcript):
            self._copy.take(self.transcript.load(response.data["messages"]))
        replacing = response.command in _REPLACING and response.success
        if replacing and not response.data["cancelled"]:
            self.chapters.append(self.transcript.messages)
            self._copy.take(self.transcript.clear(self._marks[response.id]))

"""Every recorded conversation, played into the host's parts without a process.

`expected.txt` says what each must come to. Its lines were checked against the recordings by hand;
the tests below that read the recordings in another, simpler way check them again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from piweb_jupyter.host.transcript import Transcript
from piweb_jupyter.wire.events import ContentDelta, Event
from piweb_jupyter.wire.frames import CommandResult, decode_frame
from piweb_jupyter.wire.lines import LineSplitter
from tests.replay.compact import compact, compact_meta
from tests.replay.recordings import (
    CHUNKINGS,
    RECORDED,
    Entry,
    Replay,
    chunked,
    encoded,
    names,
    read,
)

NAMES = names()
EVENTS: tuple[type, ...] = get_args(Event)
EXPECTED = Path(__file__).with_name("expected.txt")


def expected() -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for line in EXPECTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            section = sections[line[3:]] = []
        elif line and not line.startswith("#"):
            section.append(line)
    return sections


def report(replay: Replay) -> list[str]:
    """All that a recording came to, in the order of `expected.txt`."""
    lines: list[str] = []
    for chapter in replay.chapters:
        lines += [*compact(chapter), "-- another session"]
    lines += compact(replay.transcript.messages)
    lines += compact_meta(replay.transcript.meta)
    lines += [f"? {question.method} {question.title}" for question in replay.asked]
    lines += [f"?? still open: {question.title}" for question in replay.questions.open]
    for snapshot in replay.mirror.held():
        lines.append(
            f"> {snapshot.key} rev {snapshot.rev}: {orjson.dumps(snapshot.value()).decode()}"
        )
    lines += [f"< {id_} {outcome(result)}" for id_, result in replay.results.items()]
    lines += [f"~ {frame}" for frame in replay.declared]
    lines += [f"!! {reason}" for reason in replay.refused]
    return lines


def outcome(result: CommandResult) -> str:
    return orjson.dumps(result.data).decode() if result.ok else result.code


def is_event(frame: object) -> bool:
    return isinstance(frame, EVENTS)


def test_there_is_an_expectation_for_every_recording_and_a_recording_for_each() -> None:
    assert list(expected()) == NAMES


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_comes_to_what_it_must_however_it_is_cut(name: str, chunking: str) -> None:
    assert report(Replay().play(read(name), chunking)) == expected()[name]


# ---------------------------------------------------------------- read once more, more simply


def answered(entry: Entry, *commands: str) -> bool:
    line = entry.fields
    return (
        entry.dir == "out"
        and line.get("type") == "response"
        and line.get("command") in commands
        and line["success"]
        and (line.get("data") or {}).get("cancelled") is not True
    )


def another_session(entry: Entry) -> bool:
    return answered(entry, "new_session", "switch_session", "fork", "clone")


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def said(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Who said what, in a chat as it is shown."""
    return [
        (m["role"], "".join(part["text"] for part in m["parts"] if part["type"] == "text"))
        for m in messages
        if m["role"] in ("user", "assistant") and m["status"] != "streaming"
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_chat_holds_what_the_final_messages_say_and_no_failed_attempts(name: str) -> None:
    chats: list[list[tuple[str, str]]] = [[]]
    for entry in read(name):
        line = entry.fields
        if another_session(entry):
            chats.append([])
        if answered(entry, "get_messages") and not chats[-1]:
            stored = line["data"]["messages"]
            chats[-1] = [
                (m["role"], text_of(m)) for m in stored if m["role"] in ("user", "assistant")
            ]
        if entry.dir != "out" or "_cut" in line:
            continue
        if line["type"] == "message_end" and line["message"]["role"] in ("user", "assistant"):
            chats[-1].append((line["message"]["role"], text_of(line["message"])))
        if line["type"] == "agent_end" and line.get("willRetry"):
            assert chats[-1].pop()[0] == "assistant"
    replay = Replay().play(read(name))
    assert [said(chat) for chat in (*replay.chapters, replay.transcript.messages)] == chats


@pytest.mark.parametrize("name", NAMES)
def test_each_card_shows_how_its_tool_ended(name: str) -> None:
    calls: list[dict[str, Any]] = []
    for entry in read(name):
        line = entry.fields
        if entry.dir == "out" and line.get("type") == "tool_execution_start":
            calls.append({"id": line["toolCallId"], "name": line["toolName"], "end": None})
        if entry.dir == "out" and line.get("type") == "tool_execution_end":
            [call] = [c for c in calls if c["id"] == line["toolCallId"] and c["end"] is None]
            call["end"] = (line["isError"], text_of(line["result"]))
    replay = Replay().play(read(name))
    shown = [
        part
        for chat in (*replay.chapters, replay.transcript.messages)
        for message in chat
        if message["role"] == "assistant"
        for part in message["parts"]
        if part["type"] == "tool"
    ]
    stored = len(shown) - len(calls)  # of a session that was resumed
    for call, part in zip(calls, shown[stored:], strict=True):
        assert (call["id"], call["name"]) == (part["id"], part["name"])
        if call["end"] is None:
            assert part["status"] == "running"
        else:
            assert call["end"] == (part["status"] in ("error", "aborted"), part["output"])


# pi takes an answer that its length cut off out of the context, so that it is not the last one.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "pi/11-error-retry"])
def test_the_last_text_is_the_one_that_the_agent_itself_gives(name: str) -> None:
    for told, ours in Replay().play(read(name)).last_texts:
        assert ours.strip() == told


def test_tokens_add_up_to_the_agents_own_statistics() -> None:
    meta = Replay().play(read("pi/02-prompt-text")).transcript.meta
    own = meta["stats"]["tokens"]
    assert {key: meta["usage"][key] for key in ("input", "output", "cacheRead")} == {
        key: own[key] for key in ("input", "output", "cacheRead")
    }
    assert meta["usage"]["cost"] == pytest.approx(meta["stats"]["cost"])
    assert meta["usage"]["context"] == meta["stats"]["contextUsage"]["tokens"]


@pytest.mark.parametrize("name", NAMES)
def test_a_delta_is_told_as_one_append_of_its_text(name: str) -> None:
    transcript = Transcript()
    for entry in read(name):
        if entry.dir != "out" or "_cut" in entry.fields:
            continue
        event: Any = decode_frame(encoded(entry.line)[:-1])
        if not is_event(event):
            continue
        told = [(op[0], op[-1]) for op in transcript.apply(event)]
        if isinstance(event, ContentDelta):
            assert told == ([("append", event.delta)] if event.delta else [])


DEATHS = [name for name in NAMES if name.startswith(("pi/41", "pi/42", "pi/44", "pi/45"))]


@pytest.mark.parametrize("name", DEATHS)
def test_an_agent_that_died_in_a_run_leaves_nothing_open(name: str) -> None:
    transcript = Replay().play(read(name)).transcript
    was_busy = transcript.busy
    transcript.end("the agent was killed")
    assert (was_busy, transcript.busy) == (True, False)
    assert transcript.run_summary().error == "the agent was killed"
    *_, answer, notice = transcript.messages
    assert notice["parts"][0]["text"] == "the agent was killed"
    if name.endswith("streaming"):
        assert (answer["status"], answer["error"]) == ("error", "the agent was killed")
        assert answer["parts"][0]["text"].startswith("word0 word1")
    else:
        card = answer["parts"][-1]
        assert card["status"] == "error"
        assert card["output"] == ("go\n" if "44" in name else "the agent was killed")


# ---------------------------------------------------------------- the recordings themselves


def test_every_way_to_cut_a_stream_gives_the_same_lines() -> None:
    data = "".join(f"{i} é 😀 \u2028 x\n" for i in range(3000)).encode()
    lines = data.removesuffix(b"\n").split(b"\n")
    for chunking in CHUNKINGS:
        chunks = list(chunked(data, chunking))
        assert b"".join(chunks) == data
        splitter = LineSplitter()
        assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines
    assert any(chunk[0] & 0xC0 == 0x80 for chunk in chunked(data, "utf8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_names_no_machine(name: str) -> None:
    text = (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8")
    for place in ("/home/", "/root/", "/Users/", "/tmp/", "/work/"):
        assert place not in text

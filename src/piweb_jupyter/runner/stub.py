"""The offline model `stub`: no key, no network, the same answer to the same prompt every time.

For demos and tests. It reads the last user message line by line:

    CALL <tool> <json>   call that tool; several call several tools at once. When they have
                         answered, the stub says what each returned. With its JSON it may stand
                         anywhere in a line.
    THINK <text>         stream the text as thinking first
    SAY <text>           answer with exactly this text (a JSON string is decoded first)
    SLOW <n> <ms>        stream n words, one every ms milliseconds
    TOKENS <n> <rate>    stream n tokens at that rate per second
    FAIL <text>          break off with that error

Any other prompt is answered with what the stub understood and what it could do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from json import JSONDecoder
from typing import Literal

import orjson

from ..wire.events import ContentDelta, ContentEnd, ContentStart
from ..wire.json import dumps
from ..wire.record import Record, field
from .backend import ModelEvent, ModelRequest, ModelStop, ModelUsage
from .chat import text_of
from .model import STUB, Entry, Fields, ModelError, describe_model

__all__ = ["StubBackend"]

# Seconds between two words of an ordinary answer: visibly a stream, and soon over.
_WORD_PAUSE = 0.005

# A shorter sleep costs more than it paces: at 2,000 tokens/s the words come in small bursts.
_NAP = 0.002

_LINE = re.compile(r"\s*(CALL|THINK|SAY|SLOW|TOKENS|FAIL)\b[ \t]*(.*)")
_CALL = re.compile(r"\bCALL[ \t]+")
_WORDS = re.compile(r"\s*\S+\s*")


class _Script(Record):
    """What a prompt asks of the stub. `pace` is seconds per word."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    thinking: str = ""
    say: list[str] = field(default_factory=list)
    pace: float = _WORD_PAUSE
    words: int = 0
    fail: str | None = None


class StubBackend:
    """Answers by the script in the prompt."""

    @property
    def info(self) -> Fields:
        return describe_model(STUB)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        user, results = _last_exchange(request.entries)
        prompt = text_of(user)
        script = _read(prompt)
        usage = ModelUsage(input=sum(_count(entry.message) for entry in request.entries))
        index = 0
        if script.thinking and not results:
            async for event in _block("thinking", index, script.thinking, script.pace):
                usage.output += isinstance(event, ContentDelta)
                yield event
            index += 1
        calls = [] if results else script.calls
        text = _answer(prompt, user, script, results, request)
        async for event in _block("text", index, text, script.pace):
            usage.output += isinstance(event, ContentDelta)
            yield event
        if script.fail is not None and not results:
            raise ModelError(script.fail or "the prompt said FAIL")
        last = request.entries[-1].id if request.entries else "m0"
        for number, (name, arguments) in enumerate(calls):
            index += 1
            yield ContentStart("toolcall", index, f"call_{last}_{number}", name)
            yield ContentDelta("toolcall", index, arguments)
            yield ContentEnd("toolcall", index)
            usage.output += 1
        yield usage
        yield ModelStop("toolUse" if calls else "stop")


def _read(prompt: str) -> _Script:
    script = _Script()
    for line in prompt.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:  # an ordinary line may still have a call in it, with its arguments
            script.calls += [call for call in _calls(line) if call[1]]
            continue
        word, rest = match[1], match[2].strip()
        if word == "CALL":
            script.calls += [(name, arguments or "{}") for name, arguments in _calls(line)]
        elif word == "THINK":
            script.thinking = rest or "Let me think about that."
        elif word == "SAY":
            script.say.append(_decoded(rest))
        elif word == "FAIL":
            script.fail = rest
        else:
            script.words, second = _numbers(rest)
            script.pace = second / 1000 if word == "SLOW" else 1 / max(second, 1)
    return script


def _calls(line: str) -> list[tuple[str, str]]:
    """The calls in a line, wherever they stand: "please CALL increment {"by": 2} now"."""
    calls: list[tuple[str, str]] = []
    for part in _CALL.split(line)[1:]:
        name, _, rest = part.partition(" ")
        rest = rest.strip()
        try:
            arguments = rest[: JSONDecoder().raw_decode(rest)[1]]
        except ValueError:  # none, or broken on purpose
            arguments = rest if rest.startswith(("{", "[")) else ""
        if name := name.strip("`.,;:!?"):
            calls.append((name, arguments))
    return calls


def _decoded(text: str) -> str:
    if text.startswith('"'):
        try:
            return str(orjson.loads(text))
        except orjson.JSONDecodeError:
            pass
    return text


def _numbers(text: str) -> tuple[int, int]:
    """The two numbers of SLOW and TOKENS; 20 and 100 where they are missing."""
    found = [int(number) for number in re.findall(r"\d+", text)[:2]]
    first, second = found + [20, 100][len(found) :]
    return first, second


def _last_exchange(entries: list[Entry]) -> tuple[Fields, list[Fields]]:
    """The last user message, and the tool results that came after it."""
    results: list[Fields] = []
    for entry in reversed(entries):
        if entry.message["role"] == "user":
            return entry.message, results[::-1]
        if entry.message["role"] == "toolResult":
            results.append(entry.message)
    return {"role": "user", "content": []}, results[::-1]


def _answer(
    prompt: str, user: Fields, script: _Script, results: list[Fields], request: ModelRequest
) -> str:
    if results:
        return "\n".join(_told(result) for result in results)
    if script.words:
        return " ".join(f"word{number}" for number in range(1, script.words + 1))
    if script.say:
        return "\n".join(script.say)
    if script.calls:
        names = ", ".join(f"`{name}`" for name, _ in script.calls)
        return f"I will call {names}."
    if script.fail is not None:
        return ""
    images = sum(block.get("type") == "image" for block in user["content"])
    lines = [f"You said: {prompt.strip()}" if prompt.strip() else "You said nothing."]
    if images:
        lines.append(f"With {images} image{'s' if images > 1 else ''}.")
    lines.append("")
    lines.append("I am `stub`, an offline model. I understand `CALL tool {json}`, `THINK text`,")
    lines.append("`SAY text`, `SLOW n ms`, `TOKENS n rate` and `FAIL text`.")
    if request.tools:
        names = ", ".join(f"`{tool.name}`" for tool in request.tools)
        lines.append(f"My tools: {names}. For example: `{_example(request)}`")
    return "\n".join(lines)


def _example(request: ModelRequest) -> str:
    """A call that could be typed: the first tool with its defaults."""
    tool = request.tools[0]
    properties = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or []
    samples = {"integer": 1, "number": 1, "string": "text", "boolean": True, "array": []}
    arguments = {
        name: schema.get("default", samples.get(schema.get("type")))
        for name, schema in properties.items()
        if name in required or "default" in schema
    }
    return f"CALL {tool.name} {dumps(arguments).decode()}"


def _told(result: Fields) -> str:
    text = text_of(result).strip() or "nothing"
    verb = "failed" if result["isError"] else "returned"
    return f"`{result['toolName']}` {verb}: {text}"


async def _block(
    kind: Literal["text", "thinking"], index: int, text: str, pace: float
) -> AsyncGenerator[ModelEvent, None]:
    """One block word by word, each at its time; a stream that is late catches up."""
    if not text:
        return
    yield ContentStart(kind, index)
    loop = asyncio.get_running_loop()
    due = loop.time()
    for word in _WORDS.findall(text) or [text]:
        yield ContentDelta(kind, index, word)
        due += pace
        if (wait := due - loop.time()) > _NAP:
            await asyncio.sleep(wait)
    yield ContentEnd(kind, index)


def _count(message: Fields) -> int:
    return len(text_of(message).split())

"""A model server that does what the prompt says: OpenAI's chat completions, on loopback, no key.

    with ModelServer() as models:
        ...                        # point a client to models.url and let it say "ECHO hello"
        assert models.requests[-1].prompt == "ECHO hello"

Markers in the text of the last user message decide the answer; several may stand together:

    CALL <tool> <json>        a tool call (several lines: parallel calls); once the results are in
                              the request, the answer is "Tool results: N (...)"
    LOOP n                    the calls are repeated in n successive rounds
    BADCALL <tool> <text>     a tool call whose arguments are this text
    THINK [n]                 n (6) pieces of reasoning before the answer
    SLOW [n] [ms]             n (40) words, ms (100) apart
    BIG n                     n pieces of about 20 characters, as fast as possible
    BYTES n                   one piece of n characters
    SAY <json string>         exactly this, in three pieces
    ECHO                      the prompt itself and the number of its images
    LENGTH                    the answer stops for its length
    USAGE in out              these token counts
    FAIL code [n]             the HTTP error `code`, n (1) times for this prompt
    FAILMSG code text         the same once, with this message
    DROP [n]                  the connection is cut after n (3) pieces
    HANG                      headers, and then nothing until the client or the server goes

A prompt that holds <conversation> asks for a summary (pi's compaction) and gets a fixed one.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

MODEL = "fake-1"
_ERRORS = {
    429: "Rate limit reached for requests",
    500: "The server had an error",
    503: "overloaded",
}
_PACE_S = 0.005  # between pieces that should look like a stream


@dataclass(frozen=True)
class Request:
    """One request for a completion, as far as tests ask about it."""

    prompt: str
    images: int
    tools: tuple[str, ...]
    headers: dict[str, str]
    body: dict[str, Any] = field(repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", []))

    @property
    def system(self) -> str:
        """The text of every system message."""
        told = (m for m in self.messages if m.get("role") in {"system", "developer"})
        return "\n".join(_text(message.get("content")) for message in told)

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What came after the prompt: our own tool calls, and their results."""
        last = max((i for i, m in enumerate(self.messages) if m.get("role") == "user"), default=-1)
        return self.messages[last + 1 :]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part.get("text", "") for part in parts if part.get("type") == "text")


def _read_request(body: dict[str, Any], headers: dict[str, str]) -> Request:
    asked = [m for m in body.get("messages", []) if m.get("role") == "user"]
    content = asked[-1].get("content") if asked else ""
    parts = content if isinstance(content, list) else []
    return Request(
        prompt=_text(content),
        images=sum(part.get("type") == "image_url" for part in parts),
        tools=tuple(tool.get("function", {}).get("name", "") for tool in body.get("tools", [])),
        headers=headers,
        body=body,
    )


class ModelServer:
    """Serves from a thread of its own while it is open. Safe to ask from any thread."""

    def __init__(self, port: int = 0, key: str = "") -> None:
        self.requests: list[Request] = []
        self.aborted = 0  # answers that the client did not wait for
        self.closing = threading.Event()
        self.key = key
        self._failures: Counter[str] = Counter()
        self._arrived = threading.Condition()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.models = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="model-server"
        )

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def wait_requests(self, count: int, timeout_s: float = 30) -> None:
        """Until `count` requests have arrived in all."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived")

    def note(self, request: Request) -> int:
        """Keep the request; returns its number."""
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
            return len(self.requests)

    def note_abort(self) -> None:
        with self._arrived:
            self.aborted += 1

    def should_fail(self, prompt: str, times: int) -> bool:
        with self._arrived:
            self._failures[prompt] += 1
            return self._failures[prompt] <= times


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    models: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that goes is no news
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http
    number = 0
    model = MODEL

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            self._answer_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        else:
            self._refuse(404, f"no such path {self.path}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        models = self.server.models
        if not self.path.endswith("/chat/completions"):
            return self._refuse(404, f"no such path {self.path}")
        if models.key and self.headers.get("authorization") != f"Bearer {models.key}":
            return self._refuse(401, "Incorrect API key provided", code="invalid_api_key")
        request = _read_request(body, {k.lower(): v for k, v in self.headers.items()})
        self.number = models.note(request)
        self.model = body.get("model", MODEL)
        try:
            self._complete(request)
        except ConnectionError:
            models.note_abort()
            self.close_connection = True

    def _answer_json(self, status: int, value: object, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, message: str | None = None, code: str | None = None) -> None:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        text = message or _ERRORS.get(status, f"error {status}")
        error = {"message": text, "type": kind, "code": code or f"e{status}"}
        headers = {"retry_after": "1"} if status == 429 else {}
        self._answer_json(status, {"error": error}, **headers)

    # -- what the prompt asks for -----------------------------------------------------------

    def _complete(self, request: Request) -> None:
        prompt = request.prompt
        usage = _count_tokens(request)
        if "<conversation>" in prompt:
            return self._stream(["## Goal\n", "Summary ", "of the conversation."], usage)
        if failure := _find_failure(prompt):
            status, message, times = failure
            if self.server.models.should_fail(prompt, times):
                return self._refuse(status, message)
        results = [m for m in request.answers if m.get("role") == "tool"]
        rounds = sum(bool(m.get("tool_calls")) for m in request.answers)
        thoughts: list[str] = []
        if (found := re.search(r"\bTHINK(?: (\d+))?", prompt)) and not results:
            thoughts = [f"thought {i}; " for i in range(int(found[1] or 6))]
        loop = re.search(r"\bLOOP (\d+)\b", prompt)
        calls = _find_calls(prompt)
        if calls and rounds < (int(loop[1]) if loop else 1):
            return self._call_tools(calls, thoughts, usage, rounds)
        if "HANG" in prompt:
            return self._hang()
        if found := re.search(r"\bDROP(?: (\d+))?", prompt):
            return self._drop(int(found[1] or 3))
        if found := re.search(r"\bSLOW(?: (\d+))?(?: (\d+))?", prompt):
            words = [f"word{i} " for i in range(int(found[1] or 40))]
            return self._stream(words, usage, thoughts, pause_s=int(found[2] or 100) / 1000)
        if found := re.search(r"\bBIG (\d+)", prompt):
            pieces = [f"delta {i:06d} 0123456\n" for i in range(int(found[1]))]
            return self._stream(pieces, usage, thoughts)
        if found := re.search(r"\bBYTES (\d+)", prompt):
            return self._stream(["x" * int(found[1])], usage, thoughts)
        if found := re.search(r'\bSAY ("(?:[^"\\]|\\.)*")', prompt):
            text = str(json.loads(found[1]))
            third = max(1, len(text) // 3)
            pieces = [text[:third], text[third : 2 * third], text[2 * third :]]
            return self._stream(pieces, usage, thoughts)
        if results:
            sizes = ", ".join(str(len(_text(result.get("content")))) for result in results)
            return self._stream([f"Tool results: {len(results)} ", f"({sizes} chars)."], usage)
        if "ECHO" in prompt:
            pieces = ["You said: ", prompt, f" [images: {request.images}]"]
            return self._stream(pieces, usage, thoughts)
        reason = "length" if "LENGTH" in prompt else "stop"
        greeting = ["Hello", " from", " the", " **scripted**", " model", "."]
        self._stream(greeting, usage, thoughts, pause_s=_PACE_S, reason=reason)

    def _stream(
        self,
        pieces: Iterable[str],
        usage: dict[str, Any],
        thoughts: Sequence[str] = (),
        *,
        pause_s: float = 0.0,
        reason: str = "stop",
    ) -> None:
        self._open_stream()
        self._think(thoughts)
        for piece in pieces:
            self._delta({"content": piece})
            if pause_s:
                self._pause(pause_s)
        self._close_stream(reason, usage)

    def _call_tools(
        self,
        calls: Sequence[tuple[str, str]],
        thoughts: Sequence[str],
        usage: dict[str, Any],
        rounds: int,
    ) -> None:
        self._open_stream()
        self._think(thoughts)
        self._delta({"content": f"I will run {len(calls)} tool(s)."})
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": ""}
            identity = {"id": f"call_{self.number}_{rounds}_{index}", "type": "function"}
            self._delta({"tool_calls": [{"index": index, **identity, "function": function}]})
            half = max(1, len(arguments) // 2)
            for piece in filter(None, (arguments[:half], arguments[half:])):
                grown = {"index": index, "function": {"arguments": piece}}
                self._delta({"tool_calls": [grown]})
        self._close_stream("tool_calls", usage)

    def _hang(self) -> None:
        self._open_stream()
        while not self.server.models.closing.wait(0.1):
            self._chunk(b": still here\n\n")  # fails once the client has gone

    def _drop(self, pieces: int) -> None:
        self._open_stream()
        for index in range(pieces):
            self._delta({"content": f"part{index} "})
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _think(self, thoughts: Sequence[str]) -> None:
        for thought in thoughts:
            self._delta({"reasoning_content": thought})
            self._pause(_PACE_S)

    def _pause(self, seconds: float) -> None:
        self.server.models.closing.wait(seconds)

    # -- server-sent events -----------------------------------------------------------------

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._delta({"role": "assistant", "content": ""})

    def _close_stream(self, reason: str, usage: dict[str, Any]) -> None:
        self._event([{"index": 0, "delta": {}, "finish_reason": reason}])
        self._event([], usage=usage)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _delta(self, delta: dict[str, Any]) -> None:
        self._event([{"index": 0, "delta": delta, "finish_reason": None}])

    def _event(self, choices: list[dict[str, Any]], **more: object) -> None:
        about = {"id": f"chatcmpl-{self.number}", "object": "chat.completion.chunk"}
        event = {**about, "created": 1_700_000_000, "model": self.model, "choices": choices, **more}
        self._chunk(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")


def _count_tokens(request: Request) -> dict[str, Any]:
    asked = 100 + sum(len(_text(m.get("content"))) for m in request.messages) // 4
    said = 20
    found = re.search(r"\bUSAGE (\d+) (\d+)", request.prompt)
    if found and "<conversation>" not in request.prompt:
        asked, said = int(found[1]), int(found[2])
    counts = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return {**counts, "prompt_tokens_details": {"cached_tokens": 10}}


def _find_failure(prompt: str) -> tuple[int, str | None, int] | None:
    """The status, the message and how often, if the prompt wants an HTTP error."""
    if found := re.search(r"\bFAILMSG (\d{3}) (.+)", prompt):
        return int(found[1]), found[2], 1
    if found := re.search(r"\bFAIL (\d{3})(?: (\d+))?", prompt):
        return int(found[1]), None, int(found[2] or 1)
    return None


def _find_calls(prompt: str) -> list[tuple[str, str]]:
    found = re.finditer(r"\b(BAD)?CALL (\w+) (.*)$", prompt, re.MULTILINE)
    return [(m[2], m[3].strip()) for m in found if m[1] or m[3].lstrip().startswith("{")]


def main() -> None:
    """Serve until Ctrl-C, for trying a client by hand."""
    options = argparse.ArgumentParser(description="A scripted model server on loopback")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--key", default="")
    chosen = options.parse_args()
    with ModelServer(chosen.port, chosen.key) as models:
        print(models.url, flush=True)  # noqa: T201 - this is the command line's answer
        threading.Event().wait()


if __name__ == "__main__":
    main()

"""Speaks the bare protocol: asked anything, it runs tools that print as many megabytes as it says.

What a tool has printed so far is sent again with each update, as pi does, so a few loud tools make
hundreds of megabytes; between them comes the text of an answer.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_CHUNK = 100_000
_UPDATES = 20


def send(fields: dict[str, Any]) -> int:
    data = json.dumps(fields).encode() + b"\n"
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
    return len(data)


def update(event: dict[str, Any]) -> int:
    return send({"type": "message_update", "assistantMessageEvent": event})


def say(text: str) -> int:
    message: dict[str, Any] = {"role": "assistant", "content": []}
    sent = send({"type": "message_start", "message": message})
    sent += update({"type": "text_start", "contentIndex": 0})
    words = [word + " " for word in text.split()]
    sent += sum(update({"type": "text_delta", "contentIndex": 0, "delta": w}) for w in words)
    content = [{"type": "text", "text": text}]
    return sent + send({"type": "message_end", "message": {**message, "content": content}})


def run_tool(number: int) -> int:
    call = {"toolCallId": f"call{number}", "toolName": "bash", "args": {"command": "make"}}
    sent = send({"type": "tool_execution_start", **call})
    output = ""
    for _ in range(_UPDATES):
        output += "x" * (_CHUNK - 1) + "\n"
        result = {"content": [{"type": "text", "text": output[-_CHUNK:]}]}
        sent += send({"type": "tool_execution_update", **call, "partialResult": result})
    return sent + send({"type": "tool_execution_end", **call, "result": result, "isError": False})


def talk(megabytes: int) -> None:
    send({"type": "agent_start"})
    sent = number = 0
    while sent < megabytes * 1_000_000:
        number += 1
        sent += run_tool(number) + say("and so it goes on, word by word, " * 20)
    send({"type": "agent_end", "messages": []})


def main() -> None:
    send({"type": "runner_ready"})
    for line in sys.stdin:
        command = json.loads(line)
        kind = command.get("type")
        if kind is None or kind.startswith(("ui_rpc", "piweb_")):
            continue
        data: dict[str, Any] = {"commands": []} if kind == "get_commands" else {}
        response = {"type": "response", "command": kind, "success": True, "data": data}
        send({"id": command.get("id"), **response})
        if kind == "prompt":
            talk(int(command["message"]))


if __name__ == "__main__":
    main()

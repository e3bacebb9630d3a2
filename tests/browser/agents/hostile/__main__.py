"""An agent on the bare protocol that says the corpus in every place where a view shows a text.

The prompt `play` gets it as messages, tools, notices and questions; any command fails with it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tests.browser.agents.hostile.corpus import PAYLOADS

ALL = "\n\n".join(PAYLOADS)


def send(frame: dict[str, Any]) -> None:
    data = json.dumps(frame).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def declare() -> None:
    schema = {
        "type": "object",
        "properties": {
            payload: {
                "title": payload,
                "description": payload,
                "type": "string",
                "default": payload,
            }
            for payload in PAYLOADS
        }
        | {"choice": {"title": ALL, "enum": list(PAYLOADS)}},
    }
    commands = [
        {"name": "fail", "title": ALL, "description": ALL},
        {"name": "form", "description": ALL, "args": schema},
        {"name": "sure", "confirm": ALL},
        *({"name": payload, "title": payload} for payload in PAYLOADS),
    ]
    send({"type": "piweb_surface", "domain": "demo", "title": ALL, "commands": commands})
    value = {
        **{payload: payload for payload in PAYLOADS},
        "list": list(PAYLOADS),
        "nested": [{payload: {payload: [payload]}} for payload in PAYLOADS],
        "long": ALL * 3,
    }
    send({"type": "piweb_state", "key": "surface:demo", "rev": 0, "value": value})


def update(event: dict[str, Any]) -> None:
    send({"type": "message_update", "assistantMessageEvent": event})


def say(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """One assistant message; texts come in three pieces, as from a model."""
    send({"type": "message_start", "message": {"role": "assistant", "content": []}})
    for index, block in enumerate(blocks):
        kind = block["type"]
        if kind == "toolCall":
            head = {"contentIndex": index, "id": block["id"], "toolName": block["name"]}
            update({"type": "toolcall_start", **head})
            arguments = json.dumps(block["arguments"])
            update({"type": "toolcall_delta", "contentIndex": index, "delta": arguments})
            update({"type": "toolcall_end", "contentIndex": index, "toolCall": block})
            continue
        text = block[kind]
        update({"type": f"{kind}_start", "contentIndex": index})
        third = max(1, len(text) // 3)
        for start in range(0, len(text), third):
            piece = text[start : start + third]
            update({"type": f"{kind}_delta", "contentIndex": index, "delta": piece})
        update({"type": f"{kind}_end", "contentIndex": index, "content": text})
    message = {"role": "assistant", "content": blocks, "stopReason": "stop", "model": ALL}
    send({"type": "message_end", "message": message})
    return message


def play() -> None:
    send({"type": "agent_start"})
    user = {"role": "user", "content": [{"type": "text", "text": ALL}]}
    send({"type": "message_start", "message": user})
    send({"type": "message_end", "message": user})
    for payload in PAYLOADS:
        say([{"type": "thinking", "thinking": payload}, {"type": "text", "text": payload}])
    say([{"type": "thinking", "thinking": ALL}, {"type": "text", "text": ALL}])
    for number, payload in enumerate(PAYLOADS):
        call = {"toolCallId": f"{number} {payload}", "toolName": payload}
        arguments = {payload: payload, "path": f"/tmp/{payload}.py"}
        block = {"type": "toolCall", "id": call["toolCallId"], "name": payload}
        say([{**block, "arguments": arguments}])
        send({"type": "tool_execution_start", **call, "args": arguments})
        result = {
            "content": [
                {"type": "text", "text": payload},
                {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2ZyBvbmxvYWQ9ImEiLz4="},
                {"type": "image", "mimeType": f'image/png" {payload}', "data": payload},
                {"type": "image", "mimeType": "image/png", "data": f'x" {payload}'},
            ],
            "details": {"diff": payload, "path": payload},
        }
        send({"type": "tool_execution_update", **call, "args": arguments, "partialResult": result})
        end = {"result": result, "isError": number % 2 == 0}
        send({"type": "tool_execution_end", **call, **end})
    send({"type": "queue_update", "steering": list(PAYLOADS), "followUp": list(PAYLOADS)})
    send({"type": "extension_error", "extensionPath": ALL, "event": ALL, "error": ALL})
    send(
        {"type": "message_start", "message": {"role": "custom", "customType": ALL, "content": ALL}}
    )
    send({"type": "message_end", "message": {"role": "custom", "customType": ALL, "content": ALL}})
    last = {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": ALL}
    send({"type": "message_start", "message": last})
    send({"type": "message_end", "message": last})
    send({"type": "turn_end", "message": last, "toolResults": []})
    send({"type": "agent_end", "messages": [], "willRetry": False})
    send({"type": "agent_settled", "aborted": False})
    # After the run: whatever is still asked at its end is cancelled.
    for method, fields in (
        ("notify", {"message": ALL, "notifyType": "error"}),
        ("setStatus", {"statusKey": ALL, "statusText": ALL}),
        ("setWidget", {"widgetKey": ALL, "widgetLines": list(PAYLOADS)}),
        ("setTitle", {"title": ALL}),
        ("set_editor_text", {"text": ALL}),
        ("select", {"title": ALL, "options": list(PAYLOADS)}),
        ("confirm", {"title": ALL, "message": ALL}),
        ("input", {"title": ALL, "placeholder": ALL}),
        ("editor", {"title": ALL, "prefill": ALL}),
        (PAYLOADS[0], {"title": ALL}),
    ):
        send({"type": "extension_ui_request", "id": f"{method} {ALL}", "method": method, **fields})


def main() -> None:
    os.write(2, ALL.encode() + b"\n")
    declare()
    send({"type": "runner_ready"})
    for raw in sys.stdin.buffer:
        line = json.loads(raw)
        head = {"type": "response", "command": line["type"], "id": line.get("id")}
        match line["type"]:
            case "ui_rpc":
                request = line["request"]
                payload = request["payload"]
                error = {"code": "hostile", "message": ALL}
                result = {
                    "domain": "demo",
                    "action": payload["action"],
                    "ok": False,
                    "error": error,
                }
                response = {
                    "correlationId": request["correlationId"],
                    "ok": False,
                    "result": result,
                }
                send({"type": "ui_rpc_response", "response": response})
            case "get_state":
                data = {"model": {"id": ALL, "provider": ALL}, "messageCount": 0}
                send({**head, "success": True, "data": data})
            case "prompt" if line["message"] == "play":
                send({**head, "success": True, "data": {"disposition": "started"}})
                play()
            case "get_commands":
                send({**head, "success": True, "data": {"commands": []}})
            case kind if "response" not in kind and "cancel" not in kind:
                send({**head, "success": False, "error": ALL})


main()

"""An agent written on the bare protocol, without our runner: one surface `demo`, shared keys, chat.

It knows the commands that host tests need: increment, echo, fail, hold (answers on release), crash,
noise (bad lines), half (the other half of the answer comes with rest), skip (a rev gap), and an RPC
of a few words.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

state: dict[str, Any] = {"count": 0}
revs: dict[str, int] = {}
held: list[str] = []
halves: list[bytes] = []
running = False


def send(frame: dict[str, Any]) -> None:
    os.write(1, json.dumps(frame).encode() + b"\n")


def push(key: str = "surface:demo", value: Any = ..., **more: Any) -> None:
    revs[key] = rev = revs.get(key, -1) + 1
    frame = {"type": "piweb_state", "key": key, "rev": rev, **more}
    if not more.get("deleted"):
        frame["value"] = state if value is ... else value
    send(frame)


def answer(correlation_id: str, action: str, data: Any = None, error: Any = None) -> None:
    send(result_of(correlation_id, action, data, error))


def result_of(
    correlation_id: str, action: str, data: Any = None, error: Any = None
) -> dict[str, Any]:
    result = {"domain": "demo", "action": action, "ok": error is None}
    result |= {"data": data} if error is None else {"error": error}
    response = {"correlationId": correlation_id, "ok": error is None, "result": result}
    return {"type": "ui_rpc_response", "response": response}


def command(request: dict[str, Any]) -> None:
    correlation_id, payload = request["correlationId"], request["payload"]
    action, args = payload["action"], payload.get("args") or {}
    match action:
        case "increment":
            state["count"] += args.get("by", 1)
            push()
            answer(correlation_id, action, {"count": state["count"]})
        case "echo":
            answer(correlation_id, action, {"args": args, "actor": payload.get("actor")})
        case "fail":
            answer(correlation_id, action, error={"code": "full", "message": "no room", "room": 0})
        case "hold":
            held.append(correlation_id)
            if args.get("started"):
                send({"type": "piweb_command_started", "correlationId": correlation_id})
            state["held"] = len(held)
            push()
        case "release":
            for one in held:
                answer(one, "hold", "released")
            answer(correlation_id, action, len(held))
            held.clear()
        case "crash":
            print("boom", file=sys.stderr, flush=True)
            os._exit(7)
        case "noise":
            os.write(1, args["line"].encode("latin-1") + b"\n")
            answer(correlation_id, action)
        case "huge":
            left = memoryview(b"x" * args["size"] + b"\n")
            while left:
                left = left[os.write(1, left) :]
            answer(correlation_id, action)
        case "half":
            line = json.dumps(result_of(correlation_id, action, "whole")).encode() + b"\n"
            halves.append(line[40:])
            os.write(1, line[:40])
        case "rest":
            os.write(1, halves.pop())
            answer(correlation_id, action)
        case "skip":
            revs["surface:demo"] += 5
            push()
            answer(correlation_id, action)
        case "again":
            revs["surface:demo"] -= 1
            push(value={"count": "old"})
            answer(correlation_id, action)
        case "ask":
            send(
                {
                    "type": "extension_ui_request",
                    "id": args["id"],
                    "method": "confirm",
                    "title": "Sure?",
                    "message": "",
                    **({"timeout": args["timeout"]} if "timeout" in args else {}),
                }
            )
            answer(correlation_id, action)
        case _:
            error = {"code": "unknown_action", "message": f"no command {action!r}"}
            answer(correlation_id, action, error=error)


def rpc(line: dict[str, Any]) -> None:
    global running
    kind = line["type"]
    if kind == "prompt" and running and "streamingBehavior" in line:
        kind = "steer"
    head = {"type": "response", "command": line["type"], "id": line.get("id")}
    match kind:
        case "get_state":
            model = {"id": "m1", "provider": "fake"}
            data = {"model": model, "thinkingLevel": "low", "messageCount": 0}
            send({**head, "success": True, "data": data})
        case "get_commands":
            entry = {"name": "surface:demo", "source": "extension"}
            send({**head, "success": True, "data": {"commands": [entry]}})
        case "prompt" if line["message"] == "refuse":
            send({**head, "success": False, "error": "no model"})
        case "prompt":
            send({**head, "success": True, "data": {"disposition": "started"}})
            send({"type": "agent_start"})
            user = {"role": "user", "content": [{"type": "text", "text": line["message"]}]}
            send({"type": "message_start", "message": user})
            send({"type": "message_end", "message": user})
            if line["message"] == "die":
                os._exit(3)
            running = True
            if line["message"] != "wait":
                finish(f"You said {line['message']}.", False)
        case "steer":
            send({"type": "queue_update", "steering": [line["message"]], "followUp": []})
            send({**head, "success": True, "data": {"disposition": "queued"}})
        case "clear_queue":
            send({"type": "queue_update", "steering": [], "followUp": []})
            send({**head, "success": True, "data": {"steering": [], "followUp": []}})
        case "abort":
            finish("", True)
            send({**head, "success": True})
        case _:
            send({**head, "success": False, "error": f"Unknown command: {kind}"})


def finish(text: str, aborted: bool) -> None:
    global running
    running = False
    content = [{"type": "text", "text": text}] if text else []
    message = {"role": "assistant", "content": content, "usage": {"input": 3, "output": 5}}
    send({"type": "message_start", "message": {**message, "content": []}})
    if text:
        event = {"type": "text_delta", "contentIndex": 0, "delta": text}
        send({"type": "message_update", "assistantMessageEvent": event})
    message["stopReason"] = "aborted" if aborted else "stop"
    send({"type": "message_end", "message": message})
    send({"type": "turn_end", "message": message, "toolResults": []})
    send({"type": "agent_end", "messages": [], "willRetry": False})
    send({"type": "agent_settled", "aborted": aborted})


def main() -> None:
    if "--declare" in sys.argv:
        send({"type": "piweb_surface", "domain": "demo", "commands": [{"name": "increment"}]})
    push()
    if "--silent" not in sys.argv:
        send({"type": "runner_ready"})
    for raw in sys.stdin.buffer:
        line = json.loads(raw)
        match line["type"]:
            case "ui_rpc":
                command(line["request"])
            case "piweb_state_set":
                push(line["key"], line.get("value"))
            case "piweb_state_delete":
                push(line["key"], deleted=True)
            case "piweb_state_get":
                for key, rev in revs.items():
                    send({"type": "piweb_state", "key": key, "rev": rev, "value": state})
                push("resyncs", revs.get("resyncs", -1) + 1)
            case "piweb_command_cancel" if line["correlationId"] in held:
                held.remove(line["correlationId"])
                error = {"code": "cancelled", "message": "cancelled"}
                answer(line["correlationId"], "hold", error=error)
            case "extension_ui_response":
                push("answer", line)
            case "piweb_command_cancel":
                pass
            case _ if "--silent" not in sys.argv:
                rpc(line)


main()

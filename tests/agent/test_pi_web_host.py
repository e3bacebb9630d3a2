"""Our agents driven by the very lines that pi-web's host sent to its own, and compared with those.

The agents here are pi-web's example agents, written again in Python. What may differ is said in
each test: it is what DESIGN corrects, and the "Unknown command" noise that pi's reader adds to
every line of pi-web's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent.child import Child
from tests.agent.conftest import Launch

RECORDED = Path(__file__).parent.parent / "wire" / "recorded" / "pi-web"

SURFACE_DEMO = """
    from piweb_jupyter.agent import create_surface, define_agent

    def increment(args, ctx):
        ctx.set_state(lambda s: {**s, "count": s["count"] + 1})
        return {"count": ctx.get()["count"]}

    def echo(args, ctx):
        text = (args or {}).get("text", "")
        state = ctx.set_state(lambda s: {**s, "log": [*s["log"], text]})
        return {"echoed": text, "size": len(state["log"])}

    demo = create_surface(
        "demo", {"count": 0, "log": []}, commands={"increment": increment, "echo": echo}
    )
    agent = define_agent(surfaces=[demo])
"""

ROUTES_DEMO = """
    from piweb_jupyter.agent import define_agent

    agent = define_agent()

    @agent.route("ping", description="探活:返回 { pong: true }")
    def ping(request):
        return {"pong": True}

    @agent.route("echo", methods=["GET", "POST"], description="回显 method / query / body")
    def echo(request):
        return {"method": request.method, "query": request.query, "body": request.body}

    @agent.route("whoami", description="返回 agent 身份与声明的路由清单(定值)")
    def whoami(request):
        return {"agent": "agent-routes-demo", "routes": [*agent.routes]}
"""


def replay(child: Child, name: str) -> tuple[list[Any], list[Any]]:
    """Send what the host sent; return what pi-web's agent said, and what ours did."""
    records = [
        json.loads(line)
        for line in (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
        if line
    ]
    child.ready()
    for record in records:
        if record["dir"] != "in":
            continue
        line = record["line"]
        if "$raw" in line:
            child.send(line["$raw"].encode())
        elif not any(key.startswith("$") for key in line):
            child.send(line)
        elif line.get("$note", "").startswith("ui_rpc increment cid=split"):
            split = json.dumps(split_click()) + "\n"
            for start in range(0, len(split), 7):
                child.send(split[start : start + 7].encode())
    assert child.close() == 0
    child.wait_end()
    theirs = [r["line"] for r in records if r["dir"] == "out" and isinstance(r["line"], dict)]
    return theirs, child.lines


def split_click() -> dict[str, Any]:
    return {
        "type": "ui_rpc",
        "request": {
            "correlationId": "split",
            "point": "command",
            "action": "execute",
            "payload": {"domain": "demo", "action": "increment"},
            "protocolVersion": "0.1.0",
        },
    }


def states(lines: list[Any], key: str | None = None) -> list[Any]:
    """The state frames without `cause`, which is ours."""
    return [
        {name: value for name, value in line.items() if name != "cause"}
        for line in lines
        if line["type"] == "piweb_state" and key in (None, line["key"])
    ]


def answers(lines: list[Any]) -> list[Any]:
    """The answers to commands. Of an error only the code counts: pi-web speaks Chinese."""
    found = []
    for line in lines:
        if line["type"] == "ui_rpc_response":
            response = json.loads(json.dumps(line["response"]))
            if not response["ok"]:
                response["result"]["error"] = response["result"]["error"]["code"]
            found.append(response)
    return found


def test_the_surface_demo_answers_as_pi_webs(launch: Launch) -> None:
    theirs, ours = replay(launch(SURFACE_DEMO), "surface-demo-agent-basic")
    assert states(ours) == states(theirs)
    assert answers(ours) == answers(theirs)


def test_malformed_lines_are_answered_as_pi_web_and_pi_answer_them(launch: Launch) -> None:
    theirs, ours = replay(launch(SURFACE_DEMO), "surface-demo-agent-malformed")
    assert states(ours) == states(theirs)
    # Corrected: names are looked up in the author's table only.
    inherited = {"v-prototype-action", "v-constructor-action", "v-__proto__-action"}

    def of_table(lines: list[Any]) -> list[Any]:
        return [a for a in answers(lines) if a["correlationId"] not in inherited]

    assert of_table(ours) == of_table(theirs)
    assert [a["result"]["error"] for a in answers(ours) if a["correlationId"] in inherited] == [
        "unknown_action"
    ] * 3

    def refusals(lines: list[Any]) -> list[Any]:
        found = []
        for line in lines:
            if line["type"] == "response" and not line["success"]:
                text = line["error"]
                if line.get("command") == "parse":
                    # Empty lines are no lines, and each parser has words of its own.
                    if "Unexpected end of JSON input" in text:
                        continue
                    text = text.partition(":")[0]
                if not text.startswith("Unknown command: ui_rpc"):
                    found.append((line.get("id"), line.get("command"), text))
        return found

    blank = [(None, "parse", "Failed to parse command")]
    assert refusals(ours) == blank + blank + refusals(theirs)[1:]
    asked = [line.get("id") for line in theirs if line["type"] == "response" and line["success"]]
    got = [line.get("id") for line in ours if line["type"] == "response" and line["success"]]
    assert got == asked


def test_write_backs_are_echoed_as_pi_web_echoes_them(launch: Launch) -> None:
    theirs, ours = replay(launch(SURFACE_DEMO), "surface-demo-agent-writeback")
    keys = {frame["key"] for frame in states(theirs)}
    for key in keys - {"surface:demo"}:
        assert states(ours, key) == states(theirs, key)
    # Corrected: nobody but the surface writes a surface.
    forged = {"count": 999, "log": ["forged by host"]}
    kept = [
        frame["value"]
        for frame in states(theirs, "surface:demo")
        if "value" in frame and frame["value"] != forged
    ]
    assert [frame["value"] for frame in states(ours, "surface:demo")] == kept
    assert [frame["rev"] for frame in states(ours, "surface:demo")] == list(range(len(kept)))
    assert answers(ours) == answers(theirs)


@pytest.mark.parametrize("type_", ["agent_routes", "piweb_agent_route_result"])
def test_routes_are_declared_and_answered_as_pi_webs(launch: Launch, type_: str) -> None:
    theirs, ours = replay(launch(ROUTES_DEMO), "agent-routes-demo-routes")

    def of_type(lines: list[Any]) -> list[Any]:
        found = [json.loads(json.dumps(line)) for line in lines if line["type"] == type_]
        for line in found:
            if "error" in line:
                del line["error"]["message"]
        return sorted(found, key=lambda line: str(line.get("id")))

    assert of_type(ours) == of_type(theirs)


def test_early_lines_and_a_null_are_no_harm(launch: Launch) -> None:
    child = launch(SURFACE_DEMO)
    child.send(b"null\n", {"id": "a", "type": "get_state"})
    answer = child.wait(lambda line: line["type"] == "response" and line.get("id") == "a")
    assert answer["success"] is True
    assert child.run("increment") == {"count": 1}

"""A session whose agent plays a recording, and a host that says what the recorded one said."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from piweb_jupyter.errors import PiwebError, RequestError
from piweb_jupyter.host.command import Command
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.sources.spec import Kind, LaunchSpec
from tests.agents import player
from tests.replay.recordings import RECORDED

__all__ = ["Driver", "launch"]

PATIENCE = 30.0


def launch(name: str, chunking: str) -> LaunchSpec:
    """An agent that plays the recording `name` and cuts its stdout in that way."""
    program = Path(player.__file__)
    recording = RECORDED / f"{name}.jsonl"
    argv = (sys.executable, str(program), str(recording), chunking)
    kind: Kind = "pi-web" if name.startswith("pi-web/") else "pi"
    return LaunchSpec(kind, "player", program, argv, program.parent, "player")


class Driver:
    """Says in a session what was said in a recording, when the agent has come so far.

    It uses what a user would use; what our host would never send is written to the pipe as it is.
    """

    def __init__(self, session: AgentSession, name: str) -> None:
        self.session = session
        self.entries = player.read(RECORDED / f"{name}.jsonl")
        self.granted = {
            json.dumps(line["id"])
            for kind, line in self.entries
            if kind == "out" and isinstance(line, dict) and line.get("success") and "id" in line
        }
        self.said = [line for kind, line in self.entries if kind == "in"]
        ends = [line for kind, line in self.entries if kind == "meta"]
        self.exit_code: int = next(
            (
                line.get("exit", line.get("rc"))
                for line in reversed(ends)
                if {"exit", "rc"} & {*line}
            ),
            0,
        )
        self.commands: dict[str, Command] = {}  # by the recorded id
        self._reached = threading.Condition()
        self._pool = ThreadPoolExecutor(16, "driver")
        session.news.watch("player", self._note)

    def _note(self) -> None:
        with self._reached:
            self._reached.notify_all()

    def _come_to(self, count: int) -> None:
        """Wait until the agent waits for the `count`th time, and all before it was taken in."""

        def position() -> int:
            held = self.session.mirror.get("player")
            return 0 if held is None else int(held.value())

        with self._reached:
            arrived = self._reached.wait_for(lambda: position() >= count, PATIENCE)
        assert arrived, f"stuck at line {position()} of {count}: {self.session.log.tail()}"

    def play(self) -> None:
        """Say everything; returns when the agent has nothing more to tell."""
        for count, line in enumerate(self.said, 1):
            self._come_to(count)
            self._say(line)
        self._come_to(len(self.said) + 1)

    def finish(self) -> None:
        """Let the agent end as the recorded one did."""
        ended = threading.Event()
        self.session.subscribe(lambda news: ended.set() if news.value == "ended" else None)
        self.session.write(b'{"type":"player_exit"}\n')
        assert ended.wait(PATIENCE)
        self._pool.shutdown()

    def _say(self, line: Any) -> None:
        raw = line if isinstance(line, str) else None
        if raw is not None:
            line = player.decoded(raw.encode())
            if not isinstance(line, dict) or not self._is_granted(line):
                return self.session.write(raw.encode())
        fields = {key: value for key, value in line.items() if key not in ("id", "type", "_cut")}
        done = self._is_granted(line)
        match line["type"]:
            case "prompt" if done and fields.keys() <= {"message", "images"}:
                images = tuple(fields.get("images", ()))
                try:
                    self.session.prompt(fields.get("message", "…"), images=images)
                except RequestError:  # an extension's command may come while a run goes on
                    self._request("prompt", fields)
            case "steer" if done and fields.keys() == {"message"}:
                self.session.steer(fields["message"])
            case "follow_up" if done and fields.keys() == {"message"}:
                self.session.follow_up(fields["message"])
            case "abort":
                self.session.abort()
            case "piweb_clear_queue":
                self._pool.submit(self.session.clear_queue)
            case "extension_ui_response" if self._is_open(line["id"]):
                value = fields.get("value", fields.get("confirmed"))
                try:
                    self.session.answer(line["id"], value)
                except ValueError:  # the recorded host tried what ours refuses
                    self.session.answer(line["id"], None)
            case "ui_rpc" if self._is_sound(line):
                payload = line["request"]["payload"]
                self.commands[line["request"]["correlationId"]] = self.session.surface(
                    payload["domain"]
                ).submit(payload["action"], payload.get("args"), actor="user")
            case "piweb_state_set" | "piweb_state_delete" as kind:
                try:
                    if kind == "piweb_state_set":
                        self.session.set_state(line["key"], line["value"])
                    else:
                        self.session.delete_state(line["key"])
                except (PiwebError, KeyError, AttributeError):
                    self._write(line)
            case "piweb_agent_route_request" | "extension_ui_response" | "ui_rpc":
                self._write(line)
            case kind:
                self._request(kind, fields)

    def _is_granted(self, line: dict[str, Any]) -> bool:
        """Whether the recorded agent did what it was asked, in a form that our host could send."""
        return isinstance(line.get("id"), str) and json.dumps(line["id"]) in self.granted

    def _request(self, command: str, fields: dict[str, Any]) -> None:
        self._pool.submit(self.session.request, command, PATIENCE, **fields)

    def _write(self, line: dict[str, Any]) -> None:
        self.session.write(json.dumps(line).encode() + b"\n")

    def _is_open(self, question: str) -> bool:
        return any(open_.id == question for open_ in self.session.questions.open)

    def _is_sound(self, line: dict[str, Any]) -> bool:
        """Whether our host could have sent this command."""
        request = line.get("request") or {}
        payload = request.get("payload") or {}
        return (
            request.get("point") == "command"
            and request.get("action") == "execute"
            and bool(request.get("correlationId") and request.get("protocolVersion"))
            and payload.get("domain") in self.session.surfaces
            and "name" not in payload
        )

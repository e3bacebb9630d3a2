"""Conversations for tests: with an agent in this process, or with the real runner in its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from piweb_jupyter.agent import Agent, define_agent
from piweb_jupyter.runner.router import Router
from piweb_jupyter.runner.routes import Routes
from piweb_jupyter.runner.rpc import RpcLoop
from piweb_jupyter.runner.runtime import Runtime
from piweb_jupyter.runner.writer import Writer
from piweb_jupyter.wire.json import dumps, loads

# A bound for waits that end by an event; it is reached only by a test that fails.
PATIENCE = 20.0


class Lines:
    """The writer's place: keeps what is written and wakes who waits for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: list[dict[str, Any]] = []

    def put(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        assert b"\n" not in line[:-1]
        with self._changed:
            self._lines.append(loads(line))
            self._changed.notify_all()

    write = put

    def flush(self) -> None:
        pass

    def all(self) -> list[dict[str, Any]]:
        with self._changed:
            return list(self._lines)

    def wait(self, wanted: Callable[[dict[str, Any]], bool], start: int = 0) -> dict[str, Any]:
        """The first line that is wanted, from `start` on; waits until it is there."""
        position = start

        def found() -> dict[str, Any] | None:
            nonlocal position
            while position < len(self._lines):
                line = self._lines[position]
                position += 1
                if wanted(line):
                    return line
            return None

        result: dict[str, Any] | None = None
        with self._changed:

            def ready() -> bool:
                nonlocal result
                result = result or found()
                return result is not None

            if not self._changed.wait_for(ready, PATIENCE):
                raise AssertionError(f"not among the lines: {self.order(start)}")
        assert result is not None
        return result

    def wait_count(self, wanted: Callable[[dict[str, Any]], bool], count: int) -> None:
        """Wait until `count` lines are wanted ones."""
        with self._changed:
            if not self._changed.wait_for(lambda: sum(map(wanted, self._lines)) >= count, PATIENCE):
                raise AssertionError(f"{sum(map(wanted, self._lines))} of {count}")

    def order(self, start: int = 0) -> list[str]:
        return [summary(line) for line in self._lines[start:]]


class Host:
    """What a host does with an agent: sends commands, reads answers. `lines` is all it has read."""

    def __init__(self) -> None:
        self.lines = Lines()
        self._count = 0

    def write(self, line: bytes) -> None:
        raise NotImplementedError

    def send(self, type_: str, **fields: Any) -> str:
        """Send a command; return its id."""
        self._count += 1
        id_ = f"r{self._count}"
        self.write(dumps({"id": id_, "type": type_, **fields}))
        return id_

    def response(self, id_: str) -> dict[str, Any]:
        """The whole answer to a command, waited for."""
        return self.lines.wait(lambda line: line["type"] == "response" and line.get("id") == id_)

    def ask(self, type_: str, **fields: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        return self.response(self.send(type_, **fields))

    def data(self, type_: str, **fields: Any) -> Any:
        """The data of a command that must succeed."""
        response = self.ask(type_, **fields)
        assert response["success"], response
        return response.get("data")

    def error(self, type_: str, **fields: Any) -> str:
        """The error of a command that must be refused."""
        response = self.ask(type_, **fields)
        assert not response["success"], response
        return str(response["error"])

    def wait(self, wanted: str, start: int = 0) -> dict[str, Any]:
        """Wait for a line with this summary."""
        return self.lines.wait(lambda line: summary(line) == wanted, start)

    def prompt(self, message: str, **fields: Any) -> list[dict[str, Any]]:
        """Send a prompt and wait until it is over; the lines from its response on."""
        start = len(self.lines.all())
        self.send("prompt", message=message, **fields)
        self.lines.wait(lambda line: line["type"] == "agent_settled", start)
        return self.lines.all()[start:]

    def answer(self, id_: str, **fields: Any) -> None:
        self.write(dumps({"type": "extension_ui_response", "id": id_, **fields}))


class Talk(Host):
    """An agent in this process: the runner's parts without its reader. Ends its loop when left."""

    def __init__(self, agent: Agent | None = None, **options: Any) -> None:
        super().__init__()
        agent = agent or define_agent(model="stub")
        self.runtime = Runtime(agent, "agent.py", cast(Writer, self.lines))
        self.runtime.surfaces.start()
        self.rpc = RpcLoop(self.runtime, **options)
        self._router = Router(self.runtime, self.rpc, Routes(self.runtime))
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._ended:
            self.end()

    def end(self) -> None:
        """What the runner does at the end of its stdin."""
        self._ended = True
        self.rpc.close()
        assert self.runtime.loop.close(5.0)

    def write(self, line: bytes) -> None:
        self._router.handle(line)


class TalkingChild(Host):
    """An agent in a process of its own: the real runner behind real pipes."""

    def __init__(
        self, agent: Path, *arguments: str, env: dict[str, str | None] | None = None
    ) -> None:
        super().__init__()
        changed = {**os.environ, **(env or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "piweb_jupyter.runner", "--agent", str(agent), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={key: value for key, value in changed.items() if value is not None},
            start_new_session=True,
        )
        self.stderr = b""
        self._readers = [
            threading.Thread(target=self._read_stdout),
            threading.Thread(target=self._read_stderr),
        ]

    def __enter__(self) -> Self:
        for reader in self._readers:
            reader.start()
        self.wait("runner_ready")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            assert self.end() == 0
        finally:
            self.process.kill()
            self.process.wait()
            for reader in self._readers:
                reader.join()
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None
                pipe.close()

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Close its stdin and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr += line


def summary(line: dict[str, Any]) -> str:
    """A line in one word or three: `message_start user`, `text_delta 0`, `response prompt`."""
    kind = line["type"]
    match kind:
        case "message_start" | "message_end":
            return f"{kind} {line['message']['role']}"
        case "message_update":
            event = line["assistantMessageEvent"]
            return f"{event['type']} {event['contentIndex']}"
        case "response":
            return f"response {line.get('command')}"
        case "tool_execution_start" | "tool_execution_update" | "tool_execution_end":
            return f"{kind} {line['toolName']}"
        case "extension_ui_request":
            return f"ui {line['method']}"
    return str(kind)


def order(lines: list[dict[str, Any]]) -> list[str]:
    """The lines' summaries, runs of equal deltas as one: how many there are is a matter of time."""
    found: list[str] = []
    for line in lines:
        text = summary(line)
        if not ("_delta " in text and found and found[-1] == text):
            found.append(text)
    return found


def text_of(lines: list[dict[str, Any]], kind: str = "text_delta") -> str:
    """What was streamed, joined."""
    events = (line["assistantMessageEvent"] for line in lines if line["type"] == "message_update")
    return "".join(event["delta"] for event in events if event["type"] == kind)


def messages(lines: list[dict[str, Any]], role: str) -> Iterator[dict[str, Any]]:
    """The finished messages of one role."""
    for line in lines:
        if line["type"] == "message_end" and line["message"]["role"] == role:
            yield line["message"]

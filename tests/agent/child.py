"""A runner in a process of its own, spoken to line by line as a host speaks to it."""

from __future__ import annotations

import array
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from piweb_jupyter.wire.json import dumps, loads
from piweb_jupyter.wire.lines import LineSplitter

# A bound for waits that end by an event; it is reached only by a test that fails.
PATIENCE = 20.0

COUNTER = """
    from piweb_jupyter.agent import create_surface, define_agent

    demo = create_surface("demo", {"count": 0})

    @demo.command
    def increment(ctx, by: int = 1):
        state = ctx.set_state(lambda s: {"count": s["count"] + by})
        return {"count": state["count"]}

    agent = define_agent(surfaces=[demo])
"""


def ui_rpc(
    correlation_id: str, action: str, args: Any = None, domain: str = "demo", **extra: Any
) -> dict[str, Any]:
    """A command as pi-web's host sends it; `extra` goes into its payload."""
    payload = {"domain": domain, "action": action, **extra}
    if args is not None:
        payload["args"] = args
    return {
        "type": "ui_rpc",
        "request": {
            "correlationId": correlation_id,
            "point": "command",
            "action": "execute",
            "payload": payload,
            "protocolVersion": "0.1.0",
        },
    }


class Child:
    """Runs an agent from its source, or a path; ends it by closing its stdin when left."""

    def __init__(
        self,
        directory: Path,
        source: str | None = None,
        *options: str,
        path: Path | None = None,
        reading: bool = True,
        env: dict[str, str] | None = None,
    ) -> None:
        """`reading=False`: nothing is read of its stdout until `start_reading`."""
        if path is None:
            path = directory / "agent.py"
            path.write_text(textwrap.dedent(source or COUNTER), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "piweb_jupyter.runner", "--agent", str(path), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=directory,
            env=os.environ | (env or {}),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._stdin = self.process.stdin
        self._stdout = self.process.stdout
        self._stderr = self.process.stderr
        self._changed = threading.Condition()
        self._lines: list[Any] = []
        self._said = b""
        self._ended = 0
        self._count = 0
        # What is left of its stdout after the last newline.
        self.unfinished = b""
        self._go = threading.Event()
        self._threads = [
            threading.Thread(target=self._read_lines, name="child-stdout"),
            threading.Thread(target=self._read_stderr, name="child-stderr"),
        ]
        if reading:
            self._go.set()
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._go.set()
        try:
            self.close()
        finally:
            if self.process.poll() is None:
                self.process.kill()
            for thread in self._threads:
                thread.join(PATIENCE)
            self._stdout.close()
            self._stderr.close()
            self.process.wait()

    # ------------------------------------------------------------ to the child

    def send(self, *frames: Any) -> None:
        """Write frames, or raw bytes, in one piece."""
        lines = [frame if isinstance(frame, bytes) else dumps(frame) + b"\n" for frame in frames]
        self._stdin.write(b"".join(lines))

    def command(self, action: str, args: Any = None, domain: str = "demo", **extra: Any) -> str:
        """Send a command; return its correlation id."""
        self._count += 1
        id_ = f"c{self._count}"
        self.send(ui_rpc(id_, action, args, domain, **extra))
        return id_

    def run(self, action: str, args: Any = None, domain: str = "demo", **extra: Any) -> Any:
        """Run a command and wait; its data, or its error object."""
        return self.outcome(self.command(action, args, domain, **extra))

    def start_reading(self) -> None:
        self._go.set()

    def wait_for_full_pipe(self) -> None:
        """Wait until the child is held up by its stdout, which nobody reads."""
        waiting = select.poll()
        waiting.register(self._stdout, select.POLLIN)
        assert waiting.poll(PATIENCE * 1000), "it has written nothing"
        # Lines do not fill the pages that they begin or end in.
        capacity = fcntl.fcntl(self._stdout, fcntl.F_GETPIPE_SZ) - 4 * 4096
        held = array.array("i", [0])
        while held[0] < capacity:
            fcntl.ioctl(self._stdout, termios.FIONREAD, held)

    def close(self) -> int:
        """Close stdin and wait for the end; the exit code."""
        if not self._stdin.closed:
            self._stdin.close()
        return self.process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    # ------------------------------------------------------------ from the child

    @property
    def lines(self) -> list[Any]:
        with self._changed:
            return list(self._lines)

    @property
    def said(self) -> str:
        """Its stderr so far."""
        with self._changed:
            return self._said.decode("utf-8", "replace")

    def wait(self, wanted: Callable[[Any], bool], start: int = 0) -> Any:
        """The first line from `start` on that is wanted; waits until it is there."""
        with self._changed:
            position = start
            while True:
                while position < len(self._lines):
                    if wanted(self._lines[position]):
                        return self._lines[position]
                    position += 1
                assert self._ended < 2, f"it ended: {self._shorten()}"
                assert self._changed.wait(PATIENCE), f"it did not come: {self._shorten()}"

    def wait_said(self, text: str) -> None:
        """Wait until its stderr has the text."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: text.encode() in self._said or self._ended == 2, PATIENCE
            )
            assert found, f"not in {self._said!r}"
            assert text.encode() in self._said, self._said

    def wait_end(self) -> int:
        """Wait until the process and its output have ended; the exit code."""
        code = self.process.wait(PATIENCE)
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended == 2, PATIENCE)
        return code

    def ready(self) -> Self:
        self.wait(lambda line: line["type"] == "runner_ready")
        return self

    def answer(self, correlation_id: str) -> Any:
        """The frame that answers a command."""
        return self.wait(
            lambda line: (
                line["type"] == "ui_rpc_response"
                and line["response"]["correlationId"] == correlation_id
            )
        )

    def outcome(self, correlation_id: str) -> Any:
        """The data of a command's answer, or its error object."""
        result = self.answer(correlation_id)["response"]["result"]
        return result.get("data") if result["ok"] else result["error"]

    def state(self, key: str = "surface:demo", rev: int | None = None) -> Any:
        """The frame with that rev, waited for; or the newest one that has come."""
        if rev is not None:
            return self.wait(lambda line: is_state(line, key) and line["rev"] == rev)
        return next(line for line in reversed(self.lines) if is_state(line, key))

    def states(self, key: str = "surface:demo") -> list[Any]:
        return [line for line in self.lines if is_state(line, key)]

    def barrier(self) -> None:
        """Wait until everything that has been sent was taken by the reader."""
        self._count += 1
        id_ = f"barrier{self._count}"
        self.send({"id": id_, "type": "get_commands"})
        self.wait(lambda line: line["type"] == "response" and line.get("id") == id_)

    def since(self, mark: int) -> Iterator[Any]:
        """The lines from a position on."""
        return iter(self.lines[mark:])

    def _shorten(self) -> str:
        last = "\n".join(str(line)[:200] for line in self._lines[-10:])
        return f"{len(self._lines)} lines, the last\n{last}\nstderr\n{self._said.decode()[-3000:]}"

    def _read_lines(self) -> None:
        self._go.wait()
        splitter = LineSplitter(limit=256 * 1024 * 1024)
        while chunk := self._stdout.read(65536):
            lines = [loads(line) for line in splitter.feed(chunk)]
            with self._changed:
                self._lines += lines
                self._changed.notify_all()
        self.unfinished = splitter.flush() or b""
        self._end()

    def _read_stderr(self) -> None:
        while chunk := self._stderr.read(65536):
            with self._changed:
                self._said += chunk
                self._changed.notify_all()
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._ended += 1
            self._changed.notify_all()


def is_state(line: Any, key: str) -> bool:
    return bool(line["type"] == "piweb_state" and line["key"] == key)

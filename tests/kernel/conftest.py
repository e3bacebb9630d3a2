"""Real ipykernels, driven as a front end without widgets would."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from jupyter_client.manager import KernelManager

from tests.needs import require_kernel

ROOT = Path(__file__).parents[2]

# The oldest that we support and the newest there is.
KERNELS = ("ipykernel-6.31", "ipykernel-7.4")

PATIENCE = 60.0


@dataclass
class Output:
    """What a cell came to: `out` is its stdout, `data` what it displayed, the result last."""

    out: str = ""
    data: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    traceback: str = ""

    @property
    def text(self) -> str:
        """The plain text of the last output."""
        return str(self.data[-1]["text/plain"]) if self.data else ""


Message: TypeAlias = dict[str, Any]


class Kernel:
    """One kernel and its client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(cwd=str(ROOT))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    @property
    def pid(self) -> int:
        provisioner: Any = self.manager.provisioner
        return int(provisioner.pid)

    def start(self, code: str, *, answers: bool = False) -> str:
        """Send a cell; `finish` waits for it. `answers`: the front end lets the kernel ask."""
        return str(self.client.execute(code, allow_stdin=answers))

    def answer(self, text: str) -> str:
        """Wait for the kernel's question, answer it, and return it."""
        question = self.client.get_stdin_msg(timeout=PATIENCE)
        self.client.input(text)
        return str(question["content"]["prompt"])

    def finish(
        self,
        sent: str,
        seen: Callable[[Message], object] | None = None,
        *,
        patience: float = PATIENCE,
    ) -> Output:
        """Everything that the cell puts out until it has ended.

        `seen` is told of each message, also of those that belong to no cell: what a thread of ours
        prints does not, on every ipykernel.
        """
        output = Output()
        cleared = False
        deadline = time.monotonic() + patience
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"the cell has not ended; so far {output}") from None
            if seen is not None:
                seen(message)
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            kind = message["msg_type"]
            if kind == "clear_output":
                cleared = True
                continue
            if kind in ("stream", "display_data", "execute_result", "error") and cleared:
                cleared = False
                output = Output()
            match kind:
                case "stream" if content["name"] == "stdout":
                    output.out += content["text"]
                case "display_data" | "execute_result":
                    output.data.append(content["data"])
                case "error":
                    output.error = content["ename"]
                    output.traceback = "\n".join(content["traceback"])
                case "status" if content["execution_state"] == "idle":
                    return output

    def run(self, code: str) -> Output:
        return self.finish(self.start(code))

    def check(self, code: str, *, patience: float = PATIENCE) -> Output:
        """Run a cell that must succeed."""
        output = self.finish(self.start(code), patience=patience)
        assert not output.error, output.traceback
        return output

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def close(self) -> None:
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        context: Any = self.manager.context
        context.destroy()


@pytest.fixture
def open_kernel() -> Iterator[Callable[[str], Kernel]]:
    """Gives `open_kernel(name)`; every kernel is gone at the end."""
    kernels: list[Kernel] = []

    def open_(name: str) -> Kernel:
        kernels.append(Kernel(require_kernel(name)))
        return kernels[-1]

    yield open_
    for kernel in kernels:
        kernel.close()


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, open_kernel: Callable[[str], Kernel]) -> Kernel:
    """A kernel that has the extension."""
    opened = open_kernel(request.param)
    opened.check("%load_ext piweb_jupyter\nimport piweb_jupyter as piweb")
    return opened

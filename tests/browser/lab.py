"""Drives a real JupyterLab or Notebook 7 in headless Chromium.

    with Server(root) as server, launch_chromium() as chromium:
        write_notebook(root / "a.ipynb", ["1 + 1"])
        page = NotebookPage(chromium.new_context(), server, "a.ipynb")
        page.run(0)
        assert page.text(0) == "2"

Every wait is for something that the page or the server says, and every wait has a limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import nbformat
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    sync_playwright,
)

from tests.needs import require_chromium

App = Literal["lab", "notebook"]

# Without these Chromium tries dozens of outside connections at its start.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TOKEN = "test-token"
START_LIMIT_S = 90.0
STOP_LIMIT_S = 15.0
PAGE_LIMIT_MS = 60_000
ACTION_LIMIT_MS = 20_000

_DO = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const future = kernel.requestExecute({ code, store_history: false, stop_on_error: false });
    let out = '';
    future.onIOPub = ({ header, content }) => {
        if (header.msg_type === 'stream') out += content.text;
    };
    const { content } = await future.done;
    // Of an error the traceback, without its colours.
    const error = content.status === 'ok' ? '' : content.traceback.join('\\n');
    return { out, error: error.replace(/\\u001b\\[[0-9;]*m/g, '') };
}"""
_CURRENT = "window.jupyterapp.shell.currentWidget"

# An idle kernel answers in milliseconds; what has not come by then is lost.
_ECHO_LIMIT_MS = 10_000
_MOST_RELOADS = 2


class Server:
    """One Jupyter server on loopback, with configuration, settings and workspaces of its own."""

    def __init__(
        self,
        root: Path,
        app: App = "lab",
        *,
        home: Path,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.app = app
        self.root = root
        self.home = home
        self.port = _find_free_port()
        self.log = home / "server.log"
        own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_WORKSPACES_DIR")
        variables = {name: str(home / name.lower()) for name in (*own, "JUPYTERLAB_SETTINGS_DIR")}
        _turn_off_news(home / "jupyterlab_settings_dir")
        # The page's own application object is the test's way into the notebook's model.
        if app == "lab":
            exposed = ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url="]
        else:
            exposed = ["--JupyterNotebookApp.expose_app_in_browser=True"]
        command = [
            *(sys.executable, "-m", "jupyterlab" if app == "lab" else "notebook"),
            *("--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={self.port}"),
            *("--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"),
            *(f"--ServerApp.root_dir={root}", *exposed, *options),
        ]
        self._listening = threading.Event()
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **variables, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._reader = threading.Thread(target=self._keep_log, name="jupyter-server-log")
        self._reader.start()

    def _keep_log(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, self.log.open("w", encoding="utf-8") as log:
            for line in lines:
                log.write(line)
                log.flush()
                if " is running at:" in line:
                    self._listening.set()
        self._listening.set()  # or never will be

    def __enter__(self) -> Self:
        self._listening.wait(START_LIMIT_S)
        # It says that it is running a moment before it listens.
        for _ in range(100):
            try:
                self.api("status")
                return self
            except OSError as exc:
                problem = exc
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
                break
        self.close()
        tail = self.log.read_text(encoding="utf-8")[-2000:]
        raise RuntimeError(f"{self.app} does not serve:\n{tail}") from problem

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and, with it, every kernel."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_LIMIT_S)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}{'&' if '?' in path else '?'}token={TOKEN}"

    def api(self, path: str, method: str = "GET", data: object = None) -> Any:
        """One call of the server's REST interface."""
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.url("api/" + path), data=body, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    def end_session(self, name: str) -> None:
        """Shut down the kernel of one notebook and wait until the server has done it."""
        for session in self.api("sessions"):
            if session["path"] == name:
                with contextlib.suppress(OSError):  # gone by itself in the meantime
                    self.api(f"sessions/{session['id']}", "DELETE")


def _turn_off_news(settings: Path) -> None:
    """Lab would ask in every new page, over what the test looks at."""
    file = settings / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    chosen = {"fetchNews": "false", "checkForUpdates": False}
    file.write_text(json.dumps(chosen), encoding="utf-8")


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def launch_chromium() -> Iterator[Browser]:
    """A headless Chromium. While it is open, this thread must run no event loop of its own."""
    path = require_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def write_notebook(path: Path, cells: Sequence[str], kernel: str = "python3") -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel, "language": "python"}
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    nbformat.write(notebook, path)


class NotebookPage:
    """One browser page on one notebook. `console` keeps what the page logged."""

    def __init__(self, context: BrowserContext, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.console: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(ACTION_LIMIT_MS)
        self.page.set_default_navigation_timeout(PAGE_LIMIT_MS)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", self._on_page_error)
        self.open()

    def _on_console(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text[:500]}")

    def _on_page_error(self, error: Error) -> None:
        self.console.append(f"pageerror: {str(error)[:500]}")

    def open(self, *, wait_for_kernel: bool = True) -> None:
        """Load the notebook anew, as typing its address does."""
        lab = self.server.app == "lab"
        path = f"lab/tree/{self.name}?reset" if lab else f"notebooks/{self.name}"
        self.page.goto(self.server.url(path), wait_until="domcontentloaded")
        self.wait_ready(wait_for_kernel=wait_for_kernel)

    def reload(self, *, wait_for_kernel: bool = True) -> None:
        """Press the browser's reload button."""
        self.page.reload(wait_until="domcontentloaded")
        self.wait_ready(wait_for_kernel=wait_for_kernel)

    def wait_ready(self, *, wait_for_kernel: bool = True) -> None:
        self._wait_loaded(wait_for_kernel=wait_for_kernel)
        for _ in range(_MOST_RELOADS if wait_for_kernel else 0):
            if self._has_echo():
                return
            self.page.reload(wait_until="domcontentloaded")
            self._wait_loaded(wait_for_kernel=True)
        if wait_for_kernel and not self._has_echo():
            raise AssertionError("the kernel is idle and answers nothing")

    def _wait_loaded(self, *, wait_for_kernel: bool) -> None:
        # Attached, not visible: the first cell may be scrolled out of sight.
        self.page.wait_for_selector(
            ".jp-Notebook .jp-Cell", state="attached", timeout=PAGE_LIMIT_MS
        )
        if wait_for_kernel:
            self.wait_kernel("idle")

    def wait_kernel(self, status: str, timeout_s: float = 60) -> None:
        self.page.wait_for_function(
            f"wanted => {_CURRENT}?.sessionContext?.session?.kernel?.status === wanted",
            arg=status,
            timeout=timeout_s * 1000,
        )

    def _has_echo(self) -> bool:
        """Whether a request is answered, so that the next one is not the first.

        The status of a kernel is known before its connection stands, and now and then a request
        that is sent in that moment is never answered: the cell stays at `[*]` beside an idle
        kernel, with nothing of ours in it. Sometimes that connection never answers; a person loads
        the page again then, and so does `wait_ready`.
        """
        for _ in range(3):
            if self.page.evaluate(
                f"""patience => Promise.race([
                    {_CURRENT}.sessionContext.session.kernel.requestKernelInfo().then(() => true),
                    new Promise(resolve => setTimeout(() => resolve(false), patience)),
                ])""",
                _ECHO_LIMIT_MS,
            ):
                return True
        return False

    # -- cells ------------------------------------------------------------------------------

    def run(self, index: int, *, wait: bool = True, timeout_s: float = 30) -> None:
        """Run a cell as Ctrl-Enter does; with `wait=False`, return while it runs."""
        self.page.evaluate(
            f"""index => {{
                const notebook = {_CURRENT}.content;
                const cell = notebook.widgets[index].model;
                // The count of the last run must not be taken for this one's.
                cell.executionCount = null;
                notebook.deselectAll();
                notebook.activeCellIndex = index;
                window.jupyterapp.commands.execute('notebook:run-cell');
            }}""",
            index,
        )
        if wait:
            self.wait_done(index, timeout_s)

    def wait_done(self, index: int, timeout_s: float = 30) -> None:
        self.page.wait_for_function(
            f"""index => {{
                const cell = {_CURRENT}.content.widgets[index].model;
                return cell.executionState === 'idle' && cell.executionCount;
            }}""",
            arg=index,
            timeout=timeout_s * 1000,
        )

    def outputs(self, index: int) -> list[dict[str, Any]]:
        found = self.page.evaluate(
            f"index => {_CURRENT}.content.widgets[index].model.outputs.toJSON()", index
        )
        return list(found)

    def text(self, index: int) -> str:
        """The plain text of a cell's outputs, one after another, without the last newline."""
        parts = []
        for output in self.outputs(index):
            data = output.get("data", {})
            value = output.get("text") or data.get("text/plain") or output.get("evalue", "")
            parts.append(value if isinstance(value, str) else "".join(value))
        return "\n".join(parts).rstrip("\n")

    def wait_text(self, index: int, part: str, timeout_s: float = 30) -> None:
        """Until the outputs of the cell hold `part`; for cells that are still running."""
        self.page.wait_for_function(
            f"""([index, part]) => JSON.stringify(
                {_CURRENT}.content.widgets[index].model.outputs.toJSON()
            ).includes(JSON.stringify(part).slice(1, -1))""",
            arg=[index, part],
            timeout=timeout_s * 1000,
        )

    def cell(self, index: int) -> Locator:
        """The cell in the document; it is scrolled to, because Lab draws only what is near."""
        self.page.evaluate(
            f"async index => {{ await {_CURRENT}.content.scrollToItem(index, 'center'); }}", index
        )
        return self.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{index}']")

    def output(self, index: int) -> Locator:
        """Where the cell's outputs and widgets are."""
        return self.cell(index).locator(".jp-Cell-outputWrapper")

    def sources(self) -> list[str]:
        """The text of every cell, to see that keys typed elsewhere changed nothing."""
        found = self.page.evaluate(
            f"() => {_CURRENT}.content.widgets.map(w => w.model.sharedModel.getSource())"
        )
        return list(found)

    def set_source(self, index: int, source: str) -> None:
        self.page.evaluate(
            f"""([index, source]) => {{
                {_CURRENT}.content.widgets[index].model.sharedModel.setSource(source);
            }}""",
            [index, source],
        )

    # -- the notebook -----------------------------------------------------------------------

    def do(self, code: str) -> str:
        """Run code in the kernel as a cell would, without one; returns what it printed.

        Waits for the kernel, and fails with the code's own traceback.
        """
        answer = self.page.evaluate(_DO, code)
        if answer["error"]:
            raise AssertionError(answer["error"])
        return str(answer["out"]).strip()

    def execute(self, command: str, arguments: Mapping[str, object] | None = None) -> Any:
        """Run one of the application's commands and wait until it has ended."""
        return self.page.evaluate(
            "async ([command, args]) => await window.jupyterapp.commands.execute(command, args)",
            [command, dict(arguments or {})],
        )

    def save(self) -> Path:
        """Save; returns the file."""
        self.page.evaluate(f"async () => {{ await {_CURRENT}.context.save(); }}")
        return self.server.root / self.name

    def kernel_id(self) -> str:
        return str(self.page.evaluate(f"() => {_CURRENT}.sessionContext.session.kernel.id"))

    def restart_kernel(self) -> None:
        """Restart, and wait until the new kernel has answered (cells keep their outputs)."""
        self.page.evaluate(
            f"""async () => {{
                const kernel = {_CURRENT}.sessionContext.session.kernel;
                await kernel.restart();
                await kernel.requestKernelInfo();
            }}"""
        )
        self.wait_kernel("idle")

    def shutdown_kernel(self) -> None:
        self.page.evaluate(f"async () => {{ await {_CURRENT}.sessionContext.shutdown(); }}")

    def interrupt_kernel(self) -> None:
        self.page.evaluate(
            f"async () => {{ await {_CURRENT}.sessionContext.session.kernel.interrupt(); }}"
        )

    def set_theme(self, theme: Literal["JupyterLab Light", "JupyterLab Dark"]) -> None:
        self.execute("apputils:change-theme", {"theme": theme})
        light = "true" if theme.endswith("Light") else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def screenshot(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)
        return path

    def close(self) -> None:
        self.page.close()

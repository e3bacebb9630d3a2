"""One Chromium and one server per application for the whole ring; a new page per test."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests import leaks
from tests.browser.lab import App, NotebookPage, Server, launch_chromium, write_notebook

ARTIFACTS = Path(__file__).resolve().parents[2] / "test-artifacts"
APPS: tuple[App, ...] = ("lab", "notebook")

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with contextlib.ExitStack() as stack:
        with leaks.starting_for_the_session():
            browser = stack.enter_context(launch_chromium())
        yield browser


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[App], Server]]:
    """Starts a server per application when it is first asked for."""
    running: dict[App, Server] = {}
    with contextlib.ExitStack() as stack:

        def serve(app: App) -> Server:
            if app not in running:
                root, home = tmp_path_factory.mktemp(app), tmp_path_factory.mktemp(f"{app}-home")
                with leaks.starting_for_the_session():
                    running[app] = stack.enter_context(Server(root, app, home=home))
            return running[app]

        yield serve


class Notebooks:
    """Writes notebooks and opens each in a page of its own; `close` ends pages and kernels."""

    def __init__(self, servers: Callable[[App], Server], chromium: Browser) -> None:
        self._servers = servers
        # One person: the pages share cookies, like tabs.
        self._context = chromium.new_context(viewport={"width": 1200, "height": 900})
        self._pages: list[NotebookPage] = []

    def __call__(
        self, cells: Sequence[str], *, app: App = "lab", kernel: str = "python3"
    ) -> NotebookPage:
        server = self._servers(app)
        name = f"test-{next(_numbers)}.ipynb"
        write_notebook(server.root / name, cells, kernel)
        return self._open(server, name)

    def again(self, page: NotebookPage) -> NotebookPage:
        """The same notebook in a second tab."""
        return self._open(page.server, page.name)

    def _open(self, server: Server, name: str) -> NotebookPage:
        page = NotebookPage(self._context, server, name)
        self._pages.append(page)
        _open_pages.append(page)
        return page

    def close(self) -> None:
        self._context.close()
        for page in self._pages:
            _open_pages.remove(page)
            page.server.end_session(page.name)


@pytest.fixture
def open_notebook(servers: Callable[[App], Server], chromium: Browser) -> Iterator[Notebooks]:
    """Opens notebooks for one test."""
    notebooks = Notebooks(servers, chromium)
    yield notebooks
    notebooks.close()


@pytest.fixture(scope="module")
def shared_notebook(servers: Callable[[App], Server], chromium: Browser) -> Iterator[Notebooks]:
    """Opens notebooks for all tests of a module: a page and its kernel cost five seconds."""
    notebooks = Notebooks(servers, chromium)
    yield notebooks
    notebooks.close()


_open_pages: list[NotebookPage] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep pictures and logs of what was open when a test failed."""
    report = yield
    if report.failed and report.when in ("setup", "call"):
        stem = re.sub(r"[^\w.-]+", "-", item.name)
        for number, page in enumerate(_open_pages):
            _keep_evidence(page, ARTIFACTS / f"{stem}-{number}")
    return report


def _keep_evidence(page: NotebookPage, place: Path) -> None:
    with contextlib.suppress(Exception):  # a crashed page has no picture
        page.screenshot(place.with_name(place.name + ".png"))
    place.parent.mkdir(exist_ok=True)
    log = page.server.log.read_text(encoding="utf-8")[-20_000:]
    texts = {".console.txt": "\n".join(page.console), ".server.txt": log}
    for ending, text in texts.items():
        place.with_name(place.name + ending).write_text(text, encoding="utf-8")


@pytest.fixture(params=APPS)
def app(request: pytest.FixtureRequest) -> App:
    """Every test that asks for it runs in both applications."""
    named: App = request.param
    return named

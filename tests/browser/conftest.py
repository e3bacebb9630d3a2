"""One Chromium and one server per application for the whole ring; a new page per test."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext

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


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """The browser of one person: its pages share cookies, like tabs."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    yield context
    context.close()


class OpenNotebook(Protocol):
    """Writes a notebook and opens it in a page of its own."""

    def __call__(
        self, cells: Sequence[str], *, app: App = "lab", kernel: str = "python3"
    ) -> NotebookPage: ...


@pytest.fixture
def open_notebook(
    servers: Callable[[App], Server],
    context: BrowserContext,
    request: pytest.FixtureRequest,
    has_failed: Callable[[], bool],
) -> Iterator[OpenNotebook]:
    pages: list[NotebookPage] = []

    def open_(cells: Sequence[str], *, app: App = "lab", kernel: str = "python3") -> NotebookPage:
        server = servers(app)
        name = f"test-{next(_numbers)}.ipynb"
        write_notebook(server.root / name, cells, kernel)
        page = NotebookPage(context, server, name)
        pages.append(page)
        return page

    yield open_
    if has_failed():
        stem = re.sub(r"[^\w.-]+", "-", request.node.name)
        for number, page in enumerate(pages):
            with contextlib.suppress(Exception):  # a crashed page has no picture
                page.screenshot(ARTIFACTS / f"{stem}-{number}.png")
            log = ARTIFACTS / f"{stem}-{number}.console.txt"
            log.parent.mkdir(exist_ok=True)
            log.write_text("\n".join(page.console), encoding="utf-8")
            (ARTIFACTS / f"{stem}-{number}.server.txt").write_text(
                page.server.log.read_text(encoding="utf-8")[-20_000:], encoding="utf-8"
            )
    for server in {page.server for page in pages}:
        server.end_sessions()


@pytest.fixture(params=APPS)
def app(request: pytest.FixtureRequest) -> App:
    """Every test that asks for it runs in both applications."""
    named: App = request.param
    return named

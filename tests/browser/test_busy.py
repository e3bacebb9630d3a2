"""Clicks while a cell runs: handled at once where the kernel has subshells; elsewhere they say that
they wait, and are handled after the cell.

A cell is blocked by something that the test ends, never by time: it reads a line from a pipe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import APPS, Notebooks
from tests.browser.lab import App, NotebookPage, Server
from tests.browser.panes import AGENTS, Chat, Surface, chat_of, show, surface_of
from tests.needs import require_kernel
from tools.provision import KERNELS

# Each of these goes on until `gate` gets a line.
_BLOCKS = "gate.readline()\nprint('done')"
_COMPUTES = """
import threading
ended = []
threading.Thread(target=lambda: ended.append(gate.readline())).start()
x = 0
while not ended:
    x += 1
print('done')
"""
_AWAITS = "import asyncio\nawait asyncio.to_thread(gate.readline)\nprint('done')"
# ipykernel 7.4 sends clicks to whichever shell has published last on the view's comm: once will
# do, and in the loop it would be a flood.
_PUBLISHES = """
import threading
from piweb_jupyter.views import view_surface
ended = []
threading.Thread(target=lambda: ended.append(gate.readline())).start()
view_surface(piweb.open(name='board'), 'board').send({'kind': 'nothing'})
while not ended:
    s.run('add')
print('done')
"""
_SHOWS = show(AGENTS / "board")
_LOOKS = "import piweb_jupyter as piweb\ns = piweb.open(name='board').surface()"

CELLS = [f"{_SHOWS}\n{_BLOCKS}", _SHOWS, _BLOCKS, _COMPUTES, _AWAITS, _PUBLISHES]
COLD, WARM, SLEEPS, LOOPS, AWAITS, PUBLISHES = range(len(CELLS))

WAITS = "waiting for the kernel (a cell is running)"


class Busy:
    """A page whose cells block until they are let go."""

    def __init__(self, page: NotebookPage, pipe: Path, *, subshells: bool) -> None:
        self.page = page
        self.subshells = subshells
        os.mkfifo(pipe)
        self._gate = os.open(pipe, os.O_RDWR)
        self.page.do(f"gate = open({str(pipe)!r})")
        self._shown = COLD
        self._running: int | None = None

    @property
    def surface(self) -> Surface:
        return surface_of(self.page, self._shown)

    @property
    def chat(self) -> Chat:
        return chat_of(self.page, self._shown)

    def show(self) -> None:
        """A view whose kernel is idle."""
        self._shown = WARM
        self.page.run(WARM)
        self.surface.expect_live()
        self.page.do(_LOOKS)

    def begin(self, cell: int) -> None:
        self.page.run(cell, wait=False)
        self._running = cell
        self.page.wait_kernel("busy")

    def end(self) -> None:
        """Let the cell go; it has run until now."""
        cell, self._running = self._running, None
        if cell is not None:
            os.write(self._gate, b"\n")
            self.page.wait_done(cell)
            self.page.wait_text(cell, "done")

    def close(self) -> None:
        os.close(self._gate)

    def click(self, text: str) -> None:
        """Click while a cell runs: that writes a row before the cell is let go, or says that it
        waits and writes it afterwards."""
        surface = self.surface
        surface.field("append", "text").fill(text)
        surface.press("append")
        if self.subshells:
            expect(surface.tree).to_contain_text(text)
            expect(surface.stage("append")).to_have_text("done")
            surface.expect_label("Live")
            self.end()
            return
        expect(surface.stage("append")).to_have_text(WAITS)
        surface.expect_label(f"{WAITS[0].upper()}{WAITS[1:]}")
        expect(surface.tree).not_to_contain_text(text)
        self.end()
        expect(surface.tree).to_contain_text(text)
        expect(surface.stage("append")).to_have_text("done")
        surface.expect_label("Live")


@pytest.fixture(
    scope="module",
    params=[(app, kernel) for kernel in KERNELS for app in APPS],
    ids=lambda param: "-".join(param),
)
def busy(
    request: pytest.FixtureRequest,
    servers: Callable[[App], Server],
    chromium: Browser,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Busy]:
    """One page per application and kernel; the tests are its rows, in this order."""
    app, kernel = request.param
    notebooks = Notebooks(servers, chromium)
    page = notebooks(CELLS, app=app, kernel=require_kernel(kernel))
    pipe = tmp_path_factory.mktemp("gate") / "pipe"
    busy = Busy(page, pipe, subshells=not kernel.endswith("6.31"))
    yield busy
    busy.close()
    notebooks.close()


@pytest.fixture(autouse=True)
def let_go(busy: Busy) -> Iterator[None]:
    """One row that fails must not block the next."""
    yield
    busy.end()


def test_a_view_and_its_first_click_come_while_their_own_cell_runs(busy: Busy) -> None:
    busy.begin(COLD)
    if not busy.subshells:
        busy.surface.expect_label("Waiting for the kernel")
    busy.click("cold")


def test_a_click_comes_through_while_a_cell_sleeps(busy: Busy) -> None:
    busy.show()
    busy.begin(SLEEPS)
    busy.click("asleep")


def test_a_click_comes_through_while_a_cell_computes(busy: Busy) -> None:
    busy.begin(LOOPS)
    busy.click("looping")


def test_a_click_comes_through_while_a_cell_awaits(busy: Busy) -> None:
    busy.begin(AWAITS)
    busy.click("awaiting")


def test_a_click_comes_through_while_the_cell_itself_publishes(busy: Busy) -> None:
    busy.begin(PUBLISHES)
    expect(busy.surface.leaf("count")).not_to_have_text("0")
    busy.click("published")


def test_a_click_comes_through_while_states_stream(busy: Busy) -> None:
    surface = busy.surface
    surface.press("stream")
    busy.begin(SLEEPS)
    before = surface.leaf("count").text_content() or ""
    expect(surface.leaf("count")).not_to_have_text(before)  # states are drawn on every kernel
    busy.click("streaming")
    surface.press("calm")
    expect(surface.stage("calm")).to_have_text("done")


def test_a_prompt_comes_through_while_a_cell_sleeps(busy: Busy) -> None:
    chat = busy.chat
    busy.begin(SLEEPS)
    chat.say("SAY good morning")
    if busy.subshells:
        chat.expect_answer("good morning")
        busy.end()
        return
    expect(chat.log).to_contain_text(WAITS)
    expect(chat.answers).to_have_count(0)
    busy.end()
    chat.expect_answer("good morning")
    expect(chat.log).not_to_contain_text(WAITS)

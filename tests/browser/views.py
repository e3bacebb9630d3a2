"""Our views in a page: where their parts are, and waiting for what they say."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.lab import NotebookPage

__all__ = ["COUNTER", "SHOWCASE", "ChatOn", "SurfaceOn", "start"]

ROOT = Path(__file__).resolve().parents[2]
COUNTER = ROOT / "examples" / "counter_agent"
SHOWCASE = Path(__file__).parent / "agents" / "showcase"


def start(source: Path, options: str = "--wait") -> str:
    """The cell that loads the extension and shows an agent."""
    return f'%load_ext piweb_jupyter\n%piweb "{source}" {options}'


class SurfaceOn:
    """A surface's view below a cell."""

    def __init__(self, page: NotebookPage, cell: int = 0, place: int = 0) -> None:
        self.page = page
        self.root: Locator = page.output(cell).locator(".piweb-surface").nth(place)

    @property
    def label(self) -> Locator:
        return self.root.locator(".piweb-label")

    def command(self, name: str) -> Locator:
        return self.root.locator(f"[data-command='{name}']")

    def button(self, name: str) -> Locator:
        return self.command(name).locator("button[type=submit]")

    def stage(self, name: str) -> Locator:
        return self.command(name).locator(".piweb-stage")

    def value(self, key: str) -> Locator:
        """The leaf of a top-level key of the state."""
        row = self.root.locator(".piweb-tree > .piweb-rows > .piweb-row")
        key_of_row = self.page.page.locator(".piweb-key", has_text=re.compile(rf"^{key}$"))
        return row.filter(has=key_of_row).locator("> .piweb-leaf")

    def expect_count(self, count: int, timeout_s: float = 20) -> None:
        expect(self.value("count")).to_have_text(str(count), timeout=timeout_s * 1000)

    def expect_label(self, pattern: str, timeout_s: float = 20) -> None:
        expect(self.label).to_have_text(re.compile(pattern), timeout=timeout_s * 1000)

    def expect_rev(self, rev: int, timeout_s: float = 20) -> None:
        expect(self.root).to_have_attribute("data-rev", str(rev), timeout=timeout_s * 1000)


class ChatOn:
    """A chat below a cell."""

    def __init__(self, page: NotebookPage, cell: int = 0) -> None:
        self.page = page
        self.root: Locator = page.output(cell).locator(".piweb-chat").first

    @property
    def label(self) -> Locator:
        return self.root.locator(".piweb-label")

    @property
    def input(self) -> Locator:
        return self.root.locator(".piweb-input")

    @property
    def messages(self) -> Locator:
        return self.root.locator(".piweb-messages > .piweb-message")

    def say(self, text: str) -> None:
        self.input.fill(text)
        self.input.press("Enter")

    def expect_text(self, text: str, timeout_s: float = 20) -> None:
        expect(self.root.locator(".piweb-messages")).to_contain_text(text, timeout=timeout_s * 1000)

    def expect_label(self, pattern: str, timeout_s: float = 20) -> None:
        expect(self.label).to_have_text(re.compile(pattern), timeout=timeout_s * 1000)

    def menu(self, item: str) -> None:
        self.root.locator(".piweb-menu > summary").click()
        self.root.get_by_role("button", name=item).click()

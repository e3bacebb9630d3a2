"""Our views as a person meets them: a title bar that says how things are, a count, buttons, a chat.

Everything here waits for what the page shows; `expect` has one generous limit.
"""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.lab import NotebookPage

__all__ = ["AGENTS", "EXAMPLES", "LIMIT_MS", "Chat", "Surface", "chat_of", "show", "surface_of"]

AGENTS = Path(__file__).parent / "agents"
EXAMPLES = Path(__file__).parents[2] / "examples"

# What a loaded machine may take for what usually is there in a tenth of a second.
LIMIT_MS = 20_000
expect.set_options(timeout=LIMIT_MS)


def show(source: Path, options: str = "") -> str:
    """The cell that starts an agent and shows it."""
    return f'%load_ext piweb_jupyter\n%piweb "{source}" {options}'


class Pane:
    """What both views have: the title bar."""

    def __init__(self, root: Locator) -> None:
        self.root = root
        self.label = root.locator(".piweb-label")
        self.restart = root.locator(".piweb-head").get_by_role("button", name="Restart the agent")

    def expect_label(self, text: str | re.Pattern[str]) -> None:
        expect(self.label).to_contain_text(text)

    def expect_live(self) -> None:
        expect(self.root).to_have_attribute("data-link", "live")
        expect(self.root).to_have_attribute("data-lifecycle", "ready")


class Surface(Pane):
    """One display of a surface."""

    def __init__(self, root: Locator) -> None:
        super().__init__(root)
        self.foot = root.locator(".piweb-foot")
        self.tree = root.locator(".piweb-tree")
        self.own = root.locator(".piweb-own-root")

    def show_generic(self) -> None:
        """From the agent's own view to the tree and the forms."""
        self.root.get_by_role("button", name="State").click()
        expect(self.tree).to_be_visible()

    def show_own(self) -> None:
        self.root.get_by_role("button", name="Own view").click()

    def leaf(self, key: str) -> Locator:
        """The value beside a key of the state."""
        row = self.tree.locator(f".piweb-row:has(> .piweb-key:text-is('{key}'))")
        return row.locator("> .piweb-leaf")

    def expect_leaf(self, key: str, text: str) -> None:
        expect(self.leaf(key)).to_have_text(text)

    def form(self, command: str) -> Locator:
        return self.root.locator(f"form[data-command='{command}']")

    def button(self, command: str) -> Locator:
        return self.form(command).locator("button[type=submit]")

    def field(self, command: str, name: str) -> Locator:
        return self.form(command).get_by_label(name, exact=True)

    def fault(self, command: str) -> Locator:
        """What is said to be wrong with the fields of a command."""
        return self.form(command).locator(".piweb-fault:not(:empty)")

    def stage(self, command: str) -> Locator:
        """Where the last click is."""
        return self.form(command).locator(".piweb-stage-text")

    def press(self, command: str) -> None:
        self.button(command).click()

    def expect_rev(self, rev: int) -> None:
        expect(self.root).to_have_attribute("data-rev", str(rev))


class Chat(Pane):
    """One display of the conversation."""

    def __init__(self, root: Locator) -> None:
        super().__init__(root)
        self.input = root.get_by_label("Message to the agent")
        self.log = root.get_by_role("log", name="Conversation")
        self.messages = self.log.locator(".piweb-message")
        self.answers = self.log.locator(".piweb-assistant")
        self.tools = self.log.locator(".piweb-tool")
        self.questions = root.locator(".piweb-question")
        self.queue = root.locator(".piweb-queue")
        self.fault = root.locator("> .piweb-error")
        self.stop = root.locator(".piweb-compose").get_by_role("button", name="Stop")

    def say(self, text: str) -> None:
        """Type a prompt and press Enter."""
        self.input.fill(text)
        self.input.press("Enter")

    def expect_answer(self, text: str) -> None:
        """The last answer ends up as this, and the agent is done."""
        expect(self.answers.last).to_contain_text(text)
        self.expect_idle()

    def expect_busy(self) -> None:
        expect(self.root).to_have_attribute("data-busy", "true")

    def expect_idle(self) -> None:
        expect(self.root).to_have_attribute("data-busy", "false")

    def question(self, title: str) -> Locator:
        return self.root.get_by_role("group", name=f"Question: {title}")


def surface_of(page: NotebookPage, cell: int = 0, number: int = 0) -> Surface:
    return Surface(page.output(cell).locator(".piweb-surface").nth(number))


def chat_of(page: NotebookPage, cell: int = 0) -> Chat:
    return Chat(page.output(cell).locator(".piweb-chat"))

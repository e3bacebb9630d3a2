"""What a notebook file holds of our views, and what running their cell again does."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Notebooks
from tests.browser.lab import TOKEN, NotebookPage
from tests.browser.panes import EXAMPLES, chat_of, show, surface_of

DISPLAYS = 10
SECRET = "sk-never-to-be-saved-1234567890"

# What there is of ours in the kernel.
_COUNT = """
import json, os, threading
from ipywidgets.widgets.widget import _instances
from piweb_jupyter.views.widget import OneWriter
print(json.dumps({
    "models": sorted(type(w).__name__ for w in _instances.values() if isinstance(w, OneWriter)),
    "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("piweb-")),
    "agents": sum(
        b"piweb_jupyter.runner" in open(f"/proc/{pid}/cmdline", "rb").read()
        for pid in os.listdir("/proc") if pid.isdigit()
        and open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1] == str(os.getpid())
    ),
}))
"""


@pytest.fixture(scope="module")
def page(shared_notebook: Notebooks) -> NotebookPage:
    start = show(EXAMPLES / "counter_agent")
    page = shared_notebook([start, *["%piweb show counter_agent"] * (DISPLAYS - 1)])
    page.do(f"import os\nos.environ['OPENAI_API_KEY'] = {SECRET!r}")
    page.run(0)
    surface_of(page).expect_live()
    return page


def test_running_the_cell_again_adds_no_agent_and_no_model(page: NotebookPage) -> None:
    surface_of(page).own.get_by_role("button", name="increment").click()
    before = json.loads(page.do(_COUNT))
    assert before["agents"] == 1
    assert before["models"] == ["ChatView", "PiwebView", "SurfaceView", "_Pane"]
    for _ in range(4):
        page.run(0)
        expect(surface_of(page).own.get_by_label("count", exact=True)).to_have_text("1")
    assert json.loads(page.do(_COUNT)) == before


def test_ten_displays_of_a_long_talk_are_a_small_file_without_secrets(page: NotebookPage) -> None:
    chat = chat_of(page)
    words = " ".join(f"told{number}" for number in range(2000))
    chat.say(f"SAY {words}")
    chat.expect_answer("told1999")
    for cell in range(DISPLAYS):
        page.run(cell)
    chat_of(page, DISPLAYS - 1).expect_answer("told1999")
    saved = page.save()
    text = saved.read_text(encoding="utf-8")
    assert len(text.encode()) < 300_000
    assert "widgets" not in json.loads(text)["metadata"]
    for hidden in (SECRET, TOKEN, "PIWEB_", "told1999", "export default", "function("):
        assert hidden not in text, hidden


def test_without_a_kernel_the_file_says_what_was_there(page: NotebookPage) -> None:
    page.run(0)
    page.save()
    page.shutdown_kernel()
    page.reload(wait_for_kernel=False)
    card = page.output(0)
    expect(card).to_contain_text("Counter · counter_agent")
    expect(card).to_contain_text("rev 1, agent offline")
    expect(card).to_contain_text("count: 1")
    expect(card).to_contain_text("run the cell again")
    expect(card.get_by_text("not found")).to_have_count(0)

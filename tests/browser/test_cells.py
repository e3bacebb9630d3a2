"""`%piweb` and `%%piweb` as typed by a person in JupyterLab and Notebook 7."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Notebooks
from tests.browser.lab import App, NotebookPage
from tests.browser.panes import EXAMPLES, chat_of, show, surface_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(shared_notebook: Notebooks) -> NotebookPage:
    cells = [
        show(EXAMPLES / "counter_agent"),
        "%%piweb\nSLOW 2000 20",
        '%%piweb\nCALL increment {"by": {sum([3, 4])}}',
        "%piweb demo",
        "%%piweb -n counter_agent\nSAY **done** <img src=x onerror=alert(1)> ![](https://a.example/)",
    ]
    page = shared_notebook(cells)
    page.run(0)
    surface_of(page).expect_live()
    return page


def test_a_prompt_streams_into_its_cell_and_the_result_takes_its_place(page: NotebookPage) -> None:
    page.run(1, wait=False)
    streaming = chat_of(page, cell=1)
    expect(streaming.answers.last).to_contain_text("word")
    streaming.expect_busy()
    page.interrupt_kernel()
    page.wait_text(1, "the turn was stopped; counter_agent lives on")
    expect(streaming.root).to_be_visible()  # what there was of the answer stays
    streaming.expect_idle()
    page.wait_done(1)

    page.run(2)
    told = page.text(2)
    assert told == (
        'counter_agent\n· increment {"by": 7} → {"count":7}\n`increment` returned: {"count":7}'
    )
    expect(page.output(2).locator(".piweb-chat")).to_have_count(0)
    expect(surface_of(page).own.get_by_label("count", exact=True)).to_have_text("7")
    chat_of(page).expect_answer("returned")


def test_the_result_is_drawn_and_fetches_nothing(page: NotebookPage) -> None:
    page.run(4)
    result = page.output(4).locator(".jp-OutputArea-executeResult")
    expect(result.locator("strong")).to_have_text("done")
    expect(result).to_contain_text("<img src=x onerror=alert(1)>")
    expect(result.locator("img")).to_have_count(0)


def test_the_trust_question_is_asked_in_the_notebook(
    open_notebook: Notebooks, tmp_path: Path, app: App
) -> None:
    source = tmp_path / "asked"
    shutil.copytree(EXAMPLES / "hello_agent", source)
    setting = "import os\nos.environ['PIWEB_TRUST'] = 'ask'"
    page = open_notebook([setting, show(source), f'%piweb "{source}"'], app=app)
    page.run(0)
    page.run(1, wait=False)
    question = page.output(1).locator(".jp-Stdin")
    expect(question).to_contain_text(str(source))
    expect(question).to_contain_text("your rights")
    question.locator("input").fill("n")
    question.locator("input").press("Enter")
    page.wait_text(1, "AgentNotTrusted")

    page.run(2, wait=False)
    question = page.output(2).locator(".jp-Stdin")
    question.locator("input").fill("y")
    question.locator("input").press("Enter")
    chat_of(page, cell=2).expect_live()


def test_a_changed_agent_is_named_beside_a_button_that_restarts_it(
    open_notebook: Notebooks, tmp_path: Path
) -> None:
    source = tmp_path / "edited"
    shutil.copytree(EXAMPLES / "hello_agent", source)
    page = open_notebook([show(source), f'%piweb "{source}"'])
    page.run(0)
    chat = chat_of(page)
    chat.expect_live()
    bar = chat.root.locator(".piweb-changed")
    expect(bar).to_be_hidden()

    agent = source / "agent.py"
    agent.write_text(
        agent.read_text(encoding="utf-8").replace("Hello", "Welcome"), encoding="utf-8"
    )
    page.run(1)
    assert "agent.py changed since the agent was started" in page.text(1)
    expect(bar).to_contain_text("agent.py changed")
    bar.get_by_role("button", name="Restart").click()
    expect(bar).to_be_hidden()
    chat.expect_live()
    chat.say('CALL greet {"name": "Ada"}')
    chat.expect_answer("Welcome, Ada!")


def test_the_quickstart_looks_as_the_readme_shows_it(page: NotebookPage, tmp_path: Path) -> None:
    """With PIWEB_PICTURES set, the README's picture is made anew."""
    page.run(3)
    surface, chat = surface_of(page, cell=3), chat_of(page, cell=3)
    surface.expect_live()
    add = surface.own.get_by_role("button", name="increment")
    count = surface.own.get_by_label("count", exact=True)
    add.click()
    expect(count).to_have_text("1")
    surface.own.get_by_label("how many").fill("5")
    add.click()
    expect(count).to_have_text("6")
    chat.say('Add ten, please. CALL increment {"by": 10}')
    chat.expect_answer("returned")
    expect(count).to_have_text("16")
    directory = ROOT / "docs" if os.environ.get("PIWEB_PICTURES") else tmp_path
    directory.mkdir(exist_ok=True)
    picture = directory / "quickstart.png"
    page.output(3).screenshot(path=picture)
    assert picture.stat().st_size > 5_000

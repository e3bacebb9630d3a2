"""The generic surface view in a page: forms, stages, errors, folding, keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Notebooks
from tests.browser.lab import App, NotebookPage
from tests.browser.panes import AGENTS, Surface, chat_of, show, surface_of

SHOWCASE = AGENTS / "showcase"
_RUN = f"""
import piweb_jupyter
session = piweb_jupyter.open(r'{SHOWCASE}')
stage = session.surface('stage')
"""


@pytest.fixture(scope="module")
def page(shared_notebook: Notebooks) -> NotebookPage:
    cells = [
        show(SHOWCASE, "--wait"),
        _RUN + "stage.run('show', value={'list': list(range(500)), 'deep': {'a': {'b': [1]}}})",
        _RUN + "stage.run('show', value={'list': list(range(501)), 'deep': {'a': {'b': [2]}}})",
        _RUN + "stage.run('hold', seconds=0)\nstage.run('forget')",
    ]
    page = shared_notebook(cells)
    page.run(0)
    return page


@pytest.fixture
def surface(page: NotebookPage) -> Surface:
    page.run(3)
    surface = surface_of(page)
    surface.expect_leaf("count", "0")
    return surface


def test_a_form_gives_each_argument_its_type(surface: Surface) -> None:
    form = surface.form("tell")
    form.get_by_label("text").fill("hello")
    form.get_by_label("color").select_option(label="green")
    form.get_by_label("loud").check()
    form.get_by_label("times").fill("[1, 2]")
    surface.button("tell").click()
    expect(surface.stage("tell")).to_contain_text("done: hello green True [1, 2]")
    expect(surface.root.locator(".piweb-tree")).to_contain_text("hello green True [1, 2]")


def test_enter_in_a_field_sends_the_form(surface: Surface) -> None:
    field = surface.form("increment").get_by_label("by")
    field.fill("7")
    field.press("Enter")
    surface.expect_leaf("count", "7")


def test_what_does_not_fit_is_said_at_its_field_and_not_sent(surface: Surface) -> None:
    form = surface.form("increment")
    form.get_by_label("by").fill("101")
    surface.button("increment").click()
    expect(form.locator(".piweb-fault")).to_have_text("must be at most 100")
    expect(form.get_by_label("by")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("by").fill("1")
    expect(form.locator(".piweb-fault")).to_be_empty()
    times = surface.form("tell")
    times.get_by_label("text").fill("x")
    times.get_by_label("times").fill('["a"]')
    surface.button("tell").click()
    expect(times.locator(".piweb-json .piweb-fault")).to_contain_text("times.0")


def test_a_long_command_shows_its_stage_and_can_be_cancelled(surface: Surface) -> None:
    surface.button("hold").click()
    expect(surface.stage("hold")).to_contain_text("running")
    surface.form("hold").get_by_role("button", name="Cancel").click()
    expect(surface.stage("hold")).to_contain_text("cancelled")


def test_a_person_may_stop_waiting(surface: Surface) -> None:
    surface.button("hold").click()
    surface.form("hold").get_by_role("button", name="Stop waiting").click()
    expect(surface.stage("hold")).to_contain_text("no longer waited for")


def test_a_command_that_asks_first_asks_in_the_view(surface: Surface) -> None:
    surface.button("bump").click()
    surface.expect_leaf("count", "1")
    surface.button("forget").click()
    confirm = surface.form("forget").locator(".piweb-confirm")
    expect(confirm).to_contain_text("Really forget everything?")
    confirm.get_by_role("button", name="No").click()
    expect(confirm).to_be_hidden()
    surface.expect_leaf("count", "1")
    surface.button("forget").click()
    confirm.get_by_role("button", name="Yes").click()
    surface.expect_leaf("count", "0")


def test_a_list_is_drawn_as_far_as_somebody_looks_and_folds_stay(
    page: NotebookPage, surface: Surface
) -> None:
    page.run(1)
    tree = surface.root.locator(".piweb-tree")
    folded = tree.locator("details:has(> summary .piweb-key:text-is('list'))")
    expect(folded.locator("summary")).to_have_text("list500 items")
    folded.locator("summary").click()
    items = folded.locator(".piweb-row")
    expect(items).to_have_count(50)
    tree.get_by_role("button", name="… 450 more").click()
    expect(items).to_have_count(250)
    page.run(2)
    expect(folded.locator("summary")).to_have_text("list501 items")
    expect(items).to_have_count(250)
    expect(tree.locator("details:has(> summary .piweb-key:text-is('a'))")).to_contain_text(
        "1 field"
    )


def test_a_field_keeps_focus_text_and_cursor_while_states_stream(
    page: NotebookPage, surface: Surface
) -> None:
    field = surface.form("tell").get_by_label("text")
    field.fill("")
    surface.button("stream").click()
    field.press_sequentially("typed while it moves", delay=20)
    expect(field).to_have_value("typed while it moves")
    expect(field).to_be_focused()
    expect(surface.stage("stream")).to_contain_text("done")
    surface.expect_leaf("count", "200")


def test_keys_typed_in_a_view_leave_the_notebook_alone(open_notebook: Notebooks, app: App) -> None:
    page = open_notebook([show(SHOWCASE, "--wait"), "'second'", "'third'"], app=app)
    page.run(0)
    surface, chat = surface_of(page), chat_of(page)
    chat.say("hello")
    expect(chat.log).to_contain_text("You said: hello")
    before = page.sources()
    for target in (
        surface.button("bump"),
        surface.form("tell").get_by_label("text"),
        chat.input,
        surface.root.locator("summary").first,
        chat.root.locator(".piweb-messages"),
    ):
        target.focus()
        for key in ("a", "b", "d", "d", "x", "L", "0", "0", "Escape", "Shift+Enter", "m", "Delete"):
            page.page.keyboard.press(key)
        expect(target).to_be_focused()
        assert page.sources() == before
        kinds = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(w => w.model.type)"
        assert page.page.evaluate(kinds) == ["code"] * 3


def test_an_agents_own_view_that_breaks_is_told_and_the_generic_one_takes_over(
    open_notebook: Notebooks,
) -> None:
    page = open_notebook([_BROKEN + start_of("broken")])
    page.run(0)
    surface = surface_of(page)
    expect(surface.root.locator(".piweb-error")).to_contain_text("RangeError: on purpose")
    surface.button("bump").click()
    surface.expect_leaf("count", "1")


def test_what_an_own_view_may_use(open_notebook: Notebooks) -> None:
    page = open_notebook([_OWN + start_of("own"), "%piweb stop own"])
    page.run(0)
    surface = surface_of(page)
    told = surface.root.locator(".told")
    expect(told).to_have_text('1 live true 0 null {"ok":true,"data":1}')
    surface.root.get_by_role("button", name="fail").click()
    expect(told).to_contain_text("unknown_action")
    surface.root.get_by_role("button", name="State").click()
    surface.expect_leaf("count", "1")
    surface.root.get_by_role("button", name="Own view").click()
    page.run(1)
    expect(surface.root.get_by_role("button", name="fail")).to_be_disabled()
    expect(told).to_be_visible()


def start_of(name: str) -> str:
    return f"\nget_ipython().run_line_magic('load_ext', 'piweb_jupyter')\n%piweb ./{name} --wait"


_AGENT = """
from pathlib import Path
Path({name!r}).mkdir(exist_ok=True)
Path({name!r}, "agent.py").write_text('''
from piweb_jupyter.agent import create_surface, define_agent
stage = create_surface("stage", dict(count=0), view="view.js")

@stage.command
def bump(ctx) -> int:
    return ctx.set_state(lambda s: dict(count=s["count"] + 1))["count"]

agent = define_agent(model="stub", surfaces=[stage])
''')
Path({name!r}, "view.js").write_text('''{view}''')
"""

_BROKEN = _AGENT.format(
    name="broken", view="export default { render() { throw new RangeError('on purpose'); } };"
)

_OWN = _AGENT.format(
    name="own",
    view="""
export default {
  async render({ surface, el }) {
    const told = document.createElement("p");
    told.className = "told";
    const fail = document.createElement("button");
    fail.textContent = "fail";
    el.append(told, fail);
    fail.onclick = async () => {
      told.textContent = JSON.stringify(await surface.run("toString"));
    };
    const result = await surface.run("bump");
    const show = () => {
      const { state, status, available, epoch, rev } = surface;
      if (state.count !== 1 || told.textContent) return;
      const url = JSON.stringify(surface.attachmentUrl("att_x"));
      told.textContent =
        [state.count, status, available, epoch - 1, url, JSON.stringify(result)].join(" ");
    };
    show();
    return surface.subscribe(show);
  },
};
""",
)

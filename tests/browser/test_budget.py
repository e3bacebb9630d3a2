"""A flood of states beside a cell that prints: the last states are drawn, and nothing of the
user's is lost. The server would drop what is too much, the user's output too, without a word."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Notebooks
from tests.browser.panes import AGENTS, show, surface_of

LINES = 2000

# 500 lines a second, for four seconds, while states flow: printed in fives, as a logger would.
_PRINTS = f"""
import time
surface.run("go")
due = time.monotonic()
for number in range({LINES}):
    print("line", number)
    if number % 5 == 4:
        due += 0.01
        time.sleep(max(0, due - time.monotonic()))
print("last", surface.run("halt"))
"""
_LOOKS = """
import piweb_jupyter as piweb
surface = piweb.open(name={name!r}).surface({domain!r})
"""
# Until every surface shows the last count. The bound.
_DRAWN = """([domains, last]) => {
    const views = [...document.querySelectorAll('.piweb-surface')];
    const counts = views.map(view => view.querySelector('.piweb-leaf')?.textContent);
    return counts.length === domains && counts.every(count => count === last);
}"""


@pytest.mark.parametrize(
    ("name", "domain", "surfaces"), [("many", "s00", 50), ("large", "large", 1)]
)
def test_a_flood_of_states_ends_on_the_last_and_costs_no_line_of_output(
    open_notebook: Notebooks, name: str, domain: str, surfaces: int
) -> None:
    page = open_notebook([show(AGENTS / name), _PRINTS])
    page.run(0)
    surface_of(page, number=surfaces - 1).expect_live()
    page.do(_LOOKS.format(name=name, domain=domain))
    page.run(1, wait=False)
    page.output(0)  # stay where the surfaces are drawn
    page.wait_done(1)
    *lines, last = page.text(1).splitlines()
    count = last.removeprefix("last ")
    page.page.wait_for_function(_DRAWN, arg=[surfaces, count], timeout=2000)
    assert int(count) > 30
    assert lines == [f"line {number}" for number in range(LINES)]
    log = page.server.log.read_text(encoding="utf-8")
    assert "rate exceeded" not in log

"""The journal of an agent of ours has what everybody did."""

from __future__ import annotations

from tests.session.conftest import Run

PATIENCE = 60.0


def test_the_journal_has_what_cells_views_and_the_model_did_in_order(run: Run) -> None:
    session = run("busy_agent")
    surface = session.surface("demo")
    surface.run("increment", by=2)
    surface.submit("increment", actor="user", id="page.1", by=3).result(PATIENCE)
    text = 'CALL increment {"by":4}\nCALL increment {"by":"many"}'
    session.prompt(text).wait(PATIENCE)
    surface.run("increment_slowly")
    told = [
        (e.action, e.args, e.actor, e.ok, e.code, e.rev_before, e.rev_after)
        for e in surface.history
    ]
    assert told == [
        ("increment", '{"by":2}', "cell", True, "", 0, 1),
        ("increment", '{"by":3}', "user", True, "", 1, 2),
        ("increment", '{"by":4}', "llm", True, "", 2, 3),
        ("increment", '{"by":"many"}', "llm", False, "invalid_args", 3, 3),
        ("increment_slowly", "{}", "cell", True, "", 3, 4),
    ]
    assert surface.state["by"] == {"cell": 2, "user": 3, "llm": 4}

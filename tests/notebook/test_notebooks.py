"""The notebooks can be compared strictly: nothing in them is excused from it."""

from __future__ import annotations

import nbformat
import pytest

from tests.notebook.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_as_it_ran(path: object) -> None:
    notebook = nbformat.read(path, as_version=4)
    text = nbformat.writes(notebook)
    assert "NBVAL" not in text.upper()
    assert "nbval-" not in text
    assert "widgets" not in notebook.metadata
    assert "/work/" not in text
    assert "/home/" not in text
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]


def test_the_two_notebooks_of_the_beginning_are_there() -> None:
    assert [path.name for path in NOTEBOOKS][:2] == ["01_quickstart.ipynb", "02_surfaces.ipynb"]

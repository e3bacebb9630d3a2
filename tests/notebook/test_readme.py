"""What the README tells its reader to type works, in the order in which it is told."""

from __future__ import annotations

import re
from pathlib import Path

import piweb_jupyter as piweb
from tests.notebook.conftest import ROOT, Run

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.M | re.S)


def test_every_block_of_python_runs(run: Run, tmp_path: Path) -> None:
    load, prompt, python, author = BLOCKS
    for line in load.splitlines():
        if "%load_ext" not in line:  # done by the fixture
            assert run(line).error is None
    told = run(prompt)
    assert told.error is None
    assert told.result.tool_calls[0].output == '{"count":10}'

    assert run(python).error is None
    claimed = re.search(r"counter\.state +# (.*)", python)
    assert claimed is not None
    assert str(piweb.open(name="demo").surface("demo").state) == claimed[1]

    (tmp_path / "agent.py").write_text(author, encoding="utf-8")
    mine = piweb.open(tmp_path, name="mine")
    assert mine.surface().run("increment", by=3) == 3


def test_every_file_it_points_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_examples_say_in_ten_lines_what_they_show() -> None:
    for directory in sorted((ROOT / "examples").iterdir()):
        if directory.is_dir() and not directory.name.startswith(("_", ".")):
            lines = (directory / "README.md").read_text(encoding="utf-8").splitlines()
            assert lines[0] == f"# {directory.name}"
            assert len(lines) <= 14

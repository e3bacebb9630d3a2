"""That the benchmarks still run; what they say is for `make bench`, not for a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import at_least, at_most, skipped, to_markdown
from benchmarks.run import SUBJECTS
from benchmarks.visits import summarise
from tests.needs import require_chromium

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_runs_and_says_whether_its_bars_hold(subject: str, tmp_path: Path) -> None:
    if subject == "browser":
        require_chromium()
    table = tmp_path / "table.md"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", subject, "--tiny", "--markdown", str(table)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    figures = [line for line in done.stdout.splitlines() if line.startswith(f"{subject} ")]
    assert len(figures) >= 3, done.stdout
    assert not [line for line in figures if "skipped" in line]
    assert len(table.read_text(encoding="utf-8").splitlines()) == len(figures) + 2


def test_an_unknown_subject_is_refused_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", "cal"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no subject cal; there are codec, call," in done.stderr


def test_a_ratio_is_the_median_of_the_pairs_not_the_ratio_of_medians() -> None:
    # The machine was slow in the last pair: both were.
    found = summarise([(10, 20), (10, 20), (10, 21), (100, 200)])
    assert found.ratio == 2
    assert (found.a, found.b) == (10, 20.5)
    assert found.inverse.ratio == 0.5


def test_a_bar_is_told_beside_its_figure() -> None:
    held, missed = at_most("call", "p50", 2.0, 2.5), at_least("call", "rate", 0.2, 0.3)
    assert (held.bar, held.verdict) == ("≤ 2.5 x", "ok")
    assert (missed.bar, missed.verdict) == ("≥ 0.3 x", "MISS")
    table = to_markdown([held, missed, skipped("call", "peer", "not installed")])
    assert "| call | rate | 0.2 x | ≥ 0.3 x | MISS" in table
    assert "| call | peer |  |  | skipped not installed |" in table

"""`make bench`: every figure that the project promises, as ratios measured in one run.

    python -m benchmarks.run [SUBJECT …] [--tiny] [--markdown FILE]

It reports and never fails: on a shared machine a MISS is a question, not a verdict.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from pathlib import Path

from .report import Figure, print_figure, to_markdown
from .visits import FULL, TINY

__all__ = ["SUBJECTS", "main"]

# A module of this package each, from cheap to dear.
SUBJECTS = ("codec", "call", "states", "many", "start", "memory", "browser")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Report on speed.")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--tiny", action="store_true", help="only see that they run")
    parser.add_argument("--markdown", type=Path, help="write the table to a file, too")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.subjects if name not in SUBJECTS]
    if unknown:
        parser.error(f"no subject {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}; floor: two Python processes, pipes, orjson; "
        "(quartiles of the pair ratios)",
        flush=True,
    )
    figures: list[Figure] = []
    for subject in options.subjects or SUBJECTS:
        module = importlib.import_module(f"benchmarks.{subject}")
        for figure in module.measure(TINY if options.tiny else FULL):
            print_figure(figure)
            figures.append(figure)
    missed = [figure for figure in figures if figure.verdict == "MISS"]
    bars = sum(figure.verdict in ("ok", "MISS") for figure in figures)
    print(f"{bars - len(missed)} of {bars} bars held", flush=True)
    if options.markdown is not None:
        options.markdown.write_text(to_markdown(figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

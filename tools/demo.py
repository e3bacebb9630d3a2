"""Runs a notebook without a browser and prints what each cell shows; the exit code tells.

python tools/demo.py notebooks/01_quickstart.ipynb
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

CELL_LIMIT_S = 120
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def run(path: Path) -> int:
    """Run every cell; returns 1 at the first that fails, as the exit code."""
    if not path.exists():
        print(f"there is no {path}", file=sys.stderr)
        return 1
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT_S,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # no word about its transport
        resources={"metadata": {"path": str(path.parent)}},
    )
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "markdown":
                print(f"{cell.source.strip()}\n")
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            print(f"In [{index}]:\n{textwrap.indent(cell.source, '    ')}")
            try:
                client.execute_cell(cell, index)
            except (CellExecutionError, DeadKernelError) as failure:
                print(_COLOURS.sub("", str(failure)))
                return 1
            shown = "\n".join(filter(None, map(show, cell.outputs)))
            print(f"{textwrap.indent(shown.rstrip(), '  | ')}\n")
    return 0


def show(output: nbformat.NotebookNode) -> str:
    """What a reader of plain text sees of one output."""
    if output.output_type == "stream":
        return str(output.text).rstrip("\n")
    if output.output_type == "error":  # expected by the cell, or it would not have got here
        return f"{output.ename}: {output.evalue}"
    return str(output.get("data", {}).get("text/plain", ""))


def main(arguments: list[str]) -> int:
    # Its own state directory, so that a demonstration neither asks nor remembers anything.
    with tempfile.TemporaryDirectory(prefix="piweb-demo-") as state:
        os.environ["PIWEB_TRUST"] = "always"
        os.environ["PIWEB_STATE_DIR"] = state
        for path in map(Path, arguments):
            if code := run(path):
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

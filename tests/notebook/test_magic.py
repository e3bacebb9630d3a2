"""`%piweb` and `%%piweb` in a plain IPython: everything but the views."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import piweb_jupyter as piweb
from piweb_jupyter.errors import (
    AgentExitedError,
    AgentNotTrusted,
    AgentStartError,
    RequestError,
    SessionConflictError,
    SessionNotFoundError,
    SourceError,
    TurnError,
)
from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.notebook.options import SUBCOMMANDS, UsageError
from piweb_jupyter.notebook.sessions import get_sessions
from tests.notebook.conftest import EXAMPLES, ROOT, Run


def copy_agent(name: str, to: Path) -> Path:
    shutil.copytree(EXAMPLES / name, to, ignore=shutil.ignore_patterns("__pycache__"))
    return to


def text(value: object) -> str:
    return str(value)


def test_a_session_from_its_start_to_its_end(run: Run) -> None:
    started = run("%piweb ./examples/counter_agent")
    assert started.error is None
    assert text(started.result).splitlines()[:2] == [
        "counter_agent: ready",
        "  surface demo: increment, echo, reset",
    ]
    session = piweb.open("./examples/counter_agent")
    assert session is piweb.open(name="counter_agent") is piweb.open()
    assert session.surface().run("increment", by=2) == {"count": 2}

    run("n = 10")
    turn = run('%%piweb\nCALL increment {"by": {n}}')
    assert turn.error is None
    assert turn.out.splitlines() == [
        "counter_agent:",
        "I will call `increment`.",
        '· increment {"by": 10}',
        '  increment returned {"count":12}',
        '`increment` returned: {"count":12}',
    ]
    assert repr(turn.result) == "<Turn done, 1 tool call>"
    assert session.surface("demo").state["log"] == ["+2 by cell", "+10 by llm"]

    assert text(run("%piweb list").result) == (
        "*  counter_agent  ready  demo  ./examples/counter_agent"
    )
    assert text(run("%piweb status").result).splitlines() == [
        "counter_agent: ready",
        "  source     ./examples/counter_agent (python)",
        "  model      stub",
        "  surface    demo, rev 2",
        "  chat       3 messages",
    ]

    assert text(run("%piweb stop counter_agent").result) == "counter_agent: stopped"
    assert session.lifecycle == "ended"
    assert "demo, rev 2, agent offline" in text(run("%piweb status").result)
    with pytest.raises(AgentExitedError, match="%piweb restart counter_agent"):
        session.surface("demo").run("increment")

    assert run("%piweb restart").error is None
    assert (session.lifecycle, session.epoch) == ("ready", 2)
    assert session.surface("demo").run("increment") == {"count": 1}

    assert text(run("%piweb stop --forget").result) == "counter_agent: forgotten"
    assert session.closed
    assert "there is no session" in text(run("%piweb list").result)


def test_the_demo_needs_neither_a_path_nor_a_question(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIWEB_TRUST", "ask")
    monkeypatch.setattr("builtins.input", _fail)
    assert run("%piweb demo").error is None
    assert piweb.open(name="demo").surface("demo").run("increment") == {"count": 1}


def test_the_demo_is_the_counter_example() -> None:
    package = Path(piweb.__file__).parent / "demo"
    for file in ("agent.py", "view.js", "view.css"):
        assert (package / file).read_bytes() == (EXAMPLES / "counter_agent" / file).read_bytes()


def test_a_new_agent_runs_as_it_is_written(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "my agent"
    written = run(f'%piweb new "{target}"')
    assert written.error is None
    named = re.search(r'%piweb "(.+)"', text(written.result))
    assert named is not None
    assert (ROOT / named[1]).resolve() == target.resolve()  # told from here, where that is shorter
    assert run(f'%piweb "{target}" -n mine').error is None
    todo = piweb.open(name="mine").surface("todo")
    assert todo.run("add", text="tea") == 1
    assert todo.run("finish", text="tea") == "tea"
    assert todo.state == {"items": [], "done": 1}
    with pytest.raises(piweb.errors.SurfaceCommandError, match="'cake' is not on the list"):
        todo.run("finish", text="cake")
    turn = run('%%piweb\nCALL word_count {"text": "one two"}\nCALL add {"text": "milk"}')
    assert [call.output for call in turn.result.tool_calls] == ["2", "1"]

    again = run(f'%piweb new "{target}"')
    assert isinstance(again.error, SourceError)
    assert "is there and not empty" in again.told
    assert isinstance(run("%piweb new").error, UsageError)


# ---------------------------------------------------------------- identity


def test_the_name_decides_which_session_it_is(run: Run, tmp_path: Path) -> None:
    one = piweb.open(copy_agent("hello_agent", tmp_path / "a" / "hello"))
    two = piweb.open(copy_agent("hello_agent", tmp_path / "b" / "hello"))
    assert (one.name, two.name) == ("hello", "hello-2")
    assert piweb.open(tmp_path / "b" / "hello") is two
    third = piweb.open(tmp_path / "a" / "hello", name="third")
    assert third is not one
    assert piweb.open(tmp_path / "a" / "hello") is one

    taken = run(f"%piweb {tmp_path}/b/hello -n hello")
    assert isinstance(taken.error, SessionConflictError)
    assert "--replace" in taken.told
    assert "\n" not in taken.told
    other = run(f"%piweb {tmp_path}/a/hello -n hello --model openai:gpt")
    assert isinstance(other.error, SessionConflictError)
    assert "was started with the agent's own model, not openai:gpt" in other.told

    assert run(f"%piweb {tmp_path}/b/hello -n hello --replace").error is None
    assert one.closed
    assert piweb.open(name="hello").spec.path == tmp_path / "b" / "hello"


def test_running_the_cell_again_attaches(run: Run) -> None:
    for _ in range(5):
        assert run("%piweb ./examples/hello_agent").error is None
    assert get_sessions().names == ["hello_agent"]
    assert piweb.open(name="hello_agent").epoch == 1


def test_threads_that_open_one_name_at_once_get_one_session(run: Run) -> None:
    opened: list[AgentSession] = []
    threads = [
        threading.Thread(target=lambda: opened.append(piweb.open("examples/hello_agent")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 8
    assert len(set(opened)) == 1
    assert opened[0].epoch == 1


def test_a_session_closed_by_hand_makes_room_for_a_new_one(run: Run) -> None:
    with piweb.open("examples/hello_agent") as session:
        assert session.lifecycle == "ready"
    assert "there is no session" in text(run("%piweb list").result)
    again = piweb.open("examples/hello_agent")
    assert again is not session
    assert again.name == "hello_agent"


def test_reloading_the_extension_closes_and_begins_anew(run: Run) -> None:
    session = piweb.open("examples/hello_agent")
    assert run("%reload_ext piweb_jupyter").error is None
    assert session.closed
    assert "there is no session" in text(run("%piweb list").result)
    again = piweb.open("examples/hello_agent")
    assert again is not session
    assert run("%%piweb\nSAY here").result.text == "here"


def test_an_ended_agent_is_started_again_by_its_cell(run: Run) -> None:
    session = piweb.open("examples/hello_agent")
    session.stop()
    assert run("%piweb ./examples/hello_agent").error is None
    assert (session.lifecycle, session.epoch) == ("ready", 2)
    session.stop()
    assert piweb.open(name="hello_agent").epoch == 3


def test_files_that_changed_are_named_until_the_restart(run: Run, tmp_path: Path) -> None:
    source = copy_agent("hello_agent", tmp_path / "hello")
    assert run(f"%piweb {source}").error is None
    agent = source / "agent.py"
    agent.write_text(agent.read_text().replace("Hello", "Welcome"), encoding="utf-8")
    attached = run(f"%piweb {source}")
    assert "agent.py changed since the agent was started; %piweb restart hello" in attached.out
    assert "changed    agent.py" in text(run("%piweb status").result)
    session = piweb.open(name="hello")
    assert list(session.changes) == ["agent.py"]
    assert run("%piweb restart").error is None
    assert run(f"%piweb {source}").out == ""
    assert list(session.changes) == []
    turn = run('%%piweb\nCALL greet {"name": "Ada"}').result
    assert turn.tool_calls[0].output == "Welcome, Ada!"


def test_a_prompt_goes_to_the_session_last_started_or_shown(run: Run) -> None:
    piweb.open("examples/hello_agent")
    piweb.open("examples/counter_agent")
    assert run("%%piweb\nSAY one").out.startswith("counter_agent:\n")
    assert run("%%piweb -n hello_agent\nSAY two").out.startswith("hello_agent:\n")
    assert run("%%piweb\nSAY three").out.startswith("hello_agent:\n")
    assert run("%piweb show counter_agent").error is None
    assert run("%%piweb\nSAY four").out.startswith("counter_agent:\n")
    assert run("%%piweb ./examples/state_agent\nSAY five").out.startswith("state_agent:\n")


# ---------------------------------------------------------------- prompts


def test_a_prompt_is_expanded_once_from_the_users_variables(run: Run) -> None:
    piweb.open("examples/hello_agent")
    run("secret = 'never'\nvalue = '{secret}'")
    turn = run('%%piweb\nSAY {value} {"a": 1} {unknown} {{secret}}').result
    assert turn.text == '{secret} {"a": 1} {unknown} {secret}'
    failed = run("%%piweb\nSAY {value.nothing}")
    assert "nothing was sent" in failed.told
    assert len(piweb.open().transcript.messages) == 2
    assert "the prompt is empty" in run("%%piweb\n  ").told


def test_a_turn_that_fails_fails_the_cell(run: Run) -> None:
    piweb.open("examples/hello_agent")
    failed = run("%%piweb\nFAIL out of tokens")
    assert isinstance(failed.error, TurnError)
    assert failed.told == "TurnError: out of tokens"


def test_a_prompt_while_the_agent_is_busy_says_what_to_do(run: Run) -> None:
    session = piweb.open("examples/hello_agent")
    turn = session.prompt("SLOW 1000 10")
    busy = run("%%piweb\nhello")
    assert isinstance(busy.error, RequestError)
    assert "session.steer(text)" in busy.told
    turn.abort()
    assert turn.wait(20).aborted


def test_an_interrupt_stops_the_turn_and_not_the_agent(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = piweb.open("examples/hello_agent")
    pid = session.pid

    def write(text: str) -> None:
        if not text.startswith("hello_agent"):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("piweb_jupyter.notebook.magic._write", write)
        stopped = run("%%piweb\nSLOW 1000 10")
    assert isinstance(stopped.error, KeyboardInterrupt)
    assert not session.busy
    assert session.pid == pid
    assert run("%%piweb -n hello_agent\nSAY on we go").result.text == "on we go"


def test_a_prompt_stopped_while_its_agent_starts_is_never_sent(run: Run) -> None:
    session = piweb.open("examples/hello_agent", wait=False)
    turn = session.prompt("SAY never")
    turn.abort()
    assert turn.wait(0).aborted
    session.wait_ready()
    assert session.prompt("SAY but this").wait(30).text == "but this"
    assert "never" not in str(session.transcript.messages)


# ---------------------------------------------------------------- the bad input


def bad_agents(tmp_path: Path) -> dict[str, Path]:
    sources = {
        "syntax": "def agent(:\n",
        "import": "import no_such_module_at_all\n",
        "none": "x = 1\n",
        "twice": (
            "from piweb_jupyter.agent import create_surface, define_agent\n"
            "agent = define_agent(surfaces=[create_surface('a', {}), create_surface('a', {})])\n"
        ),
    }
    for name, source in sources.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(source, encoding="utf-8")
    return {name: tmp_path / name for name in sources}


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("syntax", "has a syntax error"),
        ("import", "no_such_module_at_all"),
        ("none", "agent"),
        ("twice", "two surfaces have the domain `a`"),
    ],
)
def test_an_agent_that_cannot_start_fails_the_cell_with_its_own_words(
    run: Run, tmp_path: Path, kind: str, told: str
) -> None:
    source = bad_agents(tmp_path)[kind]
    failed = run(f"%piweb {source} --wait")
    assert isinstance(failed.error, AgentStartError)
    first = failed.told.splitlines()[0]
    assert first.startswith(f"AgentStartError: {kind} did not start")
    assert told in first
    # Mended, the same line starts it.
    (source / "agent.py").write_text(
        "from piweb_jupyter.agent import define_agent\nagent = define_agent(model='stub')\n",
        encoding="utf-8",
    )
    assert run(f"%piweb {source} --wait").error is None


@pytest.mark.parametrize(
    ("line", "error", "told"),
    [
        ("./examples/contuer_agent", SourceError, "did you mean './examples/counter_agent'?"),
        ("./nowhere", SourceError, "there is no './nowhere'"),
        (
            "./CHANGELOG.md",
            SourceError,
            "CHANGELOG.md is no agent: expected a directory, a .py file",
        ),
        ("/usr", SourceError, "npm install -g @earendil-works/pi-coding-agent"),
        ("./examples/hello_agent --modle x", UsageError, "did you mean --model?"),
        ("statsu", UsageError, "did you mean status?"),
        ("show nobody", SessionNotFoundError, "there is no session 'nobody'"),
        ("--cmd nosuchprogram", SourceError, "there is no program 'nosuchprogram'"),
        ("help strat", UsageError, "there is no subcommand 'strat'"),
        ("logs --lines many", UsageError, "--lines needs a number, not 'many'"),
        ("logs", SessionNotFoundError, "there is no session; start one: %piweb ./my_agent"),
    ],
)
def test_bad_input_gets_one_clear_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: str, error: type[Exception], told: str
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("PIWEB_PI", raising=False)
    failed = run(f"%piweb {line}")
    assert isinstance(failed.error, error)
    assert told in failed.told
    assert "\n" not in failed.told


def test_a_misspelt_session_gets_the_nearest(run: Run) -> None:
    piweb.open("examples/hello_agent")
    assert "did you mean 'hello_agent'?" in run("%piweb stop helo_agent").told
    assert "%piweb show hello_agent" in run("%piweb hello_agent").told
    assert "did you mean hello_agent?" in run("%piweb hello_agnet").told


def test_a_path_with_spaces_and_umlauts_starts(run: Run, tmp_path: Path) -> None:
    source = copy_agent("hello_agent", tmp_path / "mein Agent für 数")
    assert run(f"%piweb '{source}'").error is None
    assert run("%%piweb -n 'mein Agent für 数'\nSAY ja").result.text == "ja"


def test_a_wrong_argument_is_named(run: Run) -> None:
    surface = piweb.open("examples/counter_agent").surface("demo")
    for arguments, told in (({"by": "x"}, "by: "), ({"by": 0}, "by: "), ({"bye": 1}, "bye: ")):
        with pytest.raises(piweb.errors.SurfaceCommandError, match=told) as caught:
            surface.run("increment", arguments)
        assert caught.value.code == "invalid_args"
    with pytest.raises(piweb.errors.SurfaceCommandError, match="incremnt") as caught:
        surface.run("incremnt")
    assert caught.value.code == "unknown_action"


# ---------------------------------------------------------------- trust


def _fail(question: str) -> str:
    raise AssertionError(f"asked: {question}")


def test_a_source_asks_once_and_no_fails_the_cell(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = copy_agent("hello_agent", tmp_path / "asked")
    monkeypatch.setenv("PIWEB_TRUST", "ask")
    asked: list[str] = []

    def answering(answer: str) -> Callable[[str], str]:
        def ask(question: str) -> str:
            asked.append(question)
            return answer

        return ask

    monkeypatch.setattr("builtins.input", answering("n"))
    refused = run(f"%piweb {source}")
    assert isinstance(refused.error, AgentNotTrusted)
    assert get_sessions().names == []
    assert str(source) in asked[0]
    monkeypatch.setattr("builtins.input", answering("y"))
    assert run(f"%piweb {source}").error is None
    monkeypatch.setattr("builtins.input", _fail)
    assert run(f"%piweb {source} --replace").error is None


def test_without_a_person_it_names_the_two_ways_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = copy_agent("hello_agent", tmp_path / "unasked")
    monkeypatch.setenv("PIWEB_TRUST", "ask")
    monkeypatch.setattr("builtins.input", _raise(EOFError()))
    refused = run(f"%piweb {source}")
    assert isinstance(refused.error, AgentNotTrusted)
    assert "--trust" in refused.told
    assert "PIWEB_TRUST=always" in refused.told
    assert run(f"%piweb {source} --trust").error is None
    monkeypatch.setenv("PIWEB_TRUST", "never")
    assert "says never" in run(f"%piweb {source} --replace --trust").told


def _raise(error: BaseException) -> Callable[[str], str]:
    def ask(question: str) -> str:
        raise error

    return ask


# ---------------------------------------------------------------- configuration and help


def test_config_holds_the_defaults(run: Run, tmp_path: Path) -> None:
    listed = run("%config PiwebMagics").out
    for name in ("model", "trust", "python", "node", "pi", "runner", "display", "wait"):
        assert f"PiwebMagics.{name}=" in listed
    run("%config PiwebMagics.model = 'stub'")
    assert run(f"%piweb {copy_agent('hello_agent', tmp_path / 'h')}").error is None
    assert piweb.open(name="h").spec.model == "stub"
    run("%config PiwebMagics.trust = 'never'")
    os.environ.pop("PIWEB_TRUST")
    try:
        refused = run("%piweb ./examples/counter_agent")
    finally:
        os.environ["PIWEB_TRUST"] = "always"
    assert "%config PiwebMagics.trust says never" in refused.told
    run("%config PiwebMagics.python = '/no/python'")
    failed = run("%piweb ./examples/counter_agent")
    assert "/no/python" in failed.told
    run("%config PiwebMagics.python = ''")
    assert run("%piweb ./examples/counter_agent").error is None


def test_help_tells_everything(run: Run, shell: Any) -> None:
    told = text(run("%piweb help").result)
    for name in SUBCOMMANDS:
        assert f"\n    {name}" in told
        assert text(run(f"%piweb help {name}").result).startswith(f"%piweb {name}")
    info = shell.object_inspect("%piweb")
    assert "%piweb SOURCE [options]" in info["docstring"]
    assert text(run("%piweb --help").result) == told
    assert text(run("%piweb").result) == told
    assert text(run("%piweb version").result).startswith(f"piweb-jupyter {piweb.__version__}")


def test_doctor_names_the_next_step_of_whatever_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piweb.open("examples/hello_agent").stop()
    monkeypatch.setenv("PIWEB_NODE", "/no/node")
    monkeypatch.setenv("PATH", "")
    told = text(run("%piweb doctor ./nowhere").result)
    assert "ok       agents" in told
    assert "PIWEB_NODE names '/no/node'" in told
    assert "→ npm install -g @earendil-works/pi-coding-agent" in told
    assert "→ %piweb restart hello_agent" in told
    assert "there is no './nowhere'" in told.splitlines()[-1]
    monkeypatch.setenv("PIWEB_TRUST", "perhaps")
    assert "blocked  trust" in text(run("%piweb doctor").result)


def test_logs_hold_what_the_agent_printed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "from piweb_jupyter.agent import define_agent\n"
        "print('one')\nprint('two')\nagent = define_agent()\n",
        encoding="utf-8",
    )
    assert run(f"%piweb {tmp_path} -n chatty --wait").error is None
    assert text(run("%piweb logs").result) == "one\ntwo"
    assert text(run("%piweb logs chatty --lines 1").result) == "two"


def test_a_command_that_speaks_the_wire_is_an_agent(run: Run) -> None:
    import sys

    started = run(
        f'%piweb --cmd "{sys.executable} -m piweb_jupyter.runner --agent examples/hello_agent" -n c'
    )
    assert started.error is None
    assert piweb.open(name="c").spec.kind == "command"
    assert run("%%piweb\nSAY yes").result.text == "yes"
    assert "the command's own business" in run("%piweb --cmd x --model stub").told


# ---------------------------------------------------------------- the end


def test_unloading_leaves_nothing_behind(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    def traces() -> dict[str, object]:
        return {
            "line": sorted(shell.magics_manager.magics["line"]),
            "cell": sorted(shell.magics_manager.magics["cell"]),
            "registry": sorted(shell.magics_manager.registry),
            "configurables": [type(c).__name__ for c in shell.configurables],
            "matchers": list(shell.Completer.custom_matchers),
            "printers": len(shell.display_formatter.formatters["text/plain"].deferred_printers),
            "callbacks": {k: list(v) for k, v in shell.events.callbacks.items()},
            "threads": sorted(thread.name for thread in threading.enumerate()),
        }

    shell.run_cell("%load_ext piweb_jupyter")  # IPython loads magics of its own on the way
    shell.run_cell("%unload_ext piweb_jupyter")
    assert "piweb" not in {
        *shell.magics_manager.magics["line"],
        *shell.magics_manager.magics["cell"],
    }
    before = traces()
    for _ in range(2):
        shell.run_cell("%load_ext piweb_jupyter")
        assert shell.run_cell("%piweb ./examples/counter_agent").success
        session = piweb.open(name="counter_agent")
        pid = session.pid
        assert pid is not None
        shell.run_cell("%unload_ext piweb_jupyter")
        assert session.closed
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert traces() == before


def test_the_package_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, piweb_jupyter, piweb_jupyter.agent\n"
        "print([m for m in ('ipywidgets', 'IPython', 'asyncio', 'pydantic') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_public_names_are_there() -> None:
    for name in piweb.__all__:
        assert getattr(piweb, name) is not None
    assert set(piweb.__all__) <= set(dir(piweb))
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = piweb.opne

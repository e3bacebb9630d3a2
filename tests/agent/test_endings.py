"""How an agent ends: in order if it can, in time in any case; and how one that is wrong says so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.child import PATIENCE, Child
from tests.agent.conftest import Launch

BUSY = """
    import asyncio, atexit, os, subprocess, sys, threading, time
    from piweb_jupyter.agent import create_surface, define_agent

    demo = create_surface("demo", {"n": 0})
    forever = threading.Event()

    @demo.command
    def think(ctx):
        ctx.set_state({"n": 1})
        while True:
            pass

    @demo.command
    def doze(ctx):
        ctx.set_state({"n": 1})
        time.sleep(3600)

    @demo.command
    def hang(ctx):
        ctx.set_state({"n": 1})
        forever.wait()

    @demo.command
    async def wait(ctx):
        ctx.set_state({"n": 1})
        await asyncio.Event().wait()

    @demo.command
    async def refuse(ctx):
        ctx.set_state({"n": 1})
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

    @demo.command
    async def block(ctx):
        ctx.set_state({"n": 1})
        time.sleep(3600)

    @demo.command
    def spawn(ctx):
        async def work():
            try:
                ctx.set_state({"n": 1})
                await asyncio.Event().wait()
            finally:
                print("spawned work was told to end")

        ctx.spawn(work())

    @demo.command
    def thread(ctx):
        threading.Thread(target=forever.wait).start()
        ctx.set_state({"n": 1})

    @demo.command
    def leave(ctx, code: int = 3):
        sys.exit(code)

    @demo.command
    async def leave_later(ctx, code: int = 3):
        sys.exit(code)

    @demo.command
    def leave_spawned(ctx, code: int = 3):
        async def work():
            sys.exit(code)

        ctx.spawn(work())

    @demo.command
    def vanish(ctx):
        os._exit(7)

    @demo.command
    def idle(ctx):
        ctx.set_state({"n": 1})

    atexit.register(print, "the end was orderly")
    agent = define_agent(surfaces=[demo])
"""
EVERY_KIND = ["idle", "think", "doze", "hang", "wait", "refuse", "block", "spawn", "thread"]


@pytest.mark.parametrize("action", EVERY_KIND)
def test_an_agent_ends_when_its_host_closes_stdin_whatever_it_does(
    launch: Launch, action: str
) -> None:
    child = launch(BUSY).ready()
    id_ = child.command(action)
    child.state(rev=1)
    assert child.close() == 0
    child.wait_end()
    answers = [line for line in child.lines if line["type"] == "ui_rpc_response"]
    done = action in ("idle", "spawn", "thread")
    assert [line["response"]["correlationId"] for line in answers] == ([id_] if done else [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("action", EVERY_KIND)
def test_an_agent_ends_on_a_signal_whatever_it_does(
    launch: Launch, action: str, number: signal.Signals
) -> None:
    child = launch(BUSY).ready()
    child.command(action)
    child.state(rev=1)
    child.signal(number)
    assert child.wait_end() == 128 + number


def test_spawned_work_is_cancelled_and_exit_handlers_run(launch: Launch) -> None:
    child = launch(BUSY).ready()
    child.run("spawn")
    child.state(rev=1)
    child.close()
    child.wait_end()
    assert "spawned work was told to end" in child.said
    assert "the end was orderly" in child.said


@pytest.mark.parametrize("action", ["leave", "leave_later", "leave_spawned"])
def test_an_agent_that_exits_takes_its_code_with_it(launch: Launch, action: str) -> None:
    child = launch(BUSY).ready()
    child.command(action, {"code": 5})
    assert child.wait_end() == 5


def test_an_agent_that_vanishes_is_gone_at_once(launch: Launch) -> None:
    child = launch(BUSY).ready()
    child.command("vanish")
    assert child.wait_end() == 7


def test_an_agent_whose_host_reads_no_more_ends(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "from piweb_jupyter.agent import *\n"
        "demo = create_surface('demo', {})\n"
        "@demo.command\n"
        "def push(ctx):\n"
        "    ctx.set_state({'pad': 'x' * 100})\n"
        "agent = define_agent(surfaces=[demo])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "piweb_jupyter.runner", "--agent", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"type":"get_state"}\n')
        process.stdin.flush()
        assert process.wait(PATIENCE) == 1


def test_an_agent_that_waits_for_a_host_that_does_not_read_ends_all_the_same(
    launch: Launch,
) -> None:
    child = launch(
        """
        from piweb_jupyter.agent import create_surface, define_agent
        demo = create_surface("demo", {})

        @demo.command
        def push(ctx):
            while True:
                ctx.set_state({"pad": "x" * 1_000_000})

        agent = define_agent(surfaces=[demo])
        """,
        reading=False,
    )
    child.command("push")
    child.wait_for_full_pipe()
    assert child.close() == 0


# ---------------------------------------------------------------- agents that are wrong

HEAD = "from piweb_jupyter.agent import create_surface, define_agent\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(
            "def increment(ctx:\n    pass\n",
            ["agent.py has a syntax error", "line 1", "was never closed", "correct the file"],
            id="a syntax error",
        ),
        pytest.param(
            "x = 1\x00\n", ["agent.py has a syntax error", "null bytes"], id="a null byte"
        ),
        pytest.param(
            "import nosuchmodule.sub\n",
            [
                "agent.py:1 imports `nosuchmodule`, and there is no such module",
                "-m pip install nosuchmodule",
            ],
            id="an import error",
        ),
        pytest.param(
            "\nfrom json import nosuchname\n",
            ["agent.py:2 has an import that fails", "nosuchname", "correct the import"],
            id="a name that is not there",
        ),
        pytest.param(
            "x = 1\n", ["agent.py defines no `agent`", "agent = define_agent(…)"], id="no agent"
        ),
        pytest.param(
            HEAD + "my_agent = define_agent()\n",
            ["agent.py defines no `agent`, but `my_agent` is one", "agent = my_agent"],
            id="another name",
        ),
        pytest.param(
            "agent = {'surfaces': []}\n",
            ["`agent` in", "is a dict, not an agent", "agent = define_agent(…)"],
            id="a wrong type",
        ),
        pytest.param(
            HEAD + "a = create_surface('demo', {})\nb = create_surface('demo', {})\n"
            "agent = define_agent(surfaces=[a, b])\n",
            ["two surfaces have the domain `demo`", "agent.py:4"],
            id="two surfaces of one domain",
        ),
        pytest.param(
            HEAD + "def helper():\n    raise ValueError('no shelf')\n\nhelper()\n",
            ["agent.py:3 raised ValueError", "ValueError: no shelf", "helper()", "correct it"],
            id="an exception",
        ),
        pytest.param(
            "import sys\nsys.exit(0)\n",
            ["ended the process (exit code 0)", "__name__"],
            id="an exit while loading",
        ),
        pytest.param(
            HEAD + "d = create_surface('demo', {})\n@d.command\ndef go(what, when): pass\n"
            "agent = define_agent(surfaces=[d])\n",
            ["command `go` of surface `demo` (agent.py:3) takes (what, when)", "(ctx, …)"],
            id="a handler without ctx",
        ),
        pytest.param(
            HEAD + "d = create_surface('demo', {})\n@d.command\ndef go(ctx, *rest): pass\n"
            "agent = define_agent(surfaces=[d])\n",
            ["command `go` of surface `demo` (agent.py:3)", "arguments come by name", "*rest"],
            id="a handler with positional arguments",
        ),
        pytest.param(
            HEAD + "d = create_surface('demo', {})\n@d.command\ndef go(ctx, x: Nowhere): pass\n"
            "agent = define_agent(surfaces=[d])\n",
            ["agent.py:4 raised NameError", "Nowhere"],
            id="an annotation that is not there",
        ),
        pytest.param(
            "from __future__ import annotations\n" + HEAD + "d = create_surface('demo', {})\n"
            "@d.command\ndef go(ctx, x: Nowhere): pass\nagent = define_agent(surfaces=[d])\n",
            ["command `go` of surface `demo` (agent.py:4)", "Nowhere", "import the name"],
            id="an annotation in quotes that is not there",
        ),
        pytest.param(
            HEAD + "import threading\nd = create_surface('demo', {})\n@d.command\n"
            "def go(ctx, x: threading.Lock): pass\nagent = define_agent(surfaces=[d])\n",
            ["command `go` of surface `demo` (agent.py:4)", "say no JSON"],
            id="an annotation that is no JSON",
        ),
        pytest.param(
            HEAD + "d = create_surface('demo', {'a': {1}})\n",
            ["the initial state of surface `demo`.a: set is not JSON", "agent.py:2"],
            id="a state that is no JSON",
        ),
        pytest.param(
            HEAD + "from pydantic import BaseModel\nclass D(BaseModel):\n    x: int\n"
            "d = create_surface('demo', D)\n",
            ["D needs values to start with", "D(…)", "agent.py:5"],
            id="a model without defaults",
        ),
        pytest.param(
            HEAD + "class D: pass\nd = create_surface('demo', D)\n",
            ["the class D is no pydantic model", "agent.py:3"],
            id="a class that is no model",
        ),
        pytest.param(
            HEAD + "d = create_surface('demo', {}, view='nowhere.js')\n"
            "agent = define_agent(surfaces=[d])\n",
            ["surface `demo`: cannot read its view", "nowhere.js: No such file"],
            id="no view",
        ),
        pytest.param(
            HEAD + "agent = define_agent()\n@agent.route('Data Set')\ndef data(r): pass\n",
            ["route 'Data Set'", "small letters", "agent.py:3"],
            id="a route's name",
        ),
        pytest.param(
            HEAD + "agent = define_agent(model='gpt')\n", ["gpt", "provider:name"], id="a model"
        ),
        pytest.param(
            HEAD + "agent = define_agent(surfaces=['demo'])\n",
            ["surfaces has a str in it", "create_surface(…)", "agent.py:2"],
            id="a surface that is a name",
        ),
    ],
)
def test_an_agent_that_is_wrong_says_what_where_and_what_to_do(
    launch: Launch, source: str, said: list[str]
) -> None:
    child = launch(source)
    assert child.wait_end() == 1
    assert child.lines == []
    assert child.said.startswith("piweb: the agent did not start: ")
    for text in said:
        assert text in child.said
    assert "/piweb_jupyter/" not in child.said
    assert "Traceback" not in child.said or "File" in child.said


def test_a_view_that_is_too_large_or_no_text_is_refused(launch: Launch, tmp_path: Path) -> None:
    for data, said in ((b"x" * 300_000, "292 KB, and 256 are allowed"), (b"\xff", "not UTF-8")):
        (tmp_path / "view.js").write_bytes(data)
        child = launch(
            HEAD + "d = create_surface('demo', {}, view='view.js')\n"
            "agent = define_agent(surfaces=[d])\n"
        )
        assert child.wait_end() == 1
        assert said in child.said


# ---------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "--agent is missing; usage: python -m piweb_jupyter.runner --agent PATH"),
        (["--agent"], 2, "--agent needs a value"),
        (["--agent", "nowhere"], 1, "there is no "),
        (["--agent", "."], 1, "has no agent.py"),
        (["--agent", "agent.py", "--cwd", "nowhere"], 1, "cannot work in 'nowhere'"),
    ],
)
def test_a_wrong_command_line_is_explained(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "piweb_jupyter.runner", *arguments],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (result.returncode, result.stdout) == (code, "")
    assert said in result.stderr


def test_pi_webs_options_are_taken_and_unknown_ones_noted(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    child = launch(
        HEAD + "import os\nd = create_surface('demo', {})\n@d.command\n"
        "def where(ctx):\n    return [os.getcwd(), os.environ['PI_WEB_SESSION_ID']]\n"
        "agent = define_agent(surfaces=[d])\n",
        *("--cwd", str(tmp_path / "elsewhere"), "--agent-dir", "/x", "--session-id=s1"),
        *("--model", "stub", "--source-meta", "{}", "--no-skills", "--no-extensions", "--new"),
    ).ready()
    assert child.run("where") == [str(tmp_path / "elsewhere"), "s1"]
    child.wait_said("unknown argument '--new' was passed over")


def test_an_agent_may_be_a_directory_with_an_entry_in_pyproject(tmp_path: Path) -> None:
    agent = tmp_path / "ägent dir"
    (agent / "src").mkdir(parents=True)
    (agent / "pyproject.toml").write_text("[tool.piweb]\nentry = 'src/main.py'\n")
    (agent / "src" / "helper.py").write_text("DOMAIN = 'from_helper'\n")
    (agent / "src" / "main.py").write_text(
        HEAD + "from helper import DOMAIN\nagent = define_agent("
        "surfaces=[create_surface(DOMAIN, {})])\n"
    )
    with Child(tmp_path, path=agent) as child:
        child.ready()
        assert child.lines[0]["domain"] == "from_helper"


@pytest.mark.parametrize(
    ("pyproject", "said"),
    [
        ("[tool.piweb]\nentry = 'nowhere.py'\n", "names the entry 'nowhere.py', and there is no"),
        ("[tool.piweb\n", "cannot read "),
    ],
)
def test_a_wrong_pyproject_is_explained(tmp_path: Path, pyproject: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(pyproject)
    with Child(tmp_path, path=tmp_path) as child:
        assert child.wait_end() == 1
        assert said in child.said


def test_an_agents_file_named_like_a_module_does_not_stand_in_for_it(tmp_path: Path) -> None:
    path = tmp_path / "random.py"
    path.write_text(HEAD + "import json\nagent = define_agent()\nassert __name__ != 'random'\n")
    with Child(tmp_path, path=path) as child:
        child.ready()
        answer: Any = child.lines[-1]
        assert answer["type"] == "runner_ready"

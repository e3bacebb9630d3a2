"""`%piweb` where it is at home: a real kernel, oldest and newest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.conftest import Kernel, Message

# Threads, processes, comms and files of ours. Not ours: ipykernel keeps an eventfd for a while for
# each thread that has published, and IPython writes its history when it likes (SQLite opens that
# file, its journal, and for a moment the profile's directory).
COUNT = """
import threading, os, comm
def is_ours(fd):
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False
    return "eventfd" not in target and "profile_default" not in target
def count():
    return {
        "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("piweb-")),
        "fds": sum(map(is_ours, os.listdir("/proc/self/fd"))),
        "comms": len(comm.get_comm_manager().comms),
        "children": sorted(
            open(f"/proc/{pid}/cmdline").read().replace("\\0", " ").split()[-1]
            for pid in os.listdir("/proc") if pid.isdigit()
            and open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1] == str(os.getpid())
        ),
    }
"""


def interrupt_at(kernel: Kernel, mark: str) -> Callable[[Message], None]:
    """Interrupts the kernel when `mark` is printed, once."""
    done: list[bool] = []

    def look(message: Message) -> None:
        if not done and mark in message["content"].get("text", ""):
            done.append(True)
            kernel.interrupt()

    return look


def count(kernel: Kernel) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kernel.check("import json\nprint(json.dumps(count()))").out)
    return found


def assert_nothing_more(kernel: Kernel, before: dict[str, Any]) -> None:
    now = count(kernel)
    assert now.pop("fds") <= before["fds"]
    assert now == {key: value for key, value in before.items() if key != "fds"}
    assert now["threads"] == now["children"] == []


def test_a_line_shows_the_view_and_a_cell_is_told_in_text(kernel: Kernel) -> None:
    shown = kernel.check("%piweb ./examples/counter_agent --wait")
    picture, bundle = shown.data
    assert list(picture) == ["text/html"]  # for whoever opens the notebook without a kernel
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == "<PiwebView of counter_agent>"
    assert shown.out == ""

    told = kernel.check('%%piweb\nCALL increment {"by": 10}')
    assert told.text == (
        'counter_agent\n· increment {"by": 10} → {"count":12}\n'.replace("12", "10")
        + '`increment` returned: {"count":10}'
    )
    assert len(told.data) == 1  # the stream has given way to the result
    again = kernel.check("s = piweb.open('./examples/counter_agent').surface()\ns.run('increment')")
    assert again.text == "{'count': 11}"
    assert kernel.check("s").text == "<Surface demo of counter_agent: rev 2>"


def test_a_person_sees_the_answer_stream_and_a_program_only_the_result(kernel: Kernel) -> None:
    kernel.check("%piweb ./examples/hello_agent --no-display --wait")
    shown: list[object] = []

    def note(message: Message) -> None:
        if message["msg_type"] == "display_data":
            shown.append(list(message["content"]["data"]))
        elif message["msg_type"] == "stream":
            shown.append(message["content"]["text"])

    kernel.finish(kernel.start("%%piweb\nSAY hello", answers=True), note)
    # Where clicks and greetings wait for the cell, a chat that is shown now stays empty.
    widget = ["application/vnd.jupyter.widget-view+json"]
    assert shown == (["hello\n"] if kernel.name == "ipykernel-6.31" else [widget])

    shown.clear()
    told = kernel.finish(kernel.start("%%piweb\nSAY hello"), note)
    assert (shown, told.text) == ([], "hello_agent\nhello")


def test_an_interrupt_aborts_the_turn_and_the_agent_lives(kernel: Kernel) -> None:
    kernel.check("%piweb ./examples/hello_agent --no-display --wait")
    # The turn tells that it runs, so that the interrupt comes in the middle of it.
    kernel.check(
        "session = piweb.open(name='hello_agent')\n"
        "pid = session.pid\n"
        "session.subscribe(lambda news: print('*', end='', flush=True)"
        " if type(news.value).__name__ == 'ContentDelta' else None)"
    )
    stopped = kernel.finish(kernel.start("%%piweb\nSLOW 2000 20"), interrupt_at(kernel, "*"))
    assert stopped.error == "KeyboardInterrupt"
    assert stopped.traceback.endswith("the turn was stopped; hello_agent lives on")
    assert "\n" not in stopped.traceback
    assert kernel.check("print(session.busy, session.pid == pid)").out == "False True\n"
    assert kernel.check("%%piweb --no-display\nSAY on we go").text == "hello_agent\non we go"


def test_an_interrupt_of_a_command_cancels_it_and_the_agent_lives(kernel: Kernel) -> None:
    kernel.check("%piweb ./examples/slow_agent --no-display --wait")
    kernel.check(
        "s = piweb.open().surface('work')\npid = s.session.pid\n"
        "s.observe(lambda state: print('now', flush=True) if state['thinking'] else None)"
    )
    stopped = kernel.finish(
        kernel.start("s.run('think', seconds=600)"), interrupt_at(kernel, "now")
    )
    assert stopped.error == "KeyboardInterrupt"
    done = kernel.check(
        "s.until(lambda state: not state['thinking']).wait()\nprint(s.session.pid == pid)"
    )
    assert done.out.endswith("True\n")


ASKER = """
from piweb_jupyter.agent import define_agent
agent = define_agent(model="stub")
@agent.tool
async def confirm(ctx) -> str:
    return str(await ctx.ui.confirm("Delete everything?", "It cannot be undone."))
@agent.tool
async def choose(ctx) -> str:
    return str(await ctx.ui.select("Which?", ["red", "blue"]))
@agent.tool
async def name(ctx) -> str:
    return str(await ctx.ui.input("Name?"))
"""


def test_a_question_in_the_middle_of_a_cell_finds_somebody_or_is_refused(
    kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(ASKER, encoding="utf-8")
    kernel.check(f"%piweb {tmp_path} -n asker --no-display --wait")

    told = kernel.check("%%piweb\nCALL confirm {}")
    assert "· confirm {} → False" in told.text  # a program cannot say yes

    # This front end makes no subshells, as some do: its clicks would wait for the cell.
    for tool, typed, got in (
        ("confirm", "y", "True"),
        ("choose", "2", "blue"),
        ("choose", "red", "red"),
        ("choose", "green", "None"),
        ("name", "Ada", "Ada"),
        ("name", "", "None"),
    ):
        sent = kernel.start(f"%%piweb\nCALL {tool} {{}}", answers=True)
        question = kernel.answer(typed)
        assert "?" in question
        assert f"· {tool} {{}} → {got}" in kernel.finish(sent).text


def test_doctor_knows_what_the_kernel_can_do(kernel: Kernel) -> None:
    told = kernel.check("%piweb doctor").text
    if kernel.name == "ipykernel-6.31":
        assert "a click waits while a cell runs" in told
        assert "→ pip install 'ipykernel>=7.1'" in told
    else:
        assert "clicks get through while a cell runs" in told
    assert "ok       views" in told


def test_unloading_leaves_no_thread_process_or_comm(kernel: Kernel) -> None:
    kernel.check(COUNT)
    # Once before counting: what is imported and opened for good is not a leak.
    kernel.check("%piweb ./examples/counter_agent --wait")
    kernel.check("%piweb stop --forget")
    first = count(kernel)
    kernel.check("%piweb ./examples/counter_agent --wait\n%piweb demo --wait")
    kernel.check("%%piweb\nSAY hello")
    kernel.check("%unload_ext piweb_jupyter")
    assert_nothing_more(kernel, first)
    missing = kernel.run("%piweb list")
    assert "UsageError" in missing.traceback or missing.error or not missing.data


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_fifty_times_started_and_forgotten_leaves_nothing(
    open_kernel: Callable[[str], Kernel],
) -> None:
    kernel = open_kernel("ipykernel-7.4")
    kernel.check("%load_ext piweb_jupyter")
    kernel.check(COUNT)
    again = (
        "ip = get_ipython()\n"
        "for _ in range({}):\n"
        "    ip.run_line_magic('piweb', './examples/hello_agent')\n"
        "    ip.run_line_magic('piweb', 'stop --forget')\n"
    )
    kernel.check(again.format(1))
    before = count(kernel)
    kernel.check(again.format(50), patience=300)
    assert_nothing_more(kernel, before)


def test_errors_are_one_clear_line_in_a_notebook_too(kernel: Kernel) -> None:
    for line, told in (
        ("%piweb ./examples/contuer_agent", "did you mean './examples/counter_agent'?"),
        ("%piweb ./examples/hello_agent --modle x", "did you mean --model?"),
        ("%piweb statsu", "did you mean status?"),
        ("%piweb stop nobody", "there is no session 'nobody'"),
    ):
        failed = kernel.run(line)
        assert told in failed.traceback
        assert "\n" not in failed.traceback
        assert failed.error in ("SourceError", "UsageError", "SessionNotFoundError")


def test_the_answer_to_the_trust_question_is_asked_for_or_refused(
    kernel: Kernel, tmp_path: Path
) -> None:
    kernel.check(
        "import os, shutil\nos.environ['PIWEB_TRUST'] = 'ask'\n"
        f"shutil.copytree('examples/hello_agent', {str(tmp_path)!r} + '/asked')"
    )
    refused = kernel.run(f"%piweb {tmp_path}/asked --no-display")
    assert refused.error == "AgentNotTrusted"
    assert "--trust" in refused.traceback
    assert "PIWEB_TRUST=always" in refused.traceback
    kernel.check(f"%piweb {tmp_path}/asked --no-display --trust")

"""The agent's pipes: lines of every kind come in, whole lines go out, prints go elsewhere."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.agent.child import COUNTER, Child, ui_rpc
from tests.agent.conftest import Launch

CLICK = b'{"type":"ui_rpc","request":{"correlationId":"%s","point":"command","action":"execute",'
CLICK += b'"payload":{"domain":"demo","action":"increment","args":%s},"protocolVersion":"0.1.0"}}'

# ---------------------------------------------------------------- hostile lines


def is_parse_error(line: Any) -> bool:
    return (
        line["type"] == "response"
        and line.get("command") == "parse"
        and line["success"] is False
        and "id" not in line
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"not JSON", id="words"),
        pytest.param(b"   ", id="blanks"),
        pytest.param(b'\xef\xbb\xbf{"type":"get_state"}', id="a BOM"),
        pytest.param(b'{"type":"get_state"}{"type":"get_state"}', id="two objects"),
        pytest.param(b'{"type":"get_state","x":"a\x01b"}', id="a raw control character"),
        pytest.param(b'{"type":"get_state"', id="half an object"),
        pytest.param(b"[" * 200_000, id="open brackets"),
        pytest.param(b"[" * 200_000 + b"]" * 200_000, id="nesting 200,000 deep"),
    ],
)
def test_a_line_that_is_not_json_is_answered_as_pi_answers_it(counter: Child, line: bytes) -> None:
    counter.send(line + b"\n")
    counter.wait(is_parse_error)
    counter.wait_said("a line was not understood")
    assert counter.run("increment") == {"count": 1}


@pytest.mark.parametrize(
    "line", [b"null", b"[]", b"[1]", b"7", b'"text"', b"true", b"{}", b'{"type":null}']
)
def test_json_that_is_no_command_is_answered_with_an_error(counter: Child, line: bytes) -> None:
    counter.send(line + b"\n")
    answer = counter.wait(lambda line: line["type"] == "response")
    assert answer["success"] is False
    assert answer["error"].startswith("Unknown command: ")
    assert counter.run("increment") == {"count": 1}


@pytest.mark.parametrize(
    ("args", "data"),
    [
        pytest.param(b'{"by":2}\r', {"count": 2}, id="CRLF"),
        pytest.param(b'{"by":1,"by":3}', {"count": 3}, id="a key twice"),
        pytest.param(b'{"by":1e400}', "invalid_args", id="1e400"),
        pytest.param(b'{"by":NaN}', "invalid_args", id="NaN"),
        pytest.param(b'{"by":"\\ud83d"}', "invalid_args", id="a lone surrogate"),
        pytest.param(b'{"by":"\xff\xfe"}', "invalid_args", id="invalid UTF-8"),
        pytest.param('{"by":"\u2028\u2029\x85"}'.encode(), "invalid_args", id="U+2028"),
        pytest.param(b'{"by":9007199254740993}', "unserializable", id="beyond 2^53"),
        pytest.param(b'{"by":' + b"9" * 400 + b"}", "invalid_args", id="400 digits"),
        pytest.param(b'{"by":' + b"9" * 5000 + b"}", "invalid_args", id="5,000 digits"),
        pytest.param(
            b'{"by":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "invalid_args", id="200,000 deep"
        ),
        pytest.param(b'{"by":' + b"[" * 800 + b"]" * 800 + b"}", "invalid_args", id="800 deep"),
    ],
)
def test_odd_arguments_get_an_answer(counter: Child, args: bytes, data: Any) -> None:
    if args.endswith(b"\r"):
        counter.send(CLICK % (b"odd", args[:-1]) + b"\r\n")
    else:
        counter.send(CLICK % (b"odd", args) + b"\n")
    outcome = counter.outcome("odd")
    assert (outcome if isinstance(data, dict) else outcome["code"]) == data
    assert counter.run("increment")["count"] >= 1


def test_odd_text_comes_back_as_it_went_in(launch: Launch) -> None:
    child = launch("""
        from piweb_jupyter.agent import create_surface, define_agent
        demo = create_surface("demo", {})

        @demo.command
        def keep(args, ctx):
            ctx.set_state(args)
            return args

        agent = define_agent(surfaces=[demo])
    """).ready()
    text = "line\u2028para\u2029next\x85 \U0001f600 \x7f ünïcödé"
    assert child.run("keep", {"text": text}) == {"text": text}
    assert child.state()["value"] == {"text": text}
    child.send(
        CLICK.replace(b"increment", b"keep") % (b"x", b'{"a":"\\ud83d!","b":"\xff"}') + b"\n"
    )
    assert child.outcome("x") == {"a": "\ufffd!", "b": "\ufffd"}


def test_a_line_cut_anywhere_is_one_line(counter: Child) -> None:
    line = (CLICK % (b"c%d", b'{"by":1}')).replace(b"demo", "dëmo".encode()) + b"\n"
    for cut in range(1, len(line) - 2, 7):
        whole = line % cut
        counter.send(whole[:cut])
        counter.send(whole[cut:])
        assert counter.outcome(f"c{cut}")["code"] == "surface_not_registered"


def test_a_line_of_100_mb_is_passed_over_and_the_next_is_read(counter: Child) -> None:
    counter.send(CLICK[:-60] % b"long")
    for _ in range(100):
        counter.send(b"x" * 1024 * 1024)
    counter.send(b'"}\n', ui_rpc("after", "increment"))
    assert counter.outcome("after") == {"count": 1}
    assert counter.outcome("long")["code"] == "invalid_args"
    assert "bytes is too long" in counter.outcome("long")["message"]
    for _ in range(70):
        counter.send(b"y" * 1024 * 1024)
    counter.send(b"\n")
    counter.wait(is_parse_error)


def test_lines_sent_before_it_is_ready_are_answered_after(launch: Launch) -> None:
    child = launch()
    child.send(*[ui_rpc(f"c{n}", "increment") for n in range(100)])
    assert child.outcome("c99") == {"count": 100}
    kinds = [line["type"] for line in child.lines]
    assert kinds.index("runner_ready") < kinds.index("ui_rpc_response")


def test_a_last_line_without_its_newline_is_still_done(counter: Child) -> None:
    counter.send(CLICK % (b"last", b"{}"))
    counter.close()
    assert counter.outcome("last") == {"count": 1}


# ---------------------------------------------------------------- what is printed


def test_what_an_agent_prints_goes_to_its_log_and_stdin_is_not_its_own(launch: Launch) -> None:
    child = launch("""
        import os, subprocess, sys
        from piweb_jupyter.agent import create_surface, define_agent

        print("while loading")
        demo = create_surface("demo", {})

        @demo.command
        def noise(ctx):
            print("printed")
            sys.stdout.write("written\\n")
            sys.__stdout__.write("the old stdout\\n")
            sys.__stdout__.flush()
            os.write(1, b"to descriptor 1\\n")
            subprocess.run(["echo", "from a child"], check=True)
            return sys.stdin.read()

        agent = define_agent(surfaces=[demo])
    """).ready()
    assert child.run("noise") == ""
    for text in ("while loading", "printed", "written", "old stdout", "descriptor 1", "a child"):
        child.wait_said(text)
    assert [line["type"] for line in child.lines] == [
        "piweb_surface",
        "piweb_state",
        "runner_ready",
        "ui_rpc_response",
    ]


def test_a_forked_child_can_neither_write_nor_hold_the_pipe_open(launch: Launch) -> None:
    child = launch("""
        import os, signal
        from piweb_jupyter.agent import create_surface, define_agent

        demo = create_surface("demo", {"n": 0})

        @demo.command
        def fork(ctx):
            pid = os.fork()
            if not pid:
                try:
                    ctx.set_state({"n": 666})
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
            ctx.set_state({"n": 1})

        @demo.command
        def fork_and_end(ctx):
            source, sink = os.pipe()
            pid = os.fork()
            if not pid:
                os.write(sink, b"there")
                while True:
                    signal.pause()
            os.read(source, 5)
            os.kill(pid, signal.SIGTERM)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        agent = define_agent(surfaces=[demo])
    """).ready()
    child.run("fork")
    assert [line["value"]["n"] for line in child.states()] == [0, 1]
    assert child.run("fork_and_end") == -signal.SIGTERM


# ---------------------------------------------------------------- nothing is lost

FLOOD = """
    from piweb_jupyter.agent import create_surface, define_agent, get_session_state

    demo = create_surface("demo", {"n": 0, "pad": ""})

    @demo.command
    def push(ctx, count: int, size: int):
        pad = "x" * size
        for n in range(1, count + 1):
            ctx.set_state({"n": n, "pad": pad})
            get_session_state().set("other", {"n": n, "pad": pad[: size // 10]})
        return count

    @demo.command(concurrent=True)
    async def push_later(ctx, key: str, count: int, size: int):
        import asyncio
        for n in range(1, count + 1):
            get_session_state().set(key, {"n": n, "pad": "y" * size})
            await asyncio.sleep(0)
        return key

    @demo.command
    def big(ctx, size: int):
        return "z" * size

    agent = define_agent(surfaces=[demo])
"""


@pytest.mark.parametrize(
    ("count", "size"),
    [
        pytest.param(5000, 1_000, id="5,000 of 1 KB"),
        pytest.param(1000, 60_000, id="1,000 of 60 KB"),
        pytest.param(100, 1_000_000, id="100 of 1 MB"),
    ],
)
def test_a_burst_at_a_host_that_does_not_read_arrives_whole(
    launch: Launch, count: int, size: int
) -> None:
    child = launch(FLOOD, reading=False)
    pushed = child.command("push", {"count": count, "size": size})
    later = [
        child.command("push_later", {"key": f"k{n}", "count": count // 10, "size": size})
        for n in range(2)
    ]
    after = child.command("big", {"size": 10_000_000})
    child.start_reading()
    assert child.outcome(pushed) == count
    assert [child.outcome(id_) for id_ in later] == ["k0", "k1"]
    assert child.outcome(after) == "z" * 10_000_000
    states = child.states()
    assert [line["rev"] for line in states] == list(range(count + 1))
    assert [line["value"]["n"] for line in states] == list(range(count + 1))
    assert child.state("other")["value"]["n"] == count
    for key in ("k0", "k1"):
        assert [line["value"]["n"] for line in child.states(key)] == list(range(1, count // 10 + 1))


def test_an_end_asked_for_in_the_middle_of_a_line_leaves_the_line_whole(launch: Launch) -> None:
    child = launch(FLOOD, reading=False)
    # The pipe is full, and its writer waits in the middle of a line of 300 KB.
    child.command("push", {"count": 50, "size": 300_000})
    child.wait_for_full_pipe()
    child.signal(signal.SIGINT)
    child.start_reading()
    assert child.wait_end() == 130
    assert child.unfinished == b""


def test_a_signal_handler_of_the_agent_that_raises_damages_no_small_line(launch: Launch) -> None:
    child = launch("""
        import signal
        from piweb_jupyter.agent import create_surface, define_agent

        demo = create_surface("demo", {"n": 0})

        class Alarm(Exception):
            pass

        def ring(number, frame):
            raise Alarm

        @demo.command
        def push(ctx, rounds: int):
            signal.signal(signal.SIGALRM, ring)
            rung = 0
            for n in range(rounds):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0001)
                    while True:
                        ctx.set_state({"n": n, "pad": "x" * 2000})
                except Alarm:
                    rung += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            ctx.set_state({"n": rounds})
            return rung

        agent = define_agent(surfaces=[demo])
    """).ready()
    assert child.run("push", {"rounds": 500}) == 500
    assert child.state()["value"] == {"n": 500}
    revs = [line["rev"] for line in child.states()]
    assert revs == sorted(revs)
    assert child.unfinished == b""


# ---------------------------------------------------------------- answers that go out together

TOGETHER = """
    import threading
    from piweb_jupyter.agent import create_surface, define_agent

    demo = create_surface("demo", {"n": 0})
    forever = threading.Event()

    @demo.command
    def step(ctx, stuck: bool = False):
        n = ctx.set_state(lambda s: {"n": s["n"] + 1})["n"]
        if stuck:
            forever.wait()
        return n

    agent = define_agent(surfaces=[demo])
"""


def test_commands_that_come_together_are_answered_in_order(launch: Launch) -> None:
    child = launch(TOGETHER).ready()
    child.send(*[ui_rpc(f"t{n}", "step") for n in range(1, 201)])
    assert child.outcome("t200") == 200
    told = [line for line in child.lines if line["type"] in ("ui_rpc_response", "piweb_state")]
    expected = [("piweb_state", 0)]
    for n in range(1, 201):
        expected += [("piweb_state", n), ("ui_rpc_response", n)]
    assert [
        (
            line["type"],
            line["value"]["n"]
            if line["type"] == "piweb_state"
            else line["response"]["result"]["data"],
        )
        for line in told
    ] == expected


def test_no_answer_waits_for_a_command_that_gets_stuck(launch: Launch) -> None:
    child = launch(TOGETHER).ready()
    for _ in range(5):
        child.run("step")
    child.send(ui_rpc("t1", "step"), ui_rpc("t2", "step", {"stuck": True}), ui_rpc("t3", "step"))
    assert child.outcome("t1") == 6
    assert child.state(rev=7)["value"] == {"n": 7}
    assert child.close() == 0
    assert not any(
        line["type"] == "ui_rpc_response" and line["response"]["correlationId"] == "t2"
        for line in child.lines
    )


# ---------------------------------------------------------------- a small start


def test_an_agent_that_needs_no_loop_and_no_model_imports_none(launch: Launch) -> None:
    heavy = ["asyncio", "pydantic", "logging", "pathlib", "argparse", "traceback", "subprocess"]
    child = launch(
        COUNTER
        + f"""
    import sys

    @demo.command
    def imported(ctx):
        return [name for name in {heavy!r} if name in sys.modules]
    """
    ).ready()
    assert child.run("increment", {"by": 2}) == {"count": 2}
    assert child.run("imported") == []

from __future__ import annotations

import logging

import pytest
import traitlets

from piweb_jupyter.host.session import AgentSession
from piweb_jupyter.views import SurfaceView, close_views, view_chat, view_session, view_surface
from piweb_jupyter.views.surface import SurfaceView as Surface
from tests.host.opening import Open
from tests.views.comms import Comms
from tests.views.page import Page


def test_a_click_reaches_the_agent_and_its_state_comes_back_as_bytes(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    page = Page(comms, view)
    assert page.hello()["to"] == "page"
    click = page.click("increment", {"by": 3})
    assert page.wait_result(click) == {"ok": True, "stage": "done", "data": {"count": 3}}
    page.wait_rev(1)
    assert page.state() == {"count": 3}
    held = session.mirror.get("surface:demo")
    assert held is not None
    assert view.snapshot is held.line


def test_the_agent_is_told_that_a_user_clicked_whatever_the_page_says(
    open_: Open, comms: Comms
) -> None:
    page = Page(comms, view_surface(open_("counter"), "demo"))
    page.hello()
    click = page.click("echo", {"actor": "llm"}, actor="llm")
    assert page.wait_result(click)["data"]["actor"] == "user"


def test_the_same_click_sent_twice_runs_once_and_is_answered_twice(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    page = Page(comms, view_surface(session, "demo"))
    page.hello()
    first = page.click("increment", id="page.1")
    page.wait_result(first)
    page.click("increment", id="page.1")
    comms.wait(lambda: len([i for i in page.items("result") if i[1] == "page.1"]) == 2)
    assert session.surface("demo").state == {"count": 1}


def test_two_tabs_that_click_at_once_run_twice(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    tabs = [Page(comms, view, f"tab{n}") for n in range(2)]
    for tab in tabs:
        tab.hello()
    clicks = [tab.click("increment") for tab in tabs]
    results = [tab.wait_result(click) for tab, click in zip(tabs, clicks, strict=True)]
    assert sorted(result["data"]["count"] for result in results) == [1, 2]


def test_a_click_on_the_picture_of_an_older_life_is_refused(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    page = Page(comms, view_surface(session, "demo"))
    page.hello()
    session.restart()
    session.wait_ready(30)
    click = page.click("increment", epoch=1)
    result = page.wait_result(click)
    assert (result["ok"], result["error"]["code"]) == (False, "stale")
    assert session.surface("demo").until(lambda state: state["count"] == 0).wait()


def test_a_refused_command_tells_its_code_its_sentence_and_its_details(
    open_: Open, comms: Comms
) -> None:
    page = Page(comms, view_surface(open_("counter"), "demo"))
    page.hello()
    result = page.wait_result(page.click("fail"))
    assert result == {
        "ok": False,
        "stage": "failed",
        "error": {"code": "full", "message": "no room", "details": {"room": 0}},
    }


def test_the_stages_of_a_long_command_are_told_and_it_can_be_cancelled(
    open_: Open, comms: Comms
) -> None:
    page = Page(comms, view_surface(open_("counter", "--declare"), "demo"))
    page.hello()
    click = page.click("hold", {"started": True})
    comms.wait(lambda: "running" in page.stages(click))
    assert page.stages(click) in (["running"], ["written", "running"])
    page.send("cancel", id=click)
    assert page.wait_result(click)["stage"] == "cancelled"


def test_a_command_that_is_over_at_once_is_one_message_and_not_three(
    open_: Open, comms: Comms
) -> None:
    page = Page(comms, view_surface(open_("counter", "--declare"), "demo"))
    page.hello()
    clicks = [page.click("increment") for _ in range(20)]
    for click in clicks:
        page.wait_result(click)
    assert sum(len(page.stages(click)) for click in clicks) <= 4


def test_a_page_may_stop_waiting(open_: Open, comms: Comms) -> None:
    page = Page(comms, view_surface(open_("counter"), "demo"))
    page.hello()
    click = page.click("hold")
    comms.wait(lambda: "written" in page.stages(click))
    page.send("forget", id=click)
    assert page.wait_result(click)["stage"] == "lost"


def test_a_result_that_is_large_travels_as_bytes_of_its_own(open_: Open, comms: Comms) -> None:
    page = Page(comms, view_surface(open_("counter"), "demo"))
    page.hello()
    text = "x" * 300_000
    click = page.click("echo", {"text": text})
    assert page.wait_result(click)["data"]["args"] == {"text": text}
    assert [message["of"] for message in page.messages("result")] == [click]


def test_an_agent_that_dies_ends_what_was_clicked_and_the_view_keeps_the_picture(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    page = Page(comms, view)
    page.hello()
    page.wait_result(page.click("increment"))
    result = page.wait_result(page.click("crash"))
    assert (result["stage"], result["error"]["code"]) == ("lost", "exited")
    comms.wait(lambda: view.info["lifecycle"] == "ended")
    assert "exited with code 7" in view.info["detail"]
    assert view.info["available"] is False
    page.wait_rev(1)
    assert page.state() == {"count": 1}
    later = page.wait_result(page.click("increment"))
    assert "exited with code 7" in later["error"]["message"]


def test_restart_is_a_click_too_and_a_new_life_begins_with_an_unstale_picture(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    page = Page(comms, view)
    page.hello()
    page.wait_result(page.click("increment"))
    page.send("restart")
    comms.wait(lambda: (view.epoch, view.rev, view.stale) == (2, 0, False))
    assert page.state() == {"count": 0}
    page.send("stop")
    comms.wait(lambda: view.info["lifecycle"] == "ended")


def test_nobody_but_the_publisher_writes_and_one_message_tells_state_and_revision(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    page = Page(comms, view)
    page.hello()
    for _ in range(5):
        page.wait_result(page.click("increment"))
    page.wait_rev(5)
    assert {sent.thread for sent in page.updates()} == {"piweb-publisher"}
    for sent in page.updates():
        state = sent.data["state"]
        assert ("rev" in state) == (["snapshot"] in sent.data["buffer_paths"])


def test_neither_a_cell_nor_a_page_can_write_a_trait(
    open_: Open, comms: Comms, caplog: pytest.LogCaptureFixture
) -> None:
    view = view_surface(open_("counter"), "demo")
    for name in ("snapshot", "rev", "epoch", "stale", "info", "spec", "domain"):
        with pytest.raises(traitlets.TraitError, match="read-only"):
            setattr(view, name, getattr(view, name))
    with caplog.at_level(logging.WARNING):
        view.comm.receive({"method": "update", "state": {"rev": 99}, "buffer_paths": []})
    assert view.rev != 99
    assert "the front end tried to write ['rev'] of <SurfaceView demo of counter>" in caplog.text
    assert not [sent for sent in view.comm.sent if sent.data.get("method") == "echo_update"]


def test_a_click_takes_the_shell_that_the_front_end_has_named(open_: Open, comms: Comms) -> None:
    """Else ipykernel 7.4 would let it wait for the cell that runs."""
    session = open_("counter")
    for view in (view_session(session), view_chat(session), view_surface(session, "demo")):
        assert view.comm._reply_subshell_for({}, "named") == "named"  # noqa: SLF001


def operate(page: Page, **fields: object) -> dict[str, object]:
    id_ = f"page.op{len(page.items('result'))}"
    page.send("op", id=id_, **fields)
    told: dict[str, object] = page.wait_result(id_)["data"]
    return told


def test_an_own_views_operation_goes_into_the_conversation_where_there_is_one(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    page = Page(comms, view)
    page.hello()
    comms.wait(lambda: view.info["channel"] == "prompt")
    op = {"title": "Resize", "tool": "edit", "params": [["size", "512"], ["prompt", ""]]}
    assert operate(page, op=op) == {"ok": True, "channel": "prompt"}
    comms.wait(lambda: session.transcript.messages and not session.busy)
    said = session.transcript.messages[0]["parts"][0]["text"]
    assert said == "Resize\n\n```surface-op\ntool: edit\nsize: 512\n```"


def test_an_own_views_operation_without_a_conversation_is_its_command(
    open_: Open, comms: Comms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AgentSession, "channel", lambda session, domain: "command")
    page = Page(comms, view_surface(open_("counter"), "demo"))
    page.hello()
    op = {"title": "Add", "tool": "add", "fallback": {"action": "increment", "args": {"by": 4}}}
    assert operate(page, op=op) == {
        "ok": True,
        "channel": "command",
        "result": {"ok": True, "stage": "done", "data": {"count": 4}},
    }
    assert operate(page, op={"title": "Add", "tool": "add"}) == {
        "ok": False,
        "channel": "command",
        "error": {
            "code": "no_fallback",
            "message": "Add: there is no conversation, and no command stands for it",
        },
    }


def test_an_operation_that_is_none_is_refused_as_data(open_: Open, comms: Comms) -> None:
    page = Page(comms, view_surface(open_("counter"), "demo"))
    page.hello()
    wrong: list[object] = [None, [], {"title": "x"}, {"title": "", "tool": "x"}]
    for op in wrong:
        told = operate(page, op=op)
        assert told["ok"] is False


def test_rubbish_from_a_page_is_logged_and_does_nothing(
    open_: Open, comms: Comms, caplog: pytest.LogCaptureFixture
) -> None:
    view = view_surface(open_("counter"), "demo")
    page = Page(comms, view)
    page.send("command", id=5, action=None)
    page.send("prompt", id="page.1", text="not to a surface", mode="prompt")
    page.comm.receive({"method": "custom", "content": ["?"]})
    assert page.hello()
    assert caplog.text.count("<SurfaceView demo of counter>") == 3


def test_a_view_says_what_it_is_and_leaves_a_readable_picture(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    session.surface("demo").run("increment", by=17)
    view = view_surface(session, "demo")
    data, _ = view._repr_mimebundle_()
    assert repr(view) == data["text/plain"] == "<SurfaceView demo of counter>"
    assert data["text/html"] == (
        '<div class="piweb-static"><p><b>demo · counter</b></p><p>rev 1, agent offline</p>'
        "<ul><li><b>count</b>: <code>17</code></li></ul>"
        "<p>The live view needs a running kernel: run the cell again.</p></div>"
    )


def test_the_picture_escapes_what_an_agent_says(open_: Open, comms: Comms) -> None:
    from piweb_jupyter.views.fallback import state_html

    told = state_html({"<img src=x>": ["<script>alert(1)</script>"], "deep": [[[[[[1]]]]]]})
    assert "<img" not in told
    assert "<script" not in told
    assert "… 1 entries" in told
    assert len(state_html({str(n): "x" * 10_000 for n in range(10_000)})) < 30_000


def test_there_is_one_model_per_view_and_none_when_they_are_closed(
    open_: Open, comms: Comms
) -> None:
    session = open_("counter")
    for _ in range(5):
        whole = view_session(session)
        assert view_session(session) is whole
        assert view_surface(session, "demo") in whole.children[1].children
        assert whole.children[0] is view_chat(session)
    assert len(comms.open) == 8  # four boxes and views, and a layout for each
    close_views(session)
    assert comms.open == []
    close_views(session)


def test_when_a_person_looks_the_agents_files_are_looked_at(
    open_: Open, comms: Comms, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    monkeypatch.setattr(
        AgentSession, "look_for_changes", lambda session: session.news.lifecycle() or ()
    )
    session.changes = ("agent.py",)
    Page(comms, view).hello()
    comms.wait(lambda: view.info["changes"] == ["agent.py"])


def test_a_view_that_somebody_closed_is_made_anew(open_: Open, comms: Comms) -> None:
    session = open_("counter")
    view = view_surface(session, "demo")
    view.close()
    again = view_surface(session, "demo")
    assert again is not view
    page = Page(comms, again)
    page.hello()
    assert page.wait_result(page.click("increment"))["ok"]


def test_a_surface_that_appears_later_is_added(open_: Open, comms: Comms) -> None:
    session = open_("counter", ready=False)
    whole = view_session(session)
    comms.wait(lambda: len(whole.children[1].children) == 1)
    view = whole.children[1].children[0]
    assert isinstance(view, SurfaceView)
    assert view is view_surface(session, "demo")


def test_an_agent_without_the_surface_shows_as_unavailable_and_errs_nowhere(
    open_: Open, comms: Comms
) -> None:
    view = view_surface(open_("counter"), "nowhere")
    page = Page(comms, view)
    page.hello()
    assert view.info["available"] is False
    assert view.info["channel"] == "unavailable"
    assert (view.rev, view.snapshot) == (-1, b"")


def test_the_views_are_small_enough_to_be_saved_with_each_display() -> None:
    from piweb_jupyter.views import ChatView

    assert len(Surface._esm) < 60_000  # noqa: SLF001
    assert len(ChatView._esm) < 400_000  # noqa: SLF001
    for text in (Surface._esm, ChatView._esm):  # noqa: SLF001
        assert "eval(" not in text.replace("Function.prototype", "")
        assert "new Function" not in text
        assert "https://cdn" not in text
        assert "unpkg" not in text

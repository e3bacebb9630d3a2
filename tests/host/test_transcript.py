from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from piweb_jupyter.host import content, messages
from piweb_jupyter.host.transcript import RunSummary, ToolCall, Transcript
from piweb_jupyter.wire import events, rpc
from piweb_jupyter.wire.json import Fields
from tests.host.chat_copy import ChatCopy, part_of, texts_of

USAGE = {"input": 10, "output": 5, "totalTokens": 15, "cost": {"total": 0.5}}


class Chat:
    """A transcript, and a copy of it that must never differ."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.copy = ChatCopy(self.transcript)

    def feed(self, *given: events.Event) -> list[list[Any]]:
        told: list[list[Any]] = []
        for event in given:
            told += self.copy.take(self.transcript.apply(event))
        self.copy.check()
        return told

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.transcript.messages

    @property
    def last(self) -> dict[str, Any]:
        return self.messages[-1]


@pytest.fixture
def chat() -> Chat:
    return Chat()


def user(text: str) -> list[events.Event]:
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return [events.MessageStart(message), events.MessageEnd(message)]


def assistant(*blocks: dict[str, Any], stop: str = "stop", **more: Any) -> Fields:
    return {"role": "assistant", "content": list(blocks), "stopReason": stop, **more}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call_block(id_: str, name: str = "bash", **args: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id_, "name": name, "arguments": args}


def result(text: str, **more: Any) -> Fields:
    return {"content": [{"type": "text", "text": text}], **more}


def opened() -> events.Event:
    return events.MessageStart(assistant(stop="pending"))


def called(id_: str, index: int = 0, name: str = "bash", **args: Any) -> Iterator[events.Event]:
    yield events.ContentStart("toolcall", index, id_, name)
    yield events.ContentEnd("toolcall", index, tool_call=call_block(id_, name, **args))


# ---------------------------------------------------------------- text and thinking


def test_a_delta_of_five_characters_is_one_small_append(chat: Chat) -> None:
    chat.feed(events.AgentStart(), *user("hi"), opened(), events.ContentStart("text", 0))
    assert chat.feed(events.ContentDelta("text", 0, "hello")) == [["append", 1, 0, "text", "hello"]]


def test_an_answer_streams_and_ends_as_its_message_says(chat: Chat) -> None:
    chat.feed(events.AgentStart(), *user("hi"), opened(), events.ContentStart("text", 0))
    assert chat.last["status"] == "streaming"
    chat.feed(
        events.ContentDelta("text", 0, "Hel"),
        events.ContentDelta("text", 0, "lo."),
        events.ContentEnd("text", 0, "Hello."),
        events.MessageEnd(assistant(text_block("Hello."), model="m", usage=USAGE)),
    )
    assert chat.last == {
        "id": "m2",
        "role": "assistant",
        "parts": [{"type": "text", "text": "Hello."}],
        "status": "done",
        "model": "m",
        "usage": {"input": 10, "output": 5, "totalTokens": 15, "cost": 0.5},
    }


def test_a_text_end_that_says_nothing_new_tells_nothing(chat: Chat) -> None:
    chat.feed(opened(), events.ContentStart("text", 0), events.ContentDelta("text", 0, "a"))
    assert chat.feed(events.ContentEnd("text", 0, "a")) == []
    assert chat.feed(events.ContentEnd("text", 0, "ab")) == [
        ["part", 0, 0, {"type": "text", "text": "ab"}]
    ]


def test_deltas_without_a_start_make_a_message_of_their_own(chat: Chat) -> None:
    chat.feed(events.ContentDelta("text", 3, "out of "), events.ContentDelta("text", 3, "the blue"))
    assert (chat.last["role"], chat.last["status"]) == ("assistant", "streaming")
    assert texts_of(chat.last) == "out of the blue"


def test_an_end_of_a_block_that_nobody_opened_is_passed_over(chat: Chat) -> None:
    assert chat.feed(events.ContentEnd("text", 0, "late")) == []
    assert chat.messages == []


def test_a_message_that_ends_without_a_start_is_there_all_the_same(chat: Chat) -> None:
    chat.feed(events.MessageEnd({"role": "user", "content": "plain"}))
    chat.feed(events.MessageEnd(assistant(text_block("answer"))))
    assert [texts_of(message) for message in chat.messages] == ["plain", "answer"]
    assert [message["status"] for message in chat.messages] == ["done", "done"]


def test_a_message_whose_end_was_lost_is_closed_by_the_next(chat: Chat) -> None:
    chat.feed(opened(), events.ContentDelta("text", 0, "one"), opened())
    assert [message["status"] for message in chat.messages] == ["done", "streaming"]
    assert texts_of(chat.messages[0]) == "one"


def test_a_lost_end_is_made_up_for_by_the_end_of_the_run(chat: Chat) -> None:
    failed = assistant(stop="error", errorMessage="500: no")
    chat.feed(events.AgentStart(), opened(), events.AgentEnd([{"role": "user"}, failed]))
    assert (chat.last["status"], chat.last["error"]) == ("error", "500: no")


def test_thinking_collapses_when_the_answer_begins_not_when_its_end_is_told(chat: Chat) -> None:
    chat.feed(
        opened(), events.ContentStart("thinking", 0), events.ContentDelta("thinking", 0, "hm")
    )
    assert part_of(chat.messages, "thinking")["done"] is False
    told = chat.feed(events.ContentStart("text", 1))
    assert told[0] == ["part", 0, 0, {"type": "thinking", "text": "hm", "done": True}]
    assert chat.feed(events.ContentDelta("text", 1, "So")) == [["append", 0, 1, "text", "So"]]
    # With openai-completions it comes only now.
    assert chat.feed(events.ContentEnd("thinking", 0, "hm")) == []


def test_an_end_that_does_not_repeat_the_content_keeps_what_was_streamed(chat: Chat) -> None:
    chat.feed(
        opened(), events.ContentDelta("thinking", 0, "hm"), events.ContentDelta("toolcall", 1, "{")
    )
    chat.feed(events.MessageEnd({"role": "assistant", "stopReason": "stop"}))
    assert chat.last["status"] == "done"
    assert part_of(chat.messages, "thinking") == {"type": "thinking", "text": "hm", "done": True}
    assert part_of(chat.messages, "tool")["argsText"] == "{"


def test_empty_blocks_leave_no_empty_parts(chat: Chat) -> None:
    thinking = {"type": "thinking", "thinking": ""}
    chat.feed(
        opened(),
        events.ContentStart("text", 0),
        events.MessageEnd(assistant(thinking, text_block(""), call_block("c1"))),
    )
    assert [part["type"] for part in chat.last["parts"]] == ["tool"]


def test_an_answer_cut_off_by_its_length_says_so(chat: Chat) -> None:
    chat.feed(opened(), events.MessageEnd(assistant(text_block("Once upon"), stop="length")))
    assert "length limit" in part_of(chat.messages, "notice")["text"]
    assert chat.last["status"] == "done"


def test_a_users_message_is_one_bubble_with_its_images(chat: Chat) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    message = {"role": "user", "content": [text_block("look"), image], "timestamp": 1700}
    chat.feed(events.MessageStart(message))
    assert chat.feed(events.MessageEnd(message)) == []
    assert chat.messages == [
        {"id": "m1", "role": "user", "parts": [text_block("look"), image], "status": "done"}
        | {"time": 1700}
    ]


def test_system_messages_and_hidden_custom_ones_are_not_shown(chat: Chat) -> None:
    hidden = {"role": "custom", "customType": "x", "content": "secret", "display": False}
    for message in ({"role": "system", "content": "be nice"}, hidden, {"role": "oracle"}, {}):
        assert chat.feed(events.MessageStart(message), events.MessageEnd(message)) == []


def test_a_custom_message_keeps_its_type(chat: Chat) -> None:
    message = {"role": "custom", "customType": "note", "content": "hello", "display": True}
    chat.feed(events.MessageStart(message), events.MessageEnd(message))
    assert (chat.last["role"], chat.last["customType"]) == ("custom", "note")
    assert texts_of(chat.last) == "hello"


def test_unknown_events_change_nothing(chat: Chat) -> None:
    new = events.OtherEvent("brand_new", {"type": "brand_new"})
    assert chat.feed(new, events.TurnStart(), events.OtherEvent("entry_appended", {})) == []


# ---------------------------------------------------------------- tools


def test_a_tool_call_is_one_card_from_its_first_letter_to_its_result(chat: Chat) -> None:
    chat.feed(events.AgentStart(), opened(), events.ContentStart("toolcall", 0, "c1", "bash"))
    told = chat.feed(events.ContentDelta("toolcall", 0, '{"comm'))
    assert told == [["append", 0, 0, "argsText", '{"comm']]
    assert part_of(chat.messages, "tool")["status"] == "pending"

    end = events.ContentEnd("toolcall", 0, tool_call=call_block("c1", command="ls"))
    chat.feed(end, events.MessageEnd(assistant(call_block("c1", command="ls"), stop="toolUse")))
    assert part_of(chat.messages, "tool")["args"] == {"command": "ls"}
    assert "argsText" not in part_of(chat.messages, "tool")

    chat.feed(events.ToolStart("c1", "bash", {"command": "ls"}))
    assert part_of(chat.messages, "tool")["status"] == "running"

    chat.feed(events.ToolEnd("c1", "bash", result("a.txt", details={"n": 1}), False, 12))
    finished = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": False}
    finished |= result("a.txt", details={"n": 1})
    assert chat.feed(events.MessageStart(finished), events.MessageEnd(finished)) == []
    assert part_of(chat.messages, "tool") == {
        "type": "tool",
        "id": "c1",
        "name": "bash",
        "args": {"command": "ls"},
        "status": "done",
        "output": "a.txt",
        "details": {"n": 1},
        "durationMs": 12,
    }
    assert len(chat.messages) == 1


def test_a_tools_output_replaces_what_came_before_and_is_told_as_growth(chat: Chat) -> None:
    chat.feed(events.AgentStart(), opened(), *called("c1"), events.ToolStart("c1", "bash", {}))
    assert chat.feed(events.ToolUpdate("c1", "bash", {}, {"content": []})) == []
    told = chat.feed(events.ToolUpdate("c1", "bash", {}, result("one\n")))
    assert told == [["append", 0, 0, "output", "one\n"]]
    told = chat.feed(events.ToolUpdate("c1", "bash", {}, result("one\ntwo\n")))
    assert told == [["append", 0, 0, "output", "two\n"]]
    # pi keeps the tail only: it may lose its beginning.
    [[kind, _, _, part]] = chat.feed(events.ToolUpdate("c1", "bash", {}, result("two\nthree\n")))
    assert (kind, part["output"]) == ("part", "two\nthree\n")


def test_arguments_that_are_known_grow_no_more(chat: Chat) -> None:
    chat.feed(opened(), *called("c1", 0, by=1))
    assert chat.feed(events.ContentDelta("toolcall", 0, "late")) == []
    chat.feed(
        events.ContentStart("toolcall", 1, "c2", "add"), events.ToolEnd("c2", "add", "2", False)
    )
    assert chat.feed(events.ContentDelta("toolcall", 1, "late")) == []


def test_parallel_tools_keep_to_their_own_cards(chat: Chat) -> None:
    chat.feed(events.AgentStart(), opened(), *called("a", 0, n=1), *called("b", 1, n=2))
    blocks = assistant(call_block("a", n=1), call_block("b", n=2), stop="toolUse")
    chat.feed(
        events.MessageEnd(blocks), events.ToolStart("a", "bash"), events.ToolStart("b", "bash")
    )
    chat.feed(
        events.ToolUpdate("b", "bash", {}, result("b…")), events.ToolUpdate("a", "bash", {}, "a…")
    )
    chat.feed(
        events.ToolEnd("b", "bash", result("B"), True), events.ToolEnd("a", "bash", "A", False)
    )
    shown = [(p["id"], p["args"], p["status"], p["output"]) for p in chat.last["parts"]]
    assert shown == [("a", {"n": 1}, "done", "A"), ("b", {"n": 2}, "error", "B")]


def test_call_ids_may_repeat_from_run_to_run(chat: Chat) -> None:
    for text in ("first", "second"):
        chat.feed(events.AgentStart(), *user(text), opened(), *called("call_0"))
        chat.feed(events.MessageEnd(assistant(call_block("call_0"), stop="toolUse")))
        chat.feed(events.ToolStart("call_0", "bash"), events.ToolEnd("call_0", "bash", text, False))
        chat.feed(events.AgentEnd())
    outputs = [m["parts"][0]["output"] for m in chat.messages if m["role"] == "assistant"]
    assert outputs == ["first", "second"]


def test_a_call_that_was_never_announced_gets_a_card_where_it_belongs(chat: Chat) -> None:
    chat.feed(events.AgentStart(), *user("go"), events.ToolStart("x", "probe", {"a": 1}))
    assert (chat.last["role"], chat.last["parts"][0]["status"]) == ("assistant", "running")
    chat.feed(events.ToolEnd("x", "probe", None, True))
    assert chat.last["parts"][0]["output"] == "Tool error"
    # And one whose end is all that is ever heard of it.
    chat.feed(events.ToolEnd("y", "probe", "done", False))
    assert [part["status"] for part in chat.last["parts"]] == ["error", "done"]
    chat.feed(events.ToolUpdate("z", "probe", {"b": 2}, "so far"))
    assert chat.last["parts"][2]["args"] == {"b": 2}
    assert len(chat.messages) == 2


def test_a_tool_result_message_closes_a_card_whose_end_was_lost(chat: Chat) -> None:
    chat.feed(events.AgentStart(), opened(), *called("c1"), events.ToolStart("c1", "bash"))
    message = {"role": "toolResult", "toolCallId": "c1", "isError": False, **result("late")}
    chat.feed(events.MessageStart(message), events.MessageEnd(message))
    assert part_of(chat.messages, "tool")["status"] == "done"
    assert part_of(chat.messages, "tool")["output"] == "late"


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, ""),
        ("text", "text"),
        ([1], "[1]"),
        ({"content": [text_block("a"), text_block("b")]}, "a\nb"),
        ({"content": "plain"}, "plain"),
        ({"errorText": "boom"}, "boom"),
        ({"reason": "because"}, "because"),
        ({"message": "m"}, "m"),
        ({"weird": True}, '{"weird":true}'),
    ],
)
def test_a_result_of_any_shape_becomes_an_output(chat: Chat, value: Any, output: str) -> None:
    chat.feed(events.ToolEnd("c1", "bash", value, False))
    assert part_of(chat.messages, "tool")["output"] == output


def test_images_of_a_result_are_kept_beside_its_text(chat: Chat) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    chat.feed(events.ToolEnd("c1", "plot", {"content": [text_block("see"), image]}, False))
    assert part_of(chat.messages, "tool")["images"] == [image]


def test_details_that_json_cannot_be_written_from_are_left_out(chat: Chat) -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    chat.feed(events.ToolStart("c1", "bash", deep), events.ToolUpdate("c1", "bash", {}, deep))
    chat.feed(events.ToolEnd("c1", "bash", result("x", details=deep), False))
    part = part_of(chat.messages, "tool")
    assert part["args"] == part["details"] == {"… cut": "nested too deeply"}


# ---------------------------------------------------------------- runs


def test_a_run_is_over_at_its_end_for_agents_that_do_not_settle(chat: Chat) -> None:
    chat.feed(events.AgentStart())
    assert chat.transcript.busy
    chat.feed(events.AgentEnd(will_retry=True))
    assert chat.transcript.busy
    chat.feed(events.AgentStart(), events.AgentEnd())
    assert not chat.transcript.busy


def test_a_run_is_over_when_it_has_settled_for_agents_that_say_so(chat: Chat) -> None:
    started = rpc.Response("r1", "prompt", True, {"disposition": "started"})
    chat.copy.take(chat.transcript.apply_response(started))
    chat.feed(events.AgentStart(), events.AgentEnd())
    assert chat.transcript.busy, "compaction may follow"
    chat.feed(events.AgentSettled())
    assert not chat.transcript.busy


def test_an_aborted_stream_ends_aborted_with_what_there_was(chat: Chat) -> None:
    chat.feed(events.AgentStart(), *user("go"), opened(), events.ContentDelta("text", 0, "word0 "))
    ended = assistant(text_block("word0 "), stop="aborted", errorMessage="Request was aborted")
    chat.feed(events.MessageEnd(ended), events.AgentEnd([ended]), events.AgentSettled(aborted=True))
    assert (chat.last["status"], texts_of(chat.last)) == ("aborted", "word0 ")
    assert "error" not in chat.last
    summary = chat.transcript.run_summary()
    assert (summary.text, summary.error, summary.aborted) == ("word0 ", None, True)


def test_abort_ends_running_tools_and_those_that_it_killed(chat: Chat) -> None:
    chat.feed(events.AgentStart(), opened(), *called("a", 0), *called("b", 1), *called("c", 2))
    chat.feed(events.MessageEnd(assistant(call_block("a"), call_block("b"), call_block("c"))))
    chat.feed(events.ToolStart("a", "bash"), events.ToolStart("b", "bash"))
    chat.feed(events.ToolEnd("a", "bash", "start\n\nCommand aborted", True))
    chat.feed(
        events.MessageEnd(assistant(stop="aborted")), events.AgentEnd(), events.AgentSettled(True)
    )
    assert [part["status"] for part in chat.messages[0]["parts"]] == ["aborted"] * 3


def test_a_tool_that_failed_by_itself_stays_failed_in_an_aborted_run(chat: Chat) -> None:
    chat.feed(
        events.AgentStart(), opened(), *called("a"), events.ToolEnd("a", "bash", "exit 1", True)
    )
    chat.feed(events.MessageEnd(assistant(call_block("a"))), events.AgentSettled(aborted=True))
    assert chat.messages[0]["parts"][0]["status"] == "error"


def test_a_stream_that_breaks_off_says_why(chat: Chat) -> None:
    chat.feed(events.AgentStart(), opened(), events.ContentDelta("text", 0, "par"))
    chat.feed(events.ContentError("error", "socket closed"))
    assert (chat.last["status"], chat.last["error"]) == ("error", "socket closed")
    chat.feed(events.MessageEnd(assistant(text_block("par"), stop="error", errorMessage="closed")))
    assert (chat.last["error"], texts_of(chat.last)) == ("closed", "par")


def test_a_steering_message_is_a_message_of_the_user_in_the_same_run(chat: Chat) -> None:
    chat.feed(
        events.AgentStart(), *user("go"), opened(), events.MessageEnd(assistant(text_block("A")))
    )
    chat.feed(events.QueueUpdate(["wait"], []), events.QueueUpdate([], []))
    chat.feed(
        *user("wait"), opened(), events.MessageEnd(assistant(text_block("B"))), events.AgentEnd()
    )
    assert [message["role"] for message in chat.messages] == ["user", "assistant"] * 2
    assert chat.transcript.run_summary().text == "B"


def test_the_queue_is_shown_whole(chat: Chat) -> None:
    told = chat.feed(events.QueueUpdate(["s1", "s2"], ["f1"]))
    assert told == [["meta", {"queue": {"steering": ["s1", "s2"], "followUp": ["f1"]}}]]
    assert chat.feed(events.QueueUpdate(["s1", "s2"], ["f1"])) == []


def failing(error: str) -> list[events.Event]:
    failed = assistant(stop="error", errorMessage=error)
    return [events.AgentStart(), events.MessageStart(failed), events.MessageEnd(failed)]


def test_an_attempt_that_is_retried_is_a_notice_and_no_failure(chat: Chat) -> None:
    chat.feed(*failing("500: oops"), events.AgentEnd(will_retry=True))
    chat.feed(events.RetryStart(1, 3, 2000, "500: oops"))
    assert chat.last["role"] == "notice"
    assert chat.last["parts"][0]["text"] == "The answer failed: 500: oops. Retry 1 of 3."
    chat.feed(events.AgentStart(), opened(), events.ContentDelta("text", 0, "ok"))
    chat.feed(
        events.MessageEnd(assistant(text_block("ok"))), events.RetryEnd(True, 1), events.AgentEnd()
    )
    assert [message["role"] for message in chat.messages] == ["notice", "assistant"]
    assert chat.transcript.run_summary() == RunSummary(text="ok")


def test_the_last_attempt_stays_the_error_that_it_is(chat: Chat) -> None:
    chat.feed(
        *failing("503"), events.AgentEnd(will_retry=True), events.RetryStart(1, 1, 2000, "503")
    )
    chat.feed(*failing("503: again"), events.AgentEnd(), events.RetryEnd(False, 1, "503: again"))
    chat.feed(events.AgentSettled())
    assert [message["status"] for message in chat.messages] == ["done", "error"]
    assert chat.transcript.run_summary().error == "503: again"


def test_a_retry_that_is_called_off_says_so(chat: Chat) -> None:
    chat.feed(
        *failing("503"), events.AgentEnd(will_retry=True), events.RetryStart(1, 3, 2000, "503")
    )
    chat.feed(events.RetryEnd(False, 1, "Retry cancelled"), events.AgentSettled())
    assert chat.last["parts"][0]["level"] == "error"
    assert chat.transcript.run_summary().error == "Retry cancelled"


def test_a_run_that_is_stopped_while_it_waits_to_retry_is_aborted_not_failed(chat: Chat) -> None:
    chat.feed(
        *failing("503"), events.AgentEnd(will_retry=True), events.RetryStart(1, 3, 2000, "503")
    )
    chat.feed(events.RetryEnd(False, 1, "Retry cancelled"), events.AgentSettled(aborted=True))
    assert chat.last["status"] == "aborted"
    summary = chat.transcript.run_summary()
    assert (summary.error, summary.aborted) == (None, True)


def test_a_retry_of_which_only_its_start_is_told_is_a_notice(chat: Chat) -> None:
    chat.feed(events.AgentStart(), events.RetryStart(2, 3, 1, "429"))
    assert chat.last["parts"][0]["text"] == "The answer failed: 429. Retry 2 of 3."


def test_compaction_leaves_a_summary_and_the_messages(chat: Chat) -> None:
    chat.feed(*user("long"), events.CompactionStart("threshold"))
    assert chat.transcript.meta["compacting"] == "threshold"
    chat.feed(events.CompactionEnd("threshold", {"summary": "## Goal"}))
    assert chat.transcript.meta["compacting"] is None
    assert [message["role"] for message in chat.messages] == ["user", "summary"]
    assert texts_of(chat.last) == "## Goal"


def test_compaction_that_fails_or_is_cancelled_says_so(chat: Chat) -> None:
    chat.feed(events.CompactionStart("manual"), events.CompactionEnd("manual", error="too small"))
    chat.feed(events.CompactionStart("manual"), events.CompactionEnd("manual", aborted=True))
    levels = [message["parts"][0]["level"] for message in chat.messages]
    assert levels == ["error", "info"]


def test_an_answer_lost_to_a_full_context_is_excused_when_it_is_made_again(chat: Chat) -> None:
    chat.feed(*failing("context overflow"), events.AgentEnd(), events.CompactionStart("overflow"))
    chat.feed(events.CompactionEnd("overflow", {"summary": "S"}, will_retry=True))
    chat.feed(
        events.AgentStart(), events.MessageEnd(assistant(text_block("ok"))), events.AgentEnd()
    )
    assert [m["role"] for m in chat.messages] == ["notice", "summary", "assistant"]
    assert chat.transcript.run_summary() == RunSummary(text="ok")


def test_a_summary_counts_tools_cost_and_outcome_since_its_mark(chat: Chat) -> None:
    chat.feed(events.MessageEnd(assistant(text_block("before"), usage=USAGE)))
    mark = chat.transcript.mark()
    assert chat.transcript.run_summary(mark) == RunSummary()
    chat.feed(events.AgentStart(), *user("go"), opened(), *called("c1", 0, "add", by=2))
    message = assistant(text_block("I add."), call_block("c1", "add", by=2), usage=USAGE)
    chat.feed(events.MessageEnd(message), events.ToolStart("c1", "add", {"by": 2}))
    chat.feed(events.ToolEnd("c1", "add", "2", False, 7))
    chat.feed(events.MessageEnd(assistant(text_block("It is 2."), usage=USAGE)), events.AgentEnd())
    assert chat.transcript.run_summary(mark) == RunSummary(
        text="It is 2.",
        tool_calls=(ToolCall("add", {"by": 2}, "done", "2"),),
        usage={"input": 20, "output": 10, "totalTokens": 30, "cost": 1.0},
    )
    assert chat.transcript.meta["usage"]["context"] == 15
    assert chat.transcript.meta["usage"]["input"] == 30


# ---------------------------------------------------------------- the agent's end


def test_when_the_agent_dies_open_cards_fail_and_streaming_ends(chat: Chat) -> None:
    chat.feed(
        events.AgentStart(), *user("go"), opened(), *called("c1"), events.ToolStart("c1", "bash")
    )
    chat.feed(events.QueueUpdate(["later"], []), events.ContentDelta("text", 1, "half a sen"))
    chat.copy.take(chat.transcript.start_bash("b1", "sleep 9"))
    chat.copy.take(chat.transcript.end("the agent exited with code 7"))
    chat.copy.check()
    answer, bash, notice = chat.messages[1:]
    assert (answer["status"], answer["error"]) == ("error", "the agent exited with code 7")
    assert (answer["parts"][0]["status"], texts_of(answer)) == ("error", "half a sen")
    assert answer["parts"][0]["output"] == "the agent exited with code 7"
    assert (bash["status"], bash["parts"][0]["status"]) == ("error", "error")
    assert notice["parts"][0]["text"] == "the agent exited with code 7"
    assert not chat.transcript.busy
    assert chat.transcript.meta["queue"] == {"steering": [], "followUp": []}
    assert chat.transcript.run_summary().error == "the agent exited with code 7"


def test_an_agent_that_dies_before_it_answers_fails_the_run(chat: Chat) -> None:
    chat.feed(events.AgentStart(), *user("go"))
    chat.copy.take(chat.transcript.end("gone"))
    assert chat.transcript.run_summary().error == "gone"


def test_an_agent_that_is_stopped_in_peace_leaves_no_error(chat: Chat) -> None:
    chat.feed(events.AgentStart(), *user("go"), events.MessageEnd(assistant(text_block("ok"))))
    chat.feed(events.AgentEnd())
    chat.copy.take(chat.transcript.end("stopped", "info"))
    chat.copy.check()
    assert chat.transcript.run_summary() == RunSummary(text="ok")
    assert chat.last["parts"][0]["level"] == "info"


def test_what_a_stopped_agent_was_doing_is_aborted_and_no_failure(chat: Chat) -> None:
    chat.feed(
        events.AgentStart(), *user("go"), opened(), *called("c1"), events.ToolStart("c1", "bash")
    )
    chat.copy.take(chat.transcript.start_bash("b1", "sleep 9"))
    chat.copy.take(chat.transcript.end("the agent was stopped", "info"))
    chat.copy.check()
    assert [message["status"] for message in chat.messages[1:]] == ["aborted", "aborted", "done"]
    assert part_of(chat.messages[:2], "tool")["status"] == "aborted"
    summary = chat.transcript.run_summary()
    assert (summary.error, summary.aborted) == (None, True)


def test_the_next_agent_need_not_settle_because_the_last_one_did(chat: Chat) -> None:
    chat.feed(events.AgentStart(), events.AgentEnd(), events.AgentSettled())
    chat.copy.take(chat.transcript.end("stopped", "info"))
    chat.feed(events.AgentStart(), events.AgentEnd())
    assert not chat.transcript.busy


# ---------------------------------------------------------------- bash, UI, answers


def test_a_bash_run_is_a_card_of_its_own(chat: Chat) -> None:
    chat.copy.take(chat.transcript.start_bash("b1", "ls; exit 4"))
    told = chat.feed(events.BashUpdate("b1", "a\n"))
    assert told == [["append", 0, 0, "output", "a\n"]]
    data = {"output": "a\nb\n", "exitCode": 4, "cancelled": False, "truncated": False}
    chat.copy.take(chat.transcript.apply_response(rpc.Response("b1", "bash", True, data)))
    chat.copy.check()
    assert (chat.last["role"], chat.last["status"]) == ("bash", "error")
    part = part_of(chat.messages, "tool")
    assert (part["output"], part["details"]) == ("a\nb\n", {"exitCode": 4})
    assert part["args"] == {"command": "ls; exit 4"}


def test_bash_output_may_be_faster_than_the_news_of_its_command(chat: Chat) -> None:
    chat.feed(events.BashUpdate("b1", "x"))
    chat.copy.take(chat.transcript.start_bash("b1", "echo x"))
    chat.feed(events.BashUpdate("b1", "y"))
    assert part_of(chat.messages, "tool")["args"] == {"command": "echo x"}
    assert part_of(chat.messages, "tool")["output"] == "xy"


def test_bash_runs_end_cancelled_refused_or_cut_short(chat: Chat) -> None:
    for id_ in ("b1", "b2", "b3"):
        chat.copy.take(chat.transcript.start_bash(id_, "x"))
    for response in (
        rpc.Response("b1", "bash", True, {"output": "a", "cancelled": True}),
        rpc.Response("b2", "bash", False, error="no shell"),
        rpc.Response("b3", "bash", True, {"output": "tail", "exitCode": 0, "truncated": True}),
        rpc.Response("b4", "bash", True, {"output": "whose?"}),
    ):
        chat.copy.take(chat.transcript.apply_response(response))
    chat.copy.check()
    assert [message["status"] for message in chat.messages] == ["aborted", "error", "done"]
    assert chat.messages[1]["error"] == "no shell"
    assert chat.messages[2]["parts"][0]["output"] == "… cut: the beginning\ntail"


def ui(chat: Chat, method: str, **fields: Any) -> None:
    chat.copy.take(chat.transcript.apply_ui(rpc.UiRequest("u", method, fields)))
    chat.copy.check()


def test_what_an_extension_tells_is_shown(chat: Chat) -> None:
    ui(chat, "notify", message="saved", notifyType="warning")
    ui(chat, "notify", message="odd", notifyType="catastrophe")
    ui(chat, "setStatus", statusKey="build", statusText="1 of 3")
    ui(chat, "setWidget", widgetKey="w", widgetLines=["a", 1], widgetPlacement="belowEditor")
    ui(chat, "setTitle", title="My agent")
    ui(chat, "set_editor_text", text="again")
    ui(chat, "set_editor_text", text="again")
    ui(chat, "custom", anything=1)
    levels = [message["parts"][0]["level"] for message in chat.messages]
    assert levels == ["warning", "info"]
    meta = chat.transcript.meta
    assert meta["status"] == {"build": "1 of 3"}
    assert meta["widgets"] == {"w": {"lines": ["a", "1"], "placement": "belowEditor"}}
    assert meta["title"] == "My agent"
    assert meta["editorText"] == {"n": 2, "text": "again"}
    ui(chat, "setStatus", statusKey="build")
    ui(chat, "setWidget", widgetKey="w")
    assert (chat.transcript.meta["status"], chat.transcript.meta["widgets"]) == ({}, {})


def test_a_notice_in_a_loop_is_one_line_with_a_count(chat: Chat) -> None:
    for _ in range(3):
        ui(chat, "notify", message="again")
    assert chat.messages[0]["parts"] == [
        {"type": "notice", "level": "info", "text": "again", "count": 3}
    ]


def test_a_flood_of_statuses_keeps_the_newest_hundred(chat: Chat) -> None:
    for i in range(150):
        ui(chat, "setStatus", statusKey=f"k{i}", statusText="x")
    status = chat.transcript.meta["status"]
    assert list(status) == [f"k{i}" for i in range(50, 150)]


def test_an_extension_that_fails_is_named(chat: Chat) -> None:
    chat.feed(events.ExtensionError("ext/demo.ts", "turn_end", "boom"))
    assert chat.last["parts"][0]["text"] == "An extension failed: ext/demo.ts (turn_end): boom"


def test_model_level_name_and_statistics_come_from_answers(chat: Chat) -> None:
    def answer(command: str, data: Any, *, success: bool = True) -> dict[str, Any]:
        response = rpc.Response("r", command, success, data)
        chat.copy.take(chat.transcript.apply_response(response))
        chat.copy.check()
        return chat.transcript.meta

    state = {"model": {"provider": "p", "id": "one"}, "thinkingLevel": "high", "sessionName": "N"}
    meta = answer("get_state", state)
    assert (meta["model"], meta["thinkingLevel"], meta["title"]) == ("p/one", "high", "N")
    assert chat.transcript.model == "p/one"
    assert answer("set_model", {"provider": "p", "id": "two"})["model"] == "p/two"
    assert answer("set_model", None, success=False)["model"] == "p/two"
    meta = answer("cycle_model", {"model": {"provider": "q", "id": "q"}, "thinkingLevel": "off"})
    assert (meta["model"], meta["thinkingLevel"]) == ("q", "off")
    assert answer("cycle_model", None)["model"] == "q"
    assert answer("cycle_thinking_level", {"level": "low"})["thinkingLevel"] == "low"
    assert answer("get_session_stats", {"cost": 2, "more": 1})["stats"] == {"cost": 2}
    unknown = {"model": {"provider": "unknown", "id": "unknown"}}
    assert answer("get_state", unknown)["model"] == "", "pi's placeholder for no model"
    chat.feed(events.ThinkingLevelChanged("medium"), events.SessionInfoChanged("named"))
    assert chat.transcript.meta["thinkingLevel"] == "medium"
    assert chat.transcript.meta["title"] == "named"


# ---------------------------------------------------------------- stored and new sessions


def test_a_stored_session_is_shown_as_it_was(chat: Chat) -> None:
    chat.feed(*user("dropped"))
    failed = assistant(stop="error", errorMessage="500")
    stored: list[Any] = [
        {"role": "system", "content": "be nice"},
        {"role": "user", "content": "plain text"},
        assistant(text_block("I call"), call_block("c1", command="ls"), usage=USAGE),
        {"role": "toolResult", "toolCallId": "c1", "isError": False, **result("out")},
        {"role": "toolResult", "toolCallId": "lost", "toolName": "x", **result("orphan")},
        {"role": "bashExecution", "command": "pwd", "output": "/", "exitCode": 0},
        {"role": "custom", "content": "hi", "display": True},
        {"role": "custom", "content": "no", "display": False},
        {"role": "compactionSummary", "summary": "## Goal"},
        failed,
        assistant(call_block("c9", command="never ran")),
        {"role": "unheard of"},
        "rubbish",
        None,
    ]
    chat.copy.take(chat.transcript.load(stored))
    chat.copy.check()
    roles = [message["role"] for message in chat.messages]
    assert roles == [
        *("user", "assistant", "bash", "custom", "summary", "assistant", "assistant"),
    ]
    tools = [(p["id"], p["status"], p["output"]) for p in chat.messages[1]["parts"][1:]]
    assert tools == [("c1", "done", "out"), ("lost", "done", "orphan")]
    assert chat.messages[5]["error"] == "500"
    assert chat.messages[6]["parts"][0]["status"] == "aborted"
    assert chat.transcript.meta["usage"]["totalTokens"] == 15
    assert not chat.transcript.busy
    assert len({message["id"] for message in chat.messages}) == 7


def test_a_new_session_keeps_what_it_said_before_its_answer_came(chat: Chat) -> None:
    ui(chat, "setStatus", statusKey="old", statusText="x")
    ui(chat, "setTitle", title="old title")
    chat.feed(events.AgentStart(), *user("old"), opened(), events.QueueUpdate(["q"], []))
    since = chat.transcript.mark()
    chat.feed(events.MessageEnd(assistant(stop="aborted")), events.AgentEnd())
    ui(chat, "setStatus", statusKey="new", statusText="ready")
    ui(chat, "notify", message="session_start")
    chat.copy.take(chat.transcript.clear(since))
    chat.copy.check()
    assert [message["parts"][0]["text"] for message in chat.messages] == ["session_start"]
    meta = chat.transcript.meta
    assert (meta["status"], meta["title"]) == ({"new": "ready"}, "")
    assert meta["queue"] == {"steering": [], "followUp": []}
    chat.copy.take(chat.transcript.clear())
    chat.copy.check()
    assert chat.messages == []
    assert chat.transcript.meta["status"] == {}
    chat.feed(*user("next"))
    assert chat.last["id"] == "m4", "an id is never used twice"


# ---------------------------------------------------------------- bounds


def test_a_tools_output_is_cut_in_the_middle_and_says_so(chat: Chat) -> None:
    output = "a" * content.OUTPUT_LIMIT + "b" * content.OUTPUT_LIMIT
    chat.feed(events.ToolEnd("c1", "bash", output, False))
    part = part_of(chat.messages, "tool")
    assert part["cut"] is True
    assert len(part["output"]) < content.OUTPUT_LIMIT + 100
    assert (part["output"][:3], part["output"][-3:]) == ("aaa", "bbb")
    assert f"\n… cut: {content.OUTPUT_LIMIT} characters\n" in part["output"]


def test_a_streaming_text_stops_growing_at_its_limit(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piweb_jupyter.host.writing.TEXT_LIMIT", 10)
    chat.feed(opened(), events.ContentStart("text", 0))
    chat.feed(events.ContentDelta("text", 0, "123456"))
    told = chat.feed(events.ContentDelta("text", 0, "789012"))
    assert told == [["part", 0, 0, {"type": "text", "text": "1234567890\n… cut", "cut": True}]]
    assert chat.feed(events.ContentDelta("text", 0, "more")) == []


def test_bash_output_stops_growing_at_its_limit(chat: Chat) -> None:
    chat.copy.take(chat.transcript.start_bash("b", "yes"))
    for _ in range(30):
        chat.copy.take(chat.transcript.apply(events.BashUpdate("b", "y" * 10_000)))
    chat.copy.check()
    assert part_of(chat.messages, "tool")["output"].endswith("yyy\n… cut")


def test_large_arguments_details_and_images_are_cut(chat: Chat) -> None:
    args = {"path": "a.txt", "text": "x" * (content.ARGS_LIMIT + 1)}
    chat.feed(events.ToolStart("c1", "write", args))
    part = part_of(chat.messages, "tool")
    assert part["cut"] is True
    assert part["args"]["path"] == "a.txt"
    assert "… cut" in part["args"]["text"]
    details = {f"k{i}": "x" * 1000 for i in range(100)}
    chat.feed(events.ToolEnd("c1", "write", result("ok", details=details), False))
    assert list(part_of(chat.messages, "tool")["details"]) == ["… cut"]
    image = {"type": "image", "data": "A" * (content.IMAGE_LIMIT + 1), "mimeType": "image/png"}
    chat.feed(events.MessageEnd({"role": "user", "content": [image]}))
    assert chat.last["parts"] == [
        {"type": "image", "mimeType": "image/png", "data": "", "cut": True}
    ]


def test_beyond_the_total_the_oldest_outputs_become_stubs(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "TOTAL_LIMIT", 100_000)
    for i in range(20):
        chat.feed(events.AgentStart(), *user(f"go {i}"), events.ToolStart(f"c{i}", "bash", {}))
        chat.feed(events.ToolEnd(f"c{i}", "bash", str(i) * 10_000, False), events.AgentEnd())
    outputs = [m["parts"][0]["output"] for m in chat.messages if m["role"] == "assistant"]
    assert sum(map(len, outputs)) < 110_000
    assert "… cut" in outputs[0]
    assert outputs[0].startswith("000")
    assert outputs[-1] == "19" * 10_000
    assert texts_of(chat.messages[0]) == "go 0"


def test_what_takes_more_bytes_than_characters_is_weighed_by_bytes(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "TOTAL_LIMIT", 100_000)
    for _ in range(4):
        chat.feed(opened(), *(events.ContentDelta("text", 0, "😀" * 1000) for _ in range(10)))
        chat.feed(events.MessageEnd(assistant(text_block("😀" * 10_000))))
    assert ["… cut" in texts_of(message) for message in chat.messages] == [True, True, False, False]


def test_a_long_stream_pushes_old_outputs_out(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "TOTAL_LIMIT", 100_000)
    chat.feed(events.ToolEnd("c0", "bash", "x" * 50_000, False), opened())
    for _ in range(80):
        chat.copy.take(chat.transcript.apply(events.ContentDelta("text", 0, "y" * 1000)))
    chat.copy.check()
    assert "… cut" in part_of(chat.messages, "tool")["output"]
    assert texts_of(chat.last) == "y" * 80_000


def test_beyond_so_many_messages_the_oldest_are_dropped(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MESSAGE_LIMIT", 50)
    chat.feed(events.AgentStart(), opened(), *called("c0"), events.ToolStart("c0", "bash"))
    chat.copy.take(chat.transcript.start_bash("b0", "yes"))
    for i in range(120):
        ui(chat, "notify", message=f"n{i}")
    assert len(chat.messages) <= 50
    assert chat.last["id"] == "m122"
    # What was dropped in mid-air is not written to; what comes now is new.
    chat.feed(events.ContentDelta("text", 1, "late"), events.BashUpdate("b0", "y"))
    chat.feed(
        events.ToolUpdate("c0", "bash", {}, "out"), events.ToolEnd("c0", "bash", "out", False)
    )
    chat.feed(events.MessageEnd(assistant(text_block("late"))), events.AgentEnd())
    data = {"output": "y", "exitCode": 0}
    chat.copy.take(chat.transcript.apply_response(rpc.Response("b0", "bash", True, data)))
    chat.copy.take(chat.transcript.end("gone"))
    chat.copy.check()
    assert chat.transcript.run_summary().text == "late"


def test_what_was_told_is_not_changed_by_what_comes_after() -> None:
    transcript = Transcript()
    [(_, _, message)] = transcript.apply(opened())
    [(_, _, _, part)] = transcript.apply(events.ContentStart("text", 0))
    transcript.apply(events.ContentDelta("text", 0, "later"))
    assert transcript.messages[0]["parts"][0]["text"] == "later"
    assert message["parts"] == []
    assert part["text"] == ""


def test_what_was_read_changes_nothing() -> None:
    transcript = Transcript()
    transcript.note("info", "hi")
    transcript.messages[0]["parts"].clear()
    transcript.meta["queue"]["steering"].append("x")
    assert transcript.messages[0]["parts"][0]["text"] == "hi"
    assert transcript.meta["queue"] == {"steering": [], "followUp": []}


def test_its_repr_says_how_it_is_and_nothing_that_differs_from_day_to_day() -> None:
    transcript = Transcript()
    assert repr(transcript) == "<Transcript 0 messages, idle>"
    transcript.apply(events.AgentStart())
    transcript.apply(events.MessageStart({"role": "user", "content": "x", "timestamp": 17}))
    assert repr(transcript) == "<Transcript 1 message, busy>"
    assert repr(ToolCall("add", {"by": 1}, "done", "2")) == (
        "ToolCall(name='add', args={'by': 1}, status='done', output='2')"
    )


# ---------------------------------------------------------------- anything at all

ids = st.sampled_from(["a", "b", ""])
indexes = st.integers(0, 3)
kinds: st.SearchStrategy[events.ContentKind] = st.sampled_from(["text", "thinking", "toolcall"])
short = st.text(max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | short,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3),
    max_leaves=6,
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "toolCall", "image", "new"])},
    optional={
        "text": short,
        "thinking": short,
        "id": ids,
        "name": short,
        "arguments": json_values,
        "data": short,
        "mimeType": short,
    },
)
roles = ["user", "assistant", "toolResult", "custom", "system", "x"]
any_message = st.fixed_dictionaries(
    {"role": st.sampled_from(roles)},
    optional={
        "content": st.lists(blocks, max_size=3) | json_values,
        "stopReason": st.sampled_from(["stop", "error", "aborted", "length", "pending", 3]),
        "errorMessage": short,
        "toolCallId": ids,
        "usage": json_values | st.just(USAGE),
        "display": st.booleans(),
        "isError": st.booleans(),
        "timestamp": json_values,
        "details": json_values,
    },
)
any_event: st.SearchStrategy[events.Event] = st.one_of(
    st.builds(events.AgentStart),
    st.builds(events.AgentEnd, st.lists(any_message | json_values, max_size=2), st.booleans()),
    st.builds(events.AgentSettled, st.booleans()),
    st.builds(events.MessageStart, any_message),
    st.builds(events.MessageEnd, any_message),
    st.builds(events.ContentStart, kinds, indexes, ids, short),
    st.builds(events.ContentDelta, kinds, indexes, short),
    st.builds(events.ContentEnd, kinds, indexes, st.none() | short, st.none() | blocks),
    st.builds(events.ContentError, st.sampled_from(["error", "aborted"]), short),
    st.builds(events.ToolStart, ids, short, json_values),
    st.builds(events.ToolUpdate, ids, short, json_values, json_values),
    st.builds(events.ToolEnd, ids, short, json_values, st.booleans()),
    st.builds(events.QueueUpdate, st.lists(short), st.lists(short)),
    st.builds(events.RetryStart, st.integers(1, 3), st.just(3), st.just(1.0), short),
    st.builds(events.RetryEnd, st.booleans(), st.integers(1, 3), short),
    st.builds(events.CompactionStart, short),
    st.builds(events.CompactionEnd, short, json_values, st.booleans(), st.booleans(), short),
    st.builds(events.BashUpdate, ids, short),
    st.builds(events.ExtensionError, short, short, short),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(any_event, max_size=40), st.booleans(), st.booleans())
def test_whatever_comes_the_operations_tell_the_whole_truth(
    given: list[events.Event], tight: bool, dies: bool
) -> None:
    chat = Chat()
    count, size, stub = (4, 30, 2) if tight else (5000, 1_000_000, 1000)
    with (
        patch.object(messages, "MESSAGE_LIMIT", count),
        patch.object(messages, "TOTAL_LIMIT", size),
        patch.object(content, "_SHED_TO", stub),
    ):
        for event in given:
            chat.feed(event)
    chat.transcript.run_summary()
    if dies:
        chat.copy.take(chat.transcript.end("gone"))
        chat.copy.check()
        assert not chat.transcript.busy
        for message in chat.messages:
            assert message["status"] != "streaming"
            for part in message["parts"]:
                assert part.get("status") not in ("pending", "running")

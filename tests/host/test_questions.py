from __future__ import annotations

import threading
from typing import Any

import pytest

from piweb_jupyter.host.questions import Question, Questions
from piweb_jupyter.wire.rpc import UiAnswer, UiRequest, encode_ui_answer


def ask(questions: Questions, id_: str = "q1", method: str = "input", **fields: Any) -> Question:
    return questions.add(UiRequest(id_, method, {"title": "Name?", **fields}))


def test_a_question_is_open_until_it_is_answered_and_is_answered_once() -> None:
    questions = Questions()
    question = ask(questions, placeholder="Ada")
    assert list(questions.open) == [question]
    assert questions.answer("q1", "Grace") == UiAnswer("q1", value="Grace")
    assert list(questions.open) == []
    assert questions.answer("q1", "Alan") is None


def test_an_answer_to_a_question_that_nobody_asked_is_none() -> None:
    assert Questions().answer("q9", "x") is None


def test_several_questions_are_answered_in_any_order() -> None:
    questions = Questions()
    for id_ in ("a", "b", "c"):
        ask(questions, id_)
    assert questions.answer("b", "x") == UiAnswer("b", value="x")
    assert [question.id for question in questions.open] == ["a", "c"]
    assert len(questions) == 2


@pytest.mark.parametrize(
    ("method", "fields", "value", "answer"),
    [
        ("select", {"options": ["dev", "prod"]}, "prod", UiAnswer("q1", value="prod")),
        ("select", {"options": ["dev"]}, None, UiAnswer("q1", cancelled=True)),
        ("confirm", {"message": "Sure?"}, True, UiAnswer("q1", confirmed=True)),
        ("confirm", {}, False, UiAnswer("q1", confirmed=False)),
        ("confirm", {}, None, UiAnswer("q1", cancelled=True)),
        ("input", {}, "", UiAnswer("q1", value="")),
        ("editor", {"prefill": "a\nb"}, "c\n", UiAnswer("q1", value="c\n")),
        ("poll", {}, None, UiAnswer("q1", cancelled=True)),
    ],
)
def test_each_kind_is_answered_in_its_own_form(
    method: str, fields: dict[str, Any], value: Any, answer: UiAnswer
) -> None:
    questions = Questions()
    ask(questions, method=method, **fields)
    assert questions.answer("q1", value) == answer


@pytest.mark.parametrize(
    ("method", "value", "hint"),
    [
        ("select", "staging", "takes one of 'dev', 'prod', not 'staging'"),
        # pi would take it for a cancellation, and say nothing.
        ("select", True, "takes one of 'dev', 'prod', not True"),
        ("confirm", "yes", "takes True or False, not 'yes'"),
        ("input", True, "takes a text, not True"),
        ("editor", 3, "takes a text, not 3"),
        ("poll", "x", "unknown kind (poll); it can be cancelled: None"),
    ],
)
def test_an_answer_that_does_not_fit_leaves_the_question_open(
    method: str, value: Any, hint: str
) -> None:
    questions = Questions()
    ask(questions, method=method, options=["dev", "prod"])
    with pytest.raises(ValueError, match=r"^the question 'Name\?' ") as caught:
        questions.answer("q1", value)
    assert hint in str(caught.value)
    assert len(questions) == 1


def test_a_structured_question_takes_an_answer_that_is_no_option() -> None:
    questions = Questions()
    ask(questions, method="select", title='PIAQ:v1:{"questions":[]}', options=["a"])
    answer = questions.answer("q1", 'PIAQA:v1:{"answers":[]}')
    assert answer == UiAnswer("q1", value='PIAQA:v1:{"answers":[]}')


def test_asked_twice_while_it_is_open_it_is_one_question() -> None:
    questions = Questions()
    assert ask(questions) is ask(questions)
    assert len(questions) == 1


def test_an_id_that_is_used_again_asks_again() -> None:
    questions = Questions()
    ask(questions)
    questions.answer("q1", "x")
    ask(questions)
    assert questions.answer("q1", "y") == UiAnswer("q1", value="y")


def test_the_end_of_a_run_gives_a_cancellation_for_each() -> None:
    questions = Questions()
    ask(questions, "a")
    ask(questions, "b", "confirm")
    cancelled = questions.cancel_with_run()
    assert cancelled == [UiAnswer("a", cancelled=True), UiAnswer("b", cancelled=True)]
    assert b'"cancelled":true' in encode_ui_answer(cancelled[0])
    assert (questions.open, questions.cancel_with_run()) == ((), [])


def test_what_its_agent_withdraws_outlives_a_run_and_is_closed_by_its_agent() -> None:
    questions = Questions()
    ask(questions, "a", withdraws=True)
    ask(questions, "b")
    assert questions.cancel_with_run() == [UiAnswer("b", cancelled=True)]
    assert [question.id for question in questions.open] == ["a"]
    assert questions.withdraw("a")
    assert not questions.withdraw("a")
    assert questions.answer("a", "x") is None


def test_without_an_agent_no_question_is_open() -> None:
    questions = Questions()
    ask(questions, "a", withdraws=True)
    questions.close()
    assert questions.open == ()


def test_a_question_out_of_time_is_closed_and_nothing_is_sent() -> None:
    questions = Questions()
    question = ask(questions, timeout=300)
    assert question.timeout == 300
    assert question.deadline is not None
    assert questions.expire(question)
    assert not questions.expire(question)
    assert questions.answer("q1", "late") is None


def test_the_time_of_an_earlier_question_does_not_close_a_later_one_of_its_id() -> None:
    questions = Questions()
    first = ask(questions, timeout=300)
    questions.answer("q1", "x")
    ask(questions)
    assert not questions.expire(first)
    assert len(questions) == 1


@pytest.mark.parametrize("timeout", [None, 0, -5, "300", True])
def test_a_timeout_that_makes_no_sense_is_none(timeout: Any) -> None:
    question = ask(Questions(), timeout=timeout)
    assert (question.timeout, question.deadline) == (None, None)


def test_fields_of_the_wrong_shape_become_empty_ones() -> None:
    question = Questions().add(
        UiRequest("q", "select", {"title": 3, "message": [], "options": "ab", "prefill": None})
    )
    assert question == Question("q", "select", "")
    question = Questions().add(UiRequest("q", "select", {"options": [1, "b"]}))
    assert question.options == ("1", "b")


def test_a_view_is_told_what_there_is_to_show() -> None:
    question = ask(Questions(), method="select", options=["a"], timeout=50)
    assert question.to_json() == {
        "id": "q1",
        "method": "select",
        "title": "Name?",
        "options": ["a"],
        "timeout": 50,
    }
    assert question.answerable
    assert not ask(Questions(), method="poll").answerable


def test_reprs_name_the_question_and_nothing_that_changes() -> None:
    questions = Questions()
    assert repr(ask(questions, "8f2c-uuid", timeout=3)) == "Question(method='input', title='Name?')"
    assert repr(questions) == "<Questions 1 open>"


def test_of_many_who_answer_at_once_one_does() -> None:
    questions = Questions()
    gate = threading.Barrier(8)
    answers: list[UiAnswer | None] = []

    def answer(name: str) -> None:
        gate.wait()
        answers.append(questions.answer("q1", name))

    for _ in range(50):
        ask(questions)
        threads = [threading.Thread(target=answer, args=(str(i),)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(answer is not None for answer in answers) == 50

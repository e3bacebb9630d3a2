"""`{expr}` in a prompt is expanded once; every other brace stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piweb_jupyter.notebook.expand import ExpansionError, expand


class Frame:
    shape = (3, 2)

    def head(self, count: int = 5) -> str:
        return f"first {count}"


NAMES: dict[str, Any] = {
    "df": Frame(),
    "x": 7,
    "d": {"k}": "odd", "a": {"b": 1}},
    "secret": "s3cr3t",
    "text": "{secret} and {x}",
    "xs": [1, 2, 3],
}


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("what do {df.shape} rows mean", "what do (3, 2) rows mean"),
        ("{x}{x} {x + 1}", "77 8"),
        ("{ x }", "7"),
        ("{d['a']['b']}", "1"),
        ('{d["k}"]}', "odd"),
        ("{df.head(2)}", "first 2"),
        ("{[i * 2 for i in xs]}", "[2, 4, 6]"),
        ("{len(xs)} of {max(xs, key=lambda v: -v)}", "3 of 1"),
        ("{f'{x:.2f}'}", "7.00"),
        ("{0is x}", "False"),
        ("{1 + 1} {sum([3, 4])}", "2 7"),
        ("{{x}}", "{x}"),
        ("a {{x} b", "a {7 b"),
    ],
)
def test_expressions_become_their_values(prompt: str, expected: str) -> None:
    assert expand(prompt, NAMES) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        '{"a": 1}',
        '{"a": {"b": [1, 2]}}',
        "{}",
        "{ }",
        "{",
        "}",
        "a } b { c",
        r"\frac{a}{b}",
        "^a{3}b{1,2}$",
        "{{ name }}",
        "{% if y %}{{ y.z }}{% endif %}",
        "function f() { return x }",
        "f() {\n  x\n}",
        "{unknown}",
        "{unknown + x}",
        "{len}",
        "{int.real}",
        "{3}{-1}{'a'}{None}{[1, 2]}{()}",
        "{{'a': [1]}}",
        "{x:.2f}",
        "{(y := x)}",
        "{await x}",
        "{lambda: (yield)}",
        "{" * 300 + "x",
        "{" + "(" * 400 + "x}",
        "{x" + " " * 600 + "}",
    ],
)
def test_a_brace_that_is_no_expression_stays(prompt: str) -> None:
    assert expand(prompt, NAMES) == prompt


def test_what_a_value_contains_is_never_expanded() -> None:
    assert expand("say {text}", NAMES) == "say {secret} and {x}"
    assert expand("{text}{x}", NAMES) == "{secret} and {x}7"


def test_an_expression_that_fails_is_named_and_nothing_is_sent() -> None:
    with pytest.raises(ExpansionError) as caught:
        expand("look at {df.shap}", NAMES)
    assert "{df.shap} in the prompt failed, so nothing was sent: AttributeError" in str(
        caught.value
    )


def test_a_prompt_does_not_end_the_kernel() -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(ExpansionError, match="SystemExit"):
        expand("main() {leave()}", {"leave": leave})


def test_expanding_changes_no_name() -> None:
    before = dict(NAMES)
    expand("{[x for x in xs]} {x}", NAMES)
    assert before == NAMES


@given(st.text(alphabet="{}x\"': ,.[]()\n1a", max_size=60))
def test_no_prompt_is_too_odd(prompt: str) -> None:
    try:
        result = expand(prompt, {"x": "X"})
    except ExpansionError:
        return
    assert isinstance(result, str)


def test_ten_thousand_braces_take_no_time_to_speak_of() -> None:
    prompt = "{" * 10_000 + "}" * 10_000
    assert expand(prompt, NAMES) == prompt

"""A `%piweb` line is read as its table says, and a wrong one names the nearest right one."""

from __future__ import annotations

import pytest

from piweb_jupyter.notebook.options import (
    OPTIONS,
    SUBCOMMANDS,
    UsageError,
    parse_cell_line,
    parse_line,
)


def test_a_source_with_every_option() -> None:
    parsed = parse_line(
        " './my agent' -n one --model=openai:x --replace --trust --no-display --wait "
    )
    assert parsed.subcommand is None
    assert parsed.operand == "./my agent"
    assert parsed.values == {"name": "one", "model": "openai:x"}
    assert parsed.switches == {"replace", "trust", "no-display", "wait"}


def test_a_command_keeps_its_own_options_and_needs_no_source() -> None:
    parsed = parse_line('--cmd "python my_agent.py --fast" -n mine')
    assert parsed.operand == ""
    assert parsed.get("cmd") == "python my_agent.py --fast"


def test_a_subcommand_is_the_first_word_only() -> None:
    assert parse_line("stop counter --forget").subcommand == "stop"
    assert parse_line("stop -n counter").operand == "counter"
    assert parse_line("./stop").subcommand is None
    assert parse_line("-n x stop").operand == "stop"  # a directory of that name
    assert parse_line("").subcommand is None
    assert parse_line("-- -odd-name").operand == "-odd-name"


def test_a_hash_is_no_comment() -> None:
    assert parse_line("./agent#2").operand == "./agent#2"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("./a --repalce", "no option --repalce; did you mean --replace?"),
        ("./a --names x", "no option --names; did you mean --name?"),
        ("./a --forget", "--forget is no option of %piweb"),
        ("stop --replace", "--replace is no option of `stop`; it has --name, --forget, --all"),
        ("./a -n", "-n needs a value: -n NAME"),
        ("./a --name --wait", "--name needs a value"),
        ("./a --name ''", "--name needs a value"),
        ("./a --wait=yes", "--wait takes no value"),
        ("./my agent", "needs quotation marks: './my agent'"),
        ("stop a -n b", "two names, 'a' and 'b'"),
        ("list everything", "`list` takes nothing after it"),
        ("'./a", "a quotation is not closed"),
        ("./it's", "a quotation is not closed"),
    ],
)
def test_a_wrong_line_says_what_is_right(line: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_prompt_of_a_cell_is_not_on_its_first_line() -> None:
    assert parse_cell_line("-n one").get("name") == "one"
    assert parse_cell_line("./agent").operand == "./agent"
    with pytest.raises(UsageError, match="%piweb status"):
        parse_cell_line("status")
    with pytest.raises(UsageError, match="--wait is no option"):
        parse_cell_line("--wait")


def test_the_tables_agree() -> None:
    for subcommand in SUBCOMMANDS.values():
        assert set(subcommand.options) <= set(OPTIONS)

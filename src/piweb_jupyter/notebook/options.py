"""The words of a `%piweb` line: subcommands, options, and the nearest right one to a wrong one.

One table says what exists; the parser, the completion and the help text all read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import PiwebError
from ..sources.words import split_words

__all__ = [
    "CELL_OPTIONS",
    "OPTIONS",
    "START_OPTIONS",
    "SUBCOMMANDS",
    "Option",
    "Parsed",
    "Subcommand",
    "UsageError",
    "describe_nearest",
    "parse_cell_line",
    "parse_line",
]


class UsageError(PiwebError):
    """The line is wrong; the text says how, and what would be right."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `value` is the name of its value; empty: it is a switch."""

    name: str
    help: str
    value: str = ""
    short: str = ""

    @property
    def flag(self) -> str:
        return f"--{self.name}"


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand. `operand` is what may follow it: a session, a path, a subcommand."""

    name: str
    help: str
    operand: str = ""
    options: tuple[str, ...] = ()


OPTIONS = {
    option.name: option
    for option in (
        Option("name", "the session's name (default: the directory's)", "NAME", "n"),
        Option("model", "the model, as provider:name; `stub` works offline", "MODEL", "m"),
        Option("replace", "close the session that has the name and start anew"),
        Option("trust", "let the source run without a question, this time"),
        Option("cmd", "run this command as the agent, in SOURCE or here", '"COMMAND"'),
        Option("no-display", "show nothing; `%piweb show` does it later"),
        Option("wait", "return only when the agent is ready"),
        Option("forget", "close the session and its views too"),
        Option("all", "all sessions"),
        Option("lines", "how many lines", "N"),
        Option("help", "show the help", short="h"),
    )
}

START_OPTIONS = ("name", "model", "replace", "trust", "cmd", "no-display", "wait", "help")
CELL_OPTIONS = ("name", "model", "replace", "trust", "cmd", "no-display", "help")

SUBCOMMANDS = {
    subcommand.name: subcommand
    for subcommand in (
        Subcommand(
            "demo",
            "start the counter agent that is in the package",
            options=("name", "model", "replace", "no-display", "wait"),
        ),
        Subcommand("new", "write a commented starter agent into a new directory", "DIR"),
        Subcommand("list", "all sessions"),
        Subcommand("status", "how a session is, and what waits for an answer", "NAME"),
        Subcommand("show", "display a session again", "NAME"),
        Subcommand("stop", "end the agent; its views stay", "NAME", ("forget", "all")),
        Subcommand("restart", "end the agent and start it again", "NAME", ("wait",)),
        Subcommand("logs", "the last lines of the agent's stderr", "NAME", ("lines",)),
        Subcommand("doctor", "check what agents need here, with the next step for each", "SOURCE"),
        Subcommand("version", "the versions in play"),
        Subcommand("help", "this, or more on one subcommand", "SUBCOMMAND"),
    )
}

# Every subcommand that takes a session's name takes it as `-n NAME` too.
_NAMED = frozenset({"status", "show", "stop", "restart", "logs"})


@dataclass(slots=True)
class Parsed:
    """A line, read. `subcommand` is None where an agent is to be started."""

    subcommand: str | None = None
    operand: str = ""
    values: dict[str, str] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()

    def get(self, option: str) -> str | None:
        return self.values.get(option)

    def has(self, option: str) -> bool:
        return option in self.switches


def parse_line(line: str) -> Parsed:
    """Read what follows `%piweb`.

    Raises:
        UsageError: If it is wrong.
    """
    words = _split(line)
    first = next((word for word in words if not word.startswith("-")), None)
    if first is not None and first in SUBCOMMANDS and words[0] == first:
        subcommand = SUBCOMMANDS[first]
        return _parse(words[1:], allowed_options(first), first, subcommand.operand)
    return _parse(words, START_OPTIONS, None, "SOURCE")


def parse_cell_line(line: str) -> Parsed:
    """Read what follows `%%piweb` on its line; the prompt is below it.

    Raises:
        UsageError: If it is wrong.
    """
    parsed = _parse(_split(line), CELL_OPTIONS, None, "SOURCE")
    if parsed.operand in SUBCOMMANDS and not Path(parsed.operand).exists():
        raise UsageError(
            f"`{parsed.operand}` is a subcommand of the line magic: %piweb {parsed.operand}; "
            "the prompt of %%piweb begins on the second line"
        )
    return parsed


def allowed_options(subcommand: str) -> tuple[str, ...]:
    """The options of a subcommand."""
    named = ("name",) if subcommand in _NAMED else ()
    return (*named, *SUBCOMMANDS[subcommand].options, "help")


def _split(line: str) -> list[str]:
    try:
        return split_words(line)
    except ValueError:
        raise UsageError(f"a quotation is not closed in: {line.strip()}") from None


def _parse(
    words: list[str], allowed: tuple[str, ...], subcommand: str | None, operand: str
) -> Parsed:
    parsed = Parsed(subcommand)
    switches = set()
    queue = list(reversed(words))
    only_operands = False
    while queue:
        word = queue.pop()
        if word == "--" and not only_operands:
            only_operands = True
        elif word.startswith("-") and word != "-" and not only_operands:
            flag, has_value, value = word.partition("=")
            option = _find_option(flag, allowed, subcommand)
            if not option.value:
                if has_value:
                    raise UsageError(f"{flag} takes no value")
                switches.add(option.name)
                continue
            if not has_value:
                if not queue or queue[-1].startswith("-"):
                    raise UsageError(f"{flag} needs a value: {flag} {option.value}")
                value = queue.pop()
            if not value.strip():
                raise UsageError(f"{flag} needs a value: {flag} {option.value}")
            parsed.values[option.name] = value
        elif not operand:
            raise UsageError(f"`{subcommand}` takes nothing after it, and got {word!r}")
        elif parsed.operand:
            hint = (
                f"; a path with spaces needs quotation marks: '{parsed.operand} {word}'"
                if operand in ("SOURCE", "DIR")
                else ""
            )
            raise UsageError(f"one {operand} is enough, and got {word!r} too{hint}")
        else:
            parsed.operand = word
    parsed.switches = frozenset(switches)
    if subcommand in _NAMED:
        _join_name(parsed)
    return parsed


def _join_name(parsed: Parsed) -> None:
    """`stop NAME` and `stop -n NAME` say the same."""
    named = parsed.values.pop("name", "")
    if named and parsed.operand and named != parsed.operand:
        raise UsageError(f"two names, {parsed.operand!r} and {named!r}; one session at a time")
    parsed.operand = parsed.operand or named


def _find_option(flag: str, allowed: tuple[str, ...], subcommand: str | None) -> Option:
    for name in allowed:
        option = OPTIONS[name]
        if flag == option.flag or (option.short and flag == f"-{option.short}"):
            return option
    where = f"`{subcommand}`" if subcommand else "%piweb"
    elsewhere = flag.lstrip("-")
    if elsewhere in OPTIONS and flag.startswith("--"):
        raise UsageError(f"{flag} is no option of {where}; it has {_list(allowed)}")
    near = describe_nearest(flag, [OPTIONS[name].flag for name in allowed])
    raise UsageError(f"there is no option {flag}{near or f'; {where} has {_list(allowed)}'}")


def _list(allowed: tuple[str, ...]) -> str:
    return ", ".join(OPTIONS[name].flag for name in allowed)


def describe_nearest(word: str, right: Iterable[str]) -> str:
    """`; did you mean X?` if something right is near enough, else nothing."""
    import difflib

    near = difflib.get_close_matches(word, list(right), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""

"""Completion of `%piweb` and `%%piweb` lines: subcommands, options, sessions, paths.

A matcher of IPython's own kind, of a priority that keeps names and files which cannot be meant here
out of the list. It returns nothing outside our lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from .options import CELL_OPTIONS, OPTIONS, START_OPTIONS, SUBCOMMANDS, allowed_options

__all__ = ["Candidate", "list_candidates", "make_matcher"]

_LINE = re.compile(r"^\s*(?:[\w, ]+=\s*)?(%{1,2})piweb(?=\s|$)(.*)$")

_MODELS = ("stub",)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible word and what it is."""

    text: str
    kind: str


def make_matcher(
    session_names: Callable[[], Iterable[str]],
) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """The matcher for `ip.Completer.custom_matchers`."""

    def match_piweb_line(context: CompletionContext) -> SimpleMatcherResult:
        match = _LINE.match(context.text_until_cursor)
        if match is None or (match[1] == "%%" and context.cursor_line != 0):
            return {"completions": []}
        fragment, candidates = list_candidates(match[2], session_names(), cell=match[1] == "%%")
        return {
            "completions": [SimpleCompletion(text=c.text, type=c.kind) for c in candidates],
            "matched_fragment": fragment,
            "suppress": True,
        }

    matcher: Callable[[CompletionContext], SimpleMatcherResult] = context_matcher(
        identifier="piweb_jupyter.matcher", priority=1000
    )(match_piweb_line)
    return matcher


def list_candidates(
    line: str, session_names: Iterable[str], *, cell: bool = False
) -> tuple[str, list[Candidate]]:
    """What may stand at the end of `line`, and the part of it that a choice replaces."""
    before, fragment, quote = _split_last(line)
    names = [Candidate(name, "session") for name in sorted(session_names)]
    subcommand = before[0] if before and not cell and before[0] in SUBCOMMANDS else None
    allowed = allowed_options(subcommand) if subcommand else CELL_OPTIONS if cell else START_OPTIONS
    if before and (option := _valued(before[-1], allowed)):
        if option == "name":
            return fragment, _only(names, fragment, quote)
        if option == "model":
            return fragment, _only([Candidate(m, "model") for m in _MODELS], fragment, quote)
        return fragment, _paths(fragment, quote) if option == "cmd" else []
    if fragment.startswith("-"):
        options = [
            Candidate(OPTIONS[name].flag, "option")
            for name in allowed
            if OPTIONS[name].flag not in before
        ]
        return fragment, _only(options, fragment, quote)
    if _has_operand(before[1:] if subcommand else before, allowed):
        return fragment, []
    match SUBCOMMANDS[subcommand].operand if subcommand else "SOURCE":
        case "NAME":
            return fragment, _only(names, fragment, quote)
        case "SUBCOMMAND":
            return fragment, _only(_subcommands(), fragment, quote)
        case "DIR" | "SOURCE" as operand:
            found = _paths(fragment, quote)
            if operand == "SOURCE" and not before and not cell:
                found = [*_only(_subcommands(), fragment, quote), *found]
            return fragment, found
        case _:
            return fragment, []


def _subcommands() -> list[Candidate]:
    return [Candidate(name, "subcommand") for name in SUBCOMMANDS]


def _split_last(line: str) -> tuple[list[str], str, str]:
    """The finished words, the unfinished one as typed, and the quotation mark it is in."""
    words: list[str] = []
    word = ""
    started = -1
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
            word += "" if not quote else char
        elif char in "\"'":
            quote = char
            started = at if started < 0 else started
        elif char.isspace():
            if started >= 0:
                words.append(word)
            word, started = "", -1
        else:
            word += char
            started = at if started < 0 else started
    return words, line[started:] if started >= 0 else "", quote


def _valued(word: str, allowed: Iterable[str]) -> str | None:
    for name in allowed:
        option = OPTIONS[name]
        if option.value and word in (option.flag, f"-{option.short}" if option.short else None):
            return name
    return None


def _has_operand(words: list[str], allowed: tuple[str, ...]) -> bool:
    expects_value = False
    for word in words:
        if expects_value:
            expects_value = False
        elif word.startswith("-"):
            expects_value = _valued(word, allowed) is not None
        else:
            return True
    return False


def _only(candidates: Iterable[Candidate], fragment: str, quote: str) -> list[Candidate]:
    bare = fragment[1:] if quote and fragment.startswith(quote) else fragment
    return [
        Candidate(_quoted(candidate.text, quote), candidate.kind)
        for candidate in candidates
        if candidate.text.startswith(bare)
    ]


def _quoted(text: str, quote: str) -> str:
    if quote:
        return f"{quote}{text}{quote}"
    return f'"{text}"' if any(char.isspace() or char in "'" for char in text) else text


def _paths(fragment: str, quote: str) -> list[Candidate]:
    """Directories first: an agent is one; then the files that can be one."""
    typed = fragment[1:] if quote and fragment.startswith(quote) else fragment
    typed = typed.strip("\"'") if not quote else typed
    head, _, tail = typed.rpartition("/")
    head = f"{head}/" if typed.startswith("/") or head or "/" in typed else ""
    directory = Path(os.path.expanduser(head or "."))
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: (not entry.is_dir(), entry.name))
    except OSError:
        return []
    found = []
    for entry in entries:
        if not entry.name.startswith(tail) or (entry.name.startswith(".") and not tail):
            continue
        if entry.is_dir():
            text = f"{head}{entry.name}/"
            # An open quotation stays open: the path may go on.
            found.append(Candidate(f"{quote}{text}" if quote else _open_quoted(text), "directory"))
        elif entry.name.endswith((".py", ".ts", ".js", ".mjs")):
            found.append(Candidate(_quoted(f"{head}{entry.name}", quote), "file"))
    return found


def _open_quoted(text: str) -> str:
    return f'"{text}' if any(char.isspace() or char in "'" for char in text) else text

"""What the runner says on stderr, which the host keeps as the agent's log."""

from __future__ import annotations

import os.path
import sys
from collections.abc import Callable
from types import TracebackType

__all__ = ["failure_text", "innermost", "is_ours", "report_failure", "say"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def say(text: str) -> None:
    """One diagnostic line."""
    try:
        sys.stderr.write(f"piweb: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody reads it any more


def report_failure(what: str, exc: BaseException) -> None:
    """Say that the author's code failed, with the lines of it that led there."""
    say(f"{what}\n{failure_text(exc).rstrip()}")


def failure_text(exc: BaseException) -> str:
    """A traceback that begins in the author's code; frames of ours are left out."""
    import traceback

    shown = traceback.TracebackException.from_exception(exc)
    _trim(shown)
    return "".join(shown.format())


def is_ours(filename: str) -> bool:
    """Is it a file of this package, or of the machinery that imports one?"""
    return filename.startswith((_PACKAGE, "<frozen "))


def _trim(shown: object) -> None:
    seen: set[int] = set()
    waiting: list[object] = [shown]
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        stack = getattr(part, "stack", None)
        if stack is not None:
            stack[:] = [frame for frame in stack if not is_ours(frame.filename)]
        waiting += [getattr(part, "__cause__", None), getattr(part, "__context__", None)]
        waiting += getattr(part, "exceptions", None) or []


def innermost(trace: TracebackType | None, accept: Callable[[str], bool]) -> tuple[str, int] | None:
    """File and line of the deepest frame whose file is accepted."""
    found = None
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if accept(filename):
            found = (filename, trace.tb_lineno)
        trace = trace.tb_next
    return found

"""A line of text as words, the way a shell splits it."""

from __future__ import annotations

import os
import shlex

__all__ = ["split_words"]


def split_words(line: str) -> list[str]:
    """Split as a shell does, except that a Windows path keeps its backslashes there.

    Raises:
        ValueError: If a quotation is not closed.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if os.name == "nt":
        lexer.escape = ""
    return list(lexer)

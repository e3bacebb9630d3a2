"""Variables in prompts: `{df.shape}` becomes the value, once; every other brace stays.

An expression counts if it is one (`ast` says so), if every name in it exists, and if it is more
than a literal or the bare name of a builtin. So JSON, LaTeX, `a{3}`, templates and most code pass
through untouched. What a value contains is text, never looked at again. `{{x}}` is a way to write
`{x}` where `x` exists.
"""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Mapping
from types import CodeType
from typing import Any

from ..errors import PiwebError

__all__ = ["ExpansionError", "expand"]

# Longer is no expression that somebody wrote into a prompt.
_LONGEST = 500

# How many closing braces are tried for one opening brace: `{d["}"]}` needs its second.
_MOST_TRIES = 8

# What an expression in a prompt has no business doing: binding names, or needing a loop.
_REFUSED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


class ExpansionError(PiwebError):
    """An expression in a prompt failed; the prompt was not sent."""


def expand(prompt: str, namespace: Mapping[str, Any]) -> str:
    """The prompt with the values of its expressions in their places.

    Raises:
        ExpansionError: If an expression whose names all exist raises.
    """
    pieces: list[str] = []
    at = 0
    while (brace := prompt.find("{", at)) >= 0:
        pieces.append(prompt[at:brace])
        if prompt.startswith("{{", brace):
            found = _find_expression(prompt, brace + 1, namespace)
            if found is not None and prompt.startswith("}", found[1]):
                pieces.append(prompt[brace + 1 : found[1]])
                at = found[1] + 1
            else:
                pieces.append("{")
                at = brace + 1
            continue
        found = _find_expression(prompt, brace, namespace)
        if found is None:
            pieces.append("{")
            at = brace + 1
            continue
        code, at = found
        pieces.append(_evaluate(code, prompt[brace:at], namespace))
    pieces.append(prompt[at:])
    return "".join(pieces)


def _find_expression(
    prompt: str, brace: int, namespace: Mapping[str, Any]
) -> tuple[CodeType, int] | None:
    """The expression that opens at `brace`, and where the text goes on behind it."""
    line_end = prompt.find("\n", brace)
    end = min(brace + _LONGEST, len(prompt) if line_end < 0 else line_end)
    close = brace
    for _ in range(_MOST_TRIES):
        close = prompt.find("}", close + 1, end)
        if close < 0:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `{0is x}` is odd, and the user's affair
            try:
                tree = ast.parse(prompt[brace + 1 : close].strip(), mode="eval")
                code = compile(tree, "<prompt>", "eval")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
        return (code, close + 1) if _is_meant(tree, namespace) else None
    return None


def _is_meant(tree: ast.Expression, namespace: Mapping[str, Any]) -> bool:
    free: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, _REFUSED):
            return False
        if isinstance(node, ast.Name):
            (free if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    free -= bound
    if not all(name in namespace or hasattr(builtins, name) for name in free):
        return False
    if isinstance(tree.body, ast.Name | ast.Attribute):
        return any(name in namespace for name in free)
    return not _is_literal(tree.body)


def _is_literal(node: ast.AST) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp(operand=operand):
            return _is_literal(operand)
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return all(map(_is_literal, elements))
        case ast.Dict(keys=keys, values=values):
            return all(map(_is_literal, values)) and all(k and _is_literal(k) for k in keys)
    return False


def _evaluate(code: CodeType, text: str, namespace: Mapping[str, Any]) -> str:
    try:
        # The prompt is the user's own text, and the namespace is theirs: as in an f-string.
        return str(eval(code, dict(namespace)))
    except (Exception, SystemExit) as exc:
        raise ExpansionError(
            f"{text} in the prompt failed, so nothing was sent: {type(exc).__name__}: {exc}"
        ) from exc

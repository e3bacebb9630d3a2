"""An answer's Markdown as HTML for an output that a notebook keeps, safe by construction.

What a model writes is escaped first; only tags of ours are added to it. There are no images: a
notebook that somebody opens must fetch nothing. Whoever wants all of Markdown has the chat's view.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape

__all__ = ["render_markdown"]

# Longer answers are shown as they are, so that no pattern runs over a megabyte.
_LONGEST = 200_000

# Nested deeper, a quotation is a stunt.
_DEEPEST = 6

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*$")
_RULE = re.compile(r"^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")
_ITEM = re.compile(r"^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$")
_QUOTE = re.compile(r"^ {0,3}> ?(.*)$")
_TABLE_LINE = re.compile(r"^\s*\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?)?\s*$")

# All bounded: an unclosed mark must not be looked for to the end of the text, again and again.
_CODE = re.compile(r"(`+)(.{1,2000}?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\((https?://[^\s()<>]{1,2000})\)")
_STRONG = re.compile(r"\*\*(?=[^\s*])((?:[^*]|\*(?!\*)){1,1000}?)(?<=[^\s*])\*\*")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]{1,1000}?)(?<=[^\s*])\*(?![\w*])")


def render_markdown(text: str) -> str:
    """The text as HTML."""
    if len(text) > _LONGEST:
        return f"<pre>{escape(text)}</pre>"
    return "".join(_render_blocks(text.replace("\r\n", "\n").split("\n"), 0))


def _render_blocks(lines: list[str], depth: int) -> Iterator[str]:
    at = 0
    paragraph: list[str] = []

    def flush() -> Iterator[str]:
        if paragraph:
            yield f"<p>{_inline(chr(10).join(paragraph))}</p>"
            paragraph.clear()

    while at < len(lines):
        line = lines[at]
        if not line.strip():
            yield from flush()
            at += 1
        elif fence := _FENCE.match(line):
            yield from flush()
            at, html = _take_code(lines, at, fence[1])
            yield html
        elif heading := _HEADING.match(line):
            yield from flush()
            # An answer is a part of a notebook: its titles stand below the notebook's own.
            level = min(len(heading[1]) + 2, 6)
            yield f"<h{level}>{_inline(heading[2])}</h{level}>"
            at += 1
        elif _RULE.match(line):
            yield from flush()
            yield "<hr>"
            at += 1
        elif depth < _DEEPEST and _QUOTE.match(line):
            yield from flush()
            quoted = []
            while at < len(lines) and (quote := _QUOTE.match(lines[at])):
                quoted.append(quote[1])
                at += 1
            yield f"<blockquote>{''.join(_render_blocks(quoted, depth + 1))}</blockquote>"
        elif _ITEM.match(line):
            yield from flush()
            at, html = _take_list(lines, at)
            yield html
        elif "|" in line and at + 1 < len(lines) and _TABLE_LINE.match(lines[at + 1]):
            yield from flush()
            at, html = _take_table(lines, at)
            yield html
        else:
            paragraph.append(line.strip())
            at += 1
    yield from flush()


def _take_code(lines: list[str], at: int, fence: str) -> tuple[int, str]:
    code = []
    at += 1
    while at < len(lines):
        bare = lines[at].strip()
        at += 1
        if len(bare) >= len(fence) and not bare.strip(fence[0]):
            break
        code.append(lines[at - 1])
    return at, f"<pre><code>{escape(chr(10).join(code))}</code></pre>"


def _take_list(lines: list[str], at: int) -> tuple[int, str]:
    """A list and the lists in it; what is indented below an item is part of it."""
    html: list[str] = []
    levels: list[tuple[int, str]] = []
    while at < len(lines):
        item = _ITEM.match(lines[at])
        if item is None:
            if not lines[at].startswith((" ", "\t")) or not lines[at].strip():
                break
            html.append(f" {_inline(lines[at].strip())}")
            at += 1
            continue
        indent, tag = len(item[1].expandtabs(4)), "ol" if item[2] else "ul"
        while levels and indent < levels[-1][0]:
            html.append(f"</li></{levels.pop()[1]}>")
        if levels and (indent <= levels[-1][0] or len(levels) == _DEEPEST):
            html.append("</li>")
        else:
            start = f' start="{int(item[2])}"' if item[2] and int(item[2]) != 1 else ""
            html.append(f"<{tag}{start}>")
            levels.append((indent, tag))
        html.append(f"<li>{_inline(item[3])}")
        at += 1
    html += [f"</li></{tag}>" for _, tag in reversed(levels)]
    return at, "".join(html)


def _take_table(lines: list[str], at: int) -> tuple[int, str]:
    def row(line: str, tag: str) -> str:
        cells = line.strip().strip("|").split("|")
        return f"<tr>{''.join(f'<{tag}>{_inline(cell.strip())}</{tag}>' for cell in cells)}</tr>"

    rows = [row(lines[at], "th")]
    at += 2
    while at < len(lines) and "|" in lines[at]:
        rows.append(row(lines[at], "td"))
        at += 1
    return at, f"<table>{''.join(rows)}</table>"


def _inline(text: str) -> str:
    return _split(_CODE, text, _link, lambda code: f"<code>{escape(code[2].strip())}</code>")


def _link(text: str) -> str:
    def link(found: re.Match[str]) -> str:
        opened = f'<a href="{escape(found[2])}" target="_blank" rel="noopener noreferrer">'
        return f"{opened}{_strong(found[1])}</a>"

    return _split(_LINK, text, _strong, link)


def _strong(text: str) -> str:
    return _split(_STRONG, text, _emphasis, lambda bold: f"<strong>{_emphasis(bold[1])}</strong>")


def _emphasis(text: str) -> str:
    return _split(_EMPHASIS, text, escape, lambda soft: f"<em>{escape(soft[1])}</em>")


def _split(
    pattern: re.Pattern[str],
    text: str,
    between: Callable[[str], str],
    found: Callable[[re.Match[str]], str],
) -> str:
    """What was found, and what is between, each turned into HTML; so no tag crosses another."""
    pieces: list[str] = []
    at = 0
    for match in pattern.finditer(text):
        pieces += (between(text[at : match.start()]), found(match))
        at = match.end()
    pieces.append(between(text[at:]))
    return "".join(pieces)

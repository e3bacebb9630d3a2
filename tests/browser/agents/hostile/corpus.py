"""Texts that run a script or ask another server for something, wherever they are taken for HTML."""

from __future__ import annotations

__all__ = ["ELSEWHERE", "PAYLOADS"]

ELSEWHERE = "https://elsewhere.invalid"

_RUN = "window.pwned=1"
_ASK = f"{ELSEWHERE}/asked"

PAYLOADS = (
    # scripts
    f"<script>{_RUN}</script>",
    f'"><script>{_RUN}</script>',
    f"</textarea></title></style><script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f'<img src="x" onerror="{_RUN}" alt=\'">\'>',
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s></svg>",
    f"<math><mtext></form><form><mglyph><style></math><img src=x onerror={_RUN}>",
    "<math><mi><table><mglyph><style><!--</style>"
    f"<img title='--&gt;&lt;img src=x onerror={_RUN}&gt;'>",
    f"<noscript><p title='</noscript><img src=x onerror={_RUN}>'>",
    f"<details open ontoggle={_RUN}><summary>x</summary></details>",
    f"<input autofocus onfocus={_RUN}>",
    f"<video><source onerror={_RUN}></video>",
    f'<iframe srcdoc="<script>parent.{_RUN}</script>"></iframe>',
    f'<iframe src="javascript:parent.{_RUN}"></iframe>',
    f'<object data="javascript:{_RUN}"></object>',
    f'<embed src="javascript:{_RUN}">',
    f"<template><img src=x onerror={_RUN}></template>",
    f'<form action="javascript:{_RUN}"><button>go</button></form>',
    f'<a href="javascript:{_RUN}">go</a>',
    f'<a href="java&#10;script:{_RUN}">go</a>',
    f'<a href=" &#1; javascript:{_RUN}">go</a>',
    f'<a href="data:text/html,<script>opener.{_RUN}</script>">go</a>',
    f"[go](javascript:{_RUN})",
    f"[go](JaVaScRiPt:{_RUN})",
    f"[go](<java\tscript:{_RUN}>)",
    f"[go](vbscript:{_RUN})",
    "[go](data:text/html;base64,PHNjcmlwdD5vcGVuZXIucHduZWQ9MTwvc2NyaXB0Pg==)",
    f"[go]: javascript:{_RUN}\n\n[go]",
    f"<javascript:{_RUN}>",
    f'![x](x"onerror="{_RUN})',
    f"![x](data:image/svg+xml;utf8,<svg/onload={_RUN}>)",
    f"```<img src=x onerror={_RUN}>\n</code></pre><script>{_RUN}</script>\n```",
    f"`<img src=x onerror={_RUN}>`",
    f"| <img src=x onerror={_RUN}> |\n|-|\n| <script>{_RUN}</script> |",
    "constructor",
    "__proto__",
    # requests
    f"![x]({_ASK}/markdown.png)",
    "![x](//elsewhere.invalid/asked/no-scheme.png)",
    f"![x][1]\n\n[1]: {_ASK}/reference.png",
    f'<img src="{_ASK}/img.png">',
    f'<img srcset="{_ASK}/srcset.png 1x">',
    f'<picture><source srcset="{_ASK}/picture.png"><img></picture>',
    f'<video src="{_ASK}/video.mp4" poster="{_ASK}/poster.png" autoplay></video>',
    f'<audio src="{_ASK}/audio.mp3" autoplay></audio>',
    f'<input type=image src="{_ASK}/input.png">',
    f'<table background="{_ASK}/table.png"><tr><td background="{_ASK}/cell.png">x</table>',
    f'<svg><image href="{_ASK}/svg.png"/><use href="{_ASK}/use.svg#x"/></svg>',
    f"<style>@import url({_ASK}/style.css); * {{ background: url({_ASK}/style.png) }}</style>",
    f'<p style="background: url({_ASK}/inline.png)">x</p>',
    f'<link rel=stylesheet href="{_ASK}/link.css"><link rel=prefetch href="{_ASK}/prefetch">',
    f'<meta http-equiv=refresh content="0; url={_ASK}/refresh">',
    f'<base href="{ELSEWHERE}/">',
    f'<script src="{_ASK}/script.js"></script>',
    f'<iframe src="{_ASK}/frame.html"></iframe>',
    f'<object data="{_ASK}/object"></object><embed src="{_ASK}/embed">',
    f'<body background="{_ASK}/body.png" onload={_RUN}>',
    f'<a href="#" ping="{_ASK}/ping">x</a>',
)

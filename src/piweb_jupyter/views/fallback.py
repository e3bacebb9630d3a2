"""What stands in a saved notebook where a view was: plain HTML, the same for the same state.

No scripts and no styles but structure; it must be readable in GitHub's viewer and in nbconvert.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ..wire.json import JSON, dumps

if TYPE_CHECKING:
    from ..host.session import AgentSession

__all__ = ["chat_html", "name_html", "session_html", "state_html", "surface_html"]

# A notebook holds a fallback per display: it shall say what was there, not carry it.
_ENTRIES = 40
_DEPTH = 4
_TEXT = 200
_MESSAGES = 12

_HINT = "The live view needs a running kernel: run the cell again."


def name_html(session: AgentSession) -> str:
    """Which agent this is."""
    return _card(f"{session.name}: an agent, its chat and its surfaces", "")


def session_html(session: AgentSession) -> str:
    """The chat and every surface."""
    parts = [_chat(session), *(_surface(session, domain) for domain in session.surfaces)]
    return _card(session.name, "".join(parts))


def surface_html(session: AgentSession, domain: str) -> str:
    """The last snapshot of a surface as a nested list."""
    return _card("", _surface(session, domain))


def chat_html(session: AgentSession) -> str:
    """The last messages of a chat, text only."""
    return _card("", _chat(session))


def _surface(session: AgentSession, domain: str) -> str:
    surface = session.surface(domain)
    title = (surface.spec and surface.spec.title) or domain
    head = f"<p><b>{escape(title)} · {escape(session.name)}</b></p>"
    if surface.rev < 0:
        return f"{head}<p>Nothing was shown yet.</p>"
    return f"{head}<p>rev {surface.rev}, agent offline</p>{state_html(surface.state)}"


def _chat(session: AgentSession) -> str:
    messages = [message for message in session.transcript.messages if message["role"] != "notice"]
    told = []
    for message in messages[-_MESSAGES:]:
        texts = [part["text"] for part in message["parts"] if part["type"] == "text"]
        tools = [part["name"] for part in message["parts"] if part["type"] == "tool"]
        entry = f"<dt>{escape(message['role'])}</dt><dd>{_text(' '.join(texts))}"
        if tools:
            entry += f" <i>tools: {escape(', '.join(tools))}</i>"
        told.append(entry + "</dd>")
    left = len(messages) - len(told)
    more = f"<p>… {left} earlier</p>" if left > 0 else ""
    head = f"<p><b>Chat with {escape(session.name)}</b></p>"
    return f"{head}{more}<dl>{''.join(told)}</dl>" if told else f"{head}<p>No messages yet.</p>"


def state_html(value: JSON, depth: int = 0) -> str:
    """Any JSON value as lists; what is long, deep or many is cut and says so."""
    if isinstance(value, dict | list) and not value:
        return "<code>{}</code>" if isinstance(value, dict) else "<code>[]</code>"
    if depth >= _DEPTH and isinstance(value, dict | list):
        return f"<i>… {len(value)} entries</i>"
    match value:
        case dict():
            rows = [
                f"<li><b>{escape(str(key)[:_TEXT])}</b>: {state_html(item, depth + 1)}</li>"
                for key, item in list(value.items())[:_ENTRIES]
            ]
        case list():
            rows = [f"<li>{state_html(item, depth + 1)}</li>" for item in value[:_ENTRIES]]
        case str():
            return _text(value)
        case _:
            return f"<code>{escape(dumps(value).decode())}</code>"
    if (left := len(value) - len(rows)) > 0:
        rows.append(f"<li><i>… {left} more</i></li>")
    return f"<ul>{''.join(rows)}</ul>"


def _text(text: str) -> str:
    return escape(text if len(text) <= _TEXT else text[:_TEXT] + " …")


def _card(title: str, body: str) -> str:
    head = f"<p><b>{escape(title)}</b></p>" if title else ""
    return f'<div class="piweb-static">{head}{body}<p>{_HINT}</p></div>'

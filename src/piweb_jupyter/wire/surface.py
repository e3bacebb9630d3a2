"""Surfaces on the wire: their keys, their declaration, the outcome of a command."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..errors import ProtocolError
from .json import JSON
from .record import Record, field

__all__ = [
    "PROTOCOL_VERSION",
    "VIEW_LIMIT",
    "Actor",
    "CommandSpec",
    "SurfaceSpec",
    "domain_of",
    "surface_key",
]

# Sent in every `ui_rpc`; pi-web's runner does not look at it.
PROTOCOL_VERSION = "0.1.0"

# The largest view module an agent may ship, in bytes of UTF-8.
VIEW_LIMIT = 256 * 1024

_PREFIX = "surface:"

# Who asked: a person in a view, the model through a tool, a notebook cell.
Actor: TypeAlias = Literal["user", "llm", "cell"]


def surface_key(domain: str) -> str:
    """The state key, and the name of the probe command, of a surface."""
    return _PREFIX + domain


def domain_of(key: str) -> str | None:
    """The domain whose snapshot lives under `key`, or None for a key of the shared state."""
    return key[len(_PREFIX) :] if key.startswith(_PREFIX) else None


class CommandSpec(Record):
    """One command of a surface, as declared by its author.

    `args` is a JSON Schema of type object. `confirm` is a question the view asks before sending.
    A `guard` command may carry `ifRev`; a `concurrent` one does not queue behind the others.
    """

    name: str
    title: str = ""
    description: str = field(default="", repr=False)
    args: JSON = field(default=None, repr=False)
    confirm: str = ""
    guard: bool = False
    concurrent: bool = False

    def to_json(self) -> dict[str, JSON]:
        out: dict[str, JSON] = {"name": self.name}
        for key in ("title", "description", "args", "confirm", "guard", "concurrent"):
            if value := getattr(self, key):
                out[key] = value
        return out


class SurfaceSpec(Record):
    """What a surface says of itself when it is registered. `view` is source text, not a path."""

    domain: str
    title: str = ""
    commands: tuple[CommandSpec, ...] = ()
    state_schema: JSON = field(default=None, repr=False)
    view_module: str = field(default="", repr=False)
    view_css: str = field(default="", repr=False)

    def to_json(self) -> dict[str, JSON]:
        out: dict[str, JSON] = {
            "domain": self.domain,
            "commands": [command.to_json() for command in self.commands],
        }
        if self.title:
            out["title"] = self.title
        if self.state_schema:
            out["state"] = self.state_schema
        if self.view_module:
            out["view"] = {"module": self.view_module}
            if self.view_css:
                out["view"]["css"] = self.view_css
        return out

    @classmethod
    def from_json(cls, fields: dict[str, JSON], line: bytes) -> SurfaceSpec:
        """Read a declaration; entries of the wrong shape are left out, the rest is kept."""
        domain = fields.get("domain")
        if not isinstance(domain, str) or not domain:
            raise ProtocolError("a surface declaration without a domain", line)
        commands = (
            tuple(
                CommandSpec(
                    name=entry["name"],
                    title=_text(entry.get("title")),
                    description=_text(entry.get("description")),
                    args=entry["args"] if isinstance(entry.get("args"), dict) else None,
                    confirm=_text(entry.get("confirm")),
                    guard=entry.get("guard") is True,
                    concurrent=entry.get("concurrent") is True,
                )
                for entry in (fields.get("commands") or ())
                if isinstance(entry, dict) and isinstance(entry.get("name"), str)
            )
            if isinstance(fields.get("commands"), list)
            else ()
        )
        view = fields.get("view")
        module = _text(view.get("module")) if isinstance(view, dict) else ""
        css = _text(view.get("css")) if isinstance(view, dict) else ""
        if len(module.encode()) > VIEW_LIMIT or len(css.encode()) > VIEW_LIMIT:
            module = css = ""
        schema = fields.get("state")
        return cls(
            domain=domain,
            title=_text(fields.get("title")),
            commands=commands,
            state_schema=schema if isinstance(schema, dict) else None,
            view_module=module,
            view_css=css,
        )


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

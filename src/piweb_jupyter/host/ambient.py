"""What is beside the messages of a chat: model, queue, title, statuses, widgets and the like."""

from __future__ import annotations

from ..wire.json import JSON, Fields
from ..wire.rpc import UiRequest
from .content import OUTPUT_LIMIT, compact_usage, cut
from .messages import Op

__all__ = ["Ambient", "model_name"]

# Status lines and widgets kept, each.
_LIMIT = 100

_TITLE = ("title", "")


class Ambient:
    """The meta fields of a transcript. Values are replaced, never changed in place."""

    def __init__(self) -> None:
        self.fields: dict[str, JSON] = {
            "busy": False,
            "model": "",
            "thinkingLevel": "",
            "queue": {"steering": [], "followUp": []},
            "usage": None,
            "stats": None,
            "title": "",
            "status": {},
            "widgets": {},
            "editorText": None,
            "compacting": None,
        }
        self._set_at: dict[tuple[str, str], int] = {}

    def set(self, **fields: JSON) -> list[Op]:
        """Change fields; told is what is new."""
        changed = {key: value for key, value in fields.items() if self.fields[key] != value}
        self.fields.update(changed)
        return [("meta", changed)] if changed else []

    def set_title(self, title: str, seq: int) -> list[Op]:
        self._set_at[_TITLE] = seq
        return self.set(title=cut(title, 1000))

    def set_model(self, state: Fields) -> list[Op]:
        """Take the model and the thinking level from a `get_state` or a `cycle_model`."""
        changed: dict[str, JSON] = {}
        model = state.get("model")
        if isinstance(model, dict):
            changed["model"] = model_name(model.get("provider"), model.get("id"))
        elif isinstance(model, str):
            changed["model"] = model
        if isinstance(state.get("thinkingLevel"), str):
            changed["thinkingLevel"] = state["thinkingLevel"]
        return self.set(**changed)

    def count_usage(self, message: Fields) -> list[Op]:
        """Add what an assistant's message has used; the last one tells how full the context is."""
        changed: dict[str, JSON] = {}
        if name := model_name(message.get("provider"), message.get("model")):
            changed["model"] = name
        if usage := compact_usage(message.get("usage")):
            before = self.fields["usage"] or {}
            total = {key: before.get(key, 0) + value for key, value in usage.items()}
            changed["usage"] = {**before, **total, "context": usage.get("totalTokens", 0)}
        return self.set(**changed)

    def apply_ui(self, request: UiRequest, seq: int) -> list[Op]:
        """Take in a status, a widget, a title or a text for the composer."""
        fields = request.fields
        match request.method:
            case "setStatus":
                text = _text(fields.get("statusText"))
                return self._set_entry("status", _text(fields.get("statusKey")), text or None, seq)
            case "setWidget":
                lines = fields.get("widgetLines")
                placement = _text(fields.get("widgetPlacement")) or "aboveEditor"
                widget = None
                if isinstance(lines, list):
                    widget = {"lines": [str(line) for line in lines], "placement": placement}
                return self._set_entry("widgets", _text(fields.get("widgetKey")), widget, seq)
            case "setTitle":
                return self.set_title(_text(fields.get("title")), seq)
            case "set_editor_text":
                # Numbered, since the same text again is meant to be put there again.
                times = (self.fields["editorText"] or {}).get("n", 0) + 1
                text = cut(_text(fields.get("text")), OUTPUT_LIMIT)
                return self.set(editorText={"n": times, "text": text})
        return []

    def forget(self, since: int) -> list[Op]:
        """Another session: drop the old one's numbers, queue, statuses, widgets and title."""
        kept: dict[str, dict[str, JSON]] = {"status": {}, "widgets": {}}
        self._set_at = {key: seq for key, seq in self._set_at.items() if seq >= since}
        for kind, name in self._set_at:
            if kind in kept:
                kept[kind][name] = self.fields[kind][name]
        title = self.fields["title"] if _TITLE in self._set_at else ""
        return self.set(usage=None, stats=None, title=title, **kept) + self.rest()

    def end(self) -> list[Op]:
        """The agent is gone, and its statuses and widgets with it."""
        self._set_at = {key: seq for key, seq in self._set_at.items() if key == _TITLE}
        return self.set(status={}, widgets={}) + self.rest()

    def rest(self) -> list[Op]:
        """Nothing is going on."""
        return self.set(busy=False, compacting=None, queue={"steering": [], "followUp": []})

    def _set_entry(self, kind: str, name: str, value: JSON, seq: int) -> list[Op]:
        entries = {key: entry for key, entry in self.fields[kind].items() if key != name}
        self._set_at.pop((kind, name), None)
        if value is not None:
            entries[name] = value
            self._set_at[kind, name] = seq
        while len(entries) > _LIMIT:
            oldest = next(iter(entries))
            del entries[oldest], self._set_at[kind, oldest]
        return self.set(**{kind: entries})


def model_name(provider: JSON, model: JSON) -> str:
    """`provider/id`, or the id alone; empty for pi's placeholder when there is no model."""
    if not isinstance(model, str) or (provider == model == "unknown"):
        return ""
    if not isinstance(provider, str) or provider in ("", model):
        return model
    return f"{provider}/{model}"


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

"""Parts of a chat message: pi's content as a chat shows it, bounded in size.

Limits of single texts are in characters. Whatever is cut says so in place (`… cut`) and carries
`"cut": true`.
"""

from __future__ import annotations

from typing import TypeAlias

from ..wire.json import JSON, dumps

__all__ = [
    "ARGS_LIMIT",
    "CUT",
    "DETAILS_LIMIT",
    "IMAGE_LIMIT",
    "OUTPUT_LIMIT",
    "TEXT_LIMIT",
    "Part",
    "compact_usage",
    "cut",
    "image_part",
    "notice_part",
    "parts_of",
    "read_result",
    "set_args",
    "set_result",
    "shed",
    "text_of",
    "text_part",
    "thinking_part",
    "tool_part",
    "weight",
]

Part: TypeAlias = dict[str, JSON]

# One tool call's output. pi itself keeps the last 50 KB; other agents keep no limit.
OUTPUT_LIMIT = 256 * 1024

# One block of text or thinking. The longest answers of today's models are near 200,000 characters.
TEXT_LIMIT = 1024 * 1024

# A tool call's arguments and the details of its result, as JSON. `write` carries whole files.
ARGS_LIMIT = 256 * 1024
DETAILS_LIMIT = 64 * 1024

# One image, in base64. pi scales down what is over 2,000 pixels; the largest seen was 2.9 MB.
IMAGE_LIMIT = 6 * 1024 * 1024

CUT = "… cut"

# What remains of a text that is shed to keep the whole transcript in bounds.
_SHED_TO = 1024


def cut(text: str, limit: int) -> str:
    """`text`, or its head and tail around a visible mark if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n{CUT}: {len(text) - 2 * half} characters\n{text[-half:]}"


def text_part(text: str = "") -> Part:
    return _marked({"type": "text", "text": cut(text, TEXT_LIMIT)}, len(text) > TEXT_LIMIT)


def thinking_part(text: str = "", *, done: bool = False) -> Part:
    part = {"type": "thinking", "text": cut(text, TEXT_LIMIT), "done": done}
    return _marked(part, len(text) > TEXT_LIMIT)


def notice_part(level: str, text: str) -> Part:
    return {"type": "notice", "level": level, "text": cut(text, OUTPUT_LIMIT)}


def tool_part(id_: str, name: str) -> Part:
    return {
        "type": "tool",
        "id": id_,
        "name": name,
        "args": None,
        "status": "pending",
        "output": "",
    }


def image_part(item: JSON) -> Part:
    """An inline image (`data` in base64) or a reference to an attachment (`attachmentId`)."""
    part: Part = {"type": "image", "mimeType": _text(item.get("mimeType")) or "image/png"}
    if isinstance(item.get("attachmentId"), str):
        part["attachmentId"] = item["attachmentId"]
        return part
    data = _text(item.get("data"))
    part["data"] = data if len(data) <= IMAGE_LIMIT else ""
    return _marked(part, len(data) > IMAGE_LIMIT)


def parts_of(content: JSON) -> list[Part]:
    """The parts of a user's or an extension's message: a string, or a list of text and images."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    parts: list[Part] = []
    for item in content if isinstance(content, list) else ():
        match item:
            case {"type": "text", "text": str(text)} if text:
                parts.append(text_part(text))
            case {"type": "image"}:
                parts.append(image_part(item))
    return parts


def text_of(content: JSON) -> str:
    """The text blocks of a content list, one under the other."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        item["text"]
        for item in content
        if isinstance(item, dict) and item.get("type") == "text" and type(item.get("text")) is str
    )


def set_args(part: Part, args: JSON) -> None:
    """Give a card its arguments, and drop the half-read text of them."""
    part.pop("argsText", None)
    part["args"], is_cut = _bounded(args, ARGS_LIMIT, ARGS_LIMIT // 16)
    _marked(part, is_cut)


def read_result(result: JSON) -> tuple[str, list[Part], JSON]:
    """Output, images and details of a tool's result, whatever shape it has.

    A text result is itself; of an object, the first of `content`, `errorText`, `reason` and
    `message` that says something; anything else is shown as JSON.
    """
    if result is None:
        return "", [], None
    if isinstance(result, str):
        return result, [], None
    if not isinstance(result, dict):
        return _as_json(result), [], None
    content = result.get("content")
    images = [
        image_part(item)
        for item in (content if isinstance(content, list) else ())
        if isinstance(item, dict) and item.get("type") == "image"
    ]
    details = result.get("details") or None
    if content is not None:
        return text_of(content), images, details
    for key in ("errorText", "reason", "message"):
        if isinstance(result.get(key), str):
            return result[key], images, details
    return _as_json(result), images, details


def set_result(part: Part, result: JSON) -> None:
    """Give a card its output so far or its final one; it replaces what was there."""
    output, images, details = read_result(result)
    part["output"] = cut(output, OUTPUT_LIMIT)
    part.pop("cut", None)
    _marked(part, len(output) > OUTPUT_LIMIT)
    part.pop("images", None)
    if images:
        part["images"] = images
    part.pop("details", None)
    if details is not None:
        part["details"], _ = _bounded(details, DETAILS_LIMIT, DETAILS_LIMIT // 16)


def weight(part: Part) -> int:
    """The bytes that a part keeps, near enough to bound a transcript by."""
    total = sum(_bytes(part.get(key) or "") for key in ("text", "output", "argsText", "data"))
    for image in part.get("images") or ():
        total += len(image.get("data") or "")
    for key in ("args", "details"):
        if part.get(key):
            total += len(dumps(part[key]))
    return total


def shed(part: Part) -> bool:
    """Cut an old part down to a stub; False if there was nothing to gain."""
    if weight(part) <= 2 * _SHED_TO:
        return False
    for key in ("text", "output"):
        if key in part:
            part[key] = cut(part[key], _SHED_TO)
    if "data" in part:
        part["data"] = ""
    if "images" in part:
        part["images"] = [{**image, "data": "", "cut": True} for image in part["images"]]
    part.pop("details", None)
    if part.get("args"):
        part["args"], _ = _bounded(part["args"], _SHED_TO, _SHED_TO // 4)
    part["cut"] = True
    return True


def compact_usage(usage: JSON) -> dict[str, float] | None:
    """pi's token counts and the total cost as one flat object; None if nothing was counted."""
    if not isinstance(usage, dict):
        return None
    out = {
        key: usage[key]
        for key in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
        if isinstance(usage.get(key), int | float)
    }
    cost = usage.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else cost
    if isinstance(total, int | float):
        out["cost"] = total
    return out if any(out.values()) else None


def _bytes(text: str) -> int:
    # Asking a string whether it is ASCII is free; others take two to four bytes a character.
    return len(text) if text.isascii() else 3 * len(text)


def _marked(part: Part, is_cut: bool) -> Part:
    if is_cut:
        part["cut"] = True
    return part


def _bounded(value: JSON, limit: int, text_limit: int) -> tuple[JSON, bool]:
    """`value`, with long texts in it cut if it is over `limit` as JSON, or only its size if that
    does not help. What cannot be encoded at all (orjson reads deeper than it writes) goes, too."""
    try:
        size = len(dumps(value))
        if size <= limit:
            return value, False
        value = _shortened(value, text_limit)
        if len(dumps(value)) <= limit:
            return value, True
    except TypeError:
        return {CUT: "nested too deeply"}, True
    return {CUT: f"{size} bytes"}, True


def _as_json(value: JSON) -> str:
    try:
        return dumps(value).decode()
    except TypeError:
        return f"{CUT}: nested too deeply"


def _shortened(value: JSON, limit: int) -> JSON:
    match value:
        case str():
            return cut(value, limit)
        case list():
            return [_shortened(item, limit) for item in value]
        case dict():
            return {key: _shortened(item, limit) for key, item in value.items()}
    return value


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

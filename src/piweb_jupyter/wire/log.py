"""pi-web's structured log records, which travel on stderr behind a sentinel."""

from __future__ import annotations

import orjson

__all__ = ["read_record"]

_SENTINEL = b"\x02PILOG\x03 "


def read_record(line: bytes) -> str:
    """One stderr line as text; a structured record becomes `[level namespace] text`."""
    if line.startswith(_SENTINEL):
        try:
            record = orjson.loads(line[len(_SENTINEL) :])
        except orjson.JSONDecodeError:
            record = None
        if type(record) is dict and type(record.get("msg")) is str:
            return f"[{record.get('level')} {record.get('ns')}] {record['msg']}"
    return line.rstrip(b"\r").decode("utf-8", "replace")

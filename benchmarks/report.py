"""What a benchmark says: a figure, beside it the bar that was promised, and ok or MISS."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .visits import Comparison

__all__ = ["Figure", "at_least", "at_most", "note", "print_figure", "skipped", "to_markdown"]

Verdict = Literal["ok", "MISS", "skipped", ""]


@dataclass(frozen=True)
class Figure:
    """One line of the report. Without a bar it is there to explain the others."""

    subject: str
    what: str
    value: str
    bar: str = ""
    verdict: Verdict = ""
    detail: str = ""


def at_most(
    subject: str,
    what: str,
    value: float | Comparison,
    bar: float,
    unit: str = "x",
    detail: str = "",
) -> Figure:
    number, spread = _read(value, unit)
    verdict: Verdict = "ok" if number <= bar else "MISS"
    return Figure(
        subject, what, _show(number, unit), f"≤ {bar:g} {unit}", verdict, detail or spread
    )


def at_least(
    subject: str,
    what: str,
    value: float | Comparison,
    bar: float,
    unit: str = "x",
    detail: str = "",
) -> Figure:
    number, spread = _read(value, unit)
    verdict: Verdict = "ok" if number >= bar else "MISS"
    return Figure(
        subject, what, _show(number, unit), f"≥ {bar:g} {unit}", verdict, detail or spread
    )


def note(
    subject: str, what: str, value: float | Comparison, unit: str = "x", detail: str = ""
) -> Figure:
    number, spread = _read(value, unit)
    return Figure(subject, what, _show(number, unit), detail=detail or spread)


def skipped(subject: str, what: str, reason: str) -> Figure:
    return Figure(subject, what, "", verdict="skipped", detail=reason)


def print_figure(figure: Figure) -> None:
    print(
        f"{figure.subject:8} {figure.what:66} {figure.value:>14}  {figure.bar:>13}  "
        f"{figure.verdict:7} {figure.detail}",
        flush=True,
    )


def to_markdown(figures: Iterable[Figure]) -> str:
    lines = ["| subject | what | figure | bar | |", "|---|---|---:|---:|---|"]
    lines += [
        f"| {f.subject} | {f.what} | {f.value} | {f.bar} | {f.verdict} {f.detail} |"
        for f in figures
    ]
    return "\n".join(lines) + "\n"


def _read(value: float | Comparison, unit: str) -> tuple[float, str]:
    if isinstance(value, Comparison):
        return value.ratio, f"({value.low:.2f} … {value.high:.2f})"
    return value, ""


def _show(number: float, unit: str) -> str:
    text = f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
    return f"{text} {unit}"

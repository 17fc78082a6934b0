"""Numbers, units and citations in words."""

from __future__ import annotations

from collections.abc import Sequence

from services.policy.backends.rules.words import CHINESE, Words


def unit_text(unit: str) -> str:
    """A unit after a number: ``%`` close to it, others after a space, without remarks in brackets and base years."""
    name = unit.partition(" (")[0].strip()
    name = "" if "=" in name else name
    return name if name in ("", "%") else f" {name}"


def cited(materials: Sequence[int], words: Words) -> str:
    """``" [1][2]"`` (no space in Chinese); empty when nothing can be cited."""
    marks = "".join(f"[{number}]" for number in dict.fromkeys(materials) if number > 0)
    return f" {marks}" if marks and words is not CHINESE else marks


def plain(value: float | int | None) -> str:
    """A number as the cell printed it, with thousands separators."""
    return "" if value is None else f"{value:,}"


def grouped(text: str) -> str:
    """Thousands separators for a number that a digest shows; other text as it is."""
    whole, point, fraction = text.partition(".")
    return f"{int(whole):,}{point}{fraction}" if whole.lstrip("-").isdigit() else text


def percent(value: float | int | None) -> str:
    """One decimal, as the cell rounded it."""
    return "" if value is None else f"{value:,.1f}%"


def signed(text: str) -> str:
    """An explicit plus on what grew."""
    return text if text.startswith("-") or not text else f"+{text}"

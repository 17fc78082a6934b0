"""Formatting of numbers, units and citations."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.policy.backends.rules.prose.words import CHINESE, Words


def unit_text(unit: str) -> str:
    """Format a unit after a number: ``%`` without a space; bracketed remarks and base years are dropped."""
    name = unit.partition(" (")[0].strip()
    # "2017=100" is the base of an index and no unit of its values.
    name = "" if "=" in name else name
    return name if name in ("", "%") else f" {name}"


def cited(materials: Sequence[int], words: Words) -> str:
    """Format citations as ``" [1][2]"`` (no space in Chinese); "" when nothing can be cited."""
    # 0 is the number of what has no material and cannot be cited.
    marks = "".join(f"[{number}]" for number in dict.fromkeys(materials) if number > 0)
    return f" {marks}" if marks and words is not CHINESE else marks


def plain(value: float | int | None) -> str:
    """Format a number as printed by the cell, with thousands separators."""
    return "" if value is None else f"{value:,}"


def grouped(text: str) -> str:
    """Add thousands separators to a number in text; return other text unchanged."""
    whole, point, fraction = text.partition(".")
    return f"{int(whole):,}{point}{fraction}" if whole.lstrip("-").isdigit() else text


def percent(value: float | int | None) -> str:
    """Format a percentage with one decimal, as rounded by the cell."""
    return "" if value is None else f"{value:,.1f}%"


def signed(text: str) -> str:
    """Add an explicit plus to a non-negative number."""
    return text if text.startswith("-") or not text else f"+{text}"

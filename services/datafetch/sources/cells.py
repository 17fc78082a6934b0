"""Parsing of numbers and dates as people and vendors write them, and construction of the tables of each kind."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from fathom.domain.frames import arrow

NOTHING = frozenset(
    {"", "-", "--", "—", "–", ".", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "缺失", "无", "不适用"}
)
# "1,234.5": groups of three only, since "1,5" is one and a half in much of Europe.
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
# Year, month and day with any separator, Chinese too, and a time of midnight as spreadsheets add it.
DAY = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?(?:[ T]00:00(?::00(?:\.0+)?)?)?")
# Eight digits of this or the last century: 20250207.
PACKED = re.compile(r"(19|20)\d{6}")
Bar = tuple[date, float | None, float | None, float | None, float | None, float | None, float | None]


def parse_number(value: Any) -> float | None:
    """Parse a finite number; None for the usual words for "no value". Raises ``ValueError`` for anything else."""
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("a truth value is no number")
    if isinstance(value, int | float):
        found = float(value)
        # Spreadsheets and pandas write NaN for an empty cell.
        return found if math.isfinite(found) else None
    text = str(value).strip()
    if text.lower() in NOTHING:
        return None
    if text.startswith("(") and text.endswith(")"):  # accountants' minus
        text = "-" + text[1:-1]
    if GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if not PLAIN.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)


def parse_day(value: Any) -> date | None:
    """Parse a day (2025/7/27, 20250207, 2025-02-07, 2025年2月7日); None for the usual words for "no value".

    Raises ``ValueError`` for anything else.
    """
    if value is None or isinstance(value, datetime):
        return None if value is None else value.date()
    if isinstance(value, date):
        return value
    text = str(value).strip()
    if text.lower() in NOTHING:
        return None
    if found := DAY.fullmatch(text):
        return date(int(found[1]), int(found[2]), int(found[3]))
    if PACKED.fullmatch(text):
        return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    raise ValueError(f"{text[:40]!r} is no day")


def make_price_table(bars: Iterable[Bar]) -> Any:
    """Return an Arrow table of ``COLUMNS[Kind.PRICES]``, days ascending; of duplicates the last one wins."""
    pa = arrow()
    # A vendor that repeats a day means its newer figures.
    once = {bar[0]: bar for bar in bars}
    rows = [once[when] for when in sorted(once)]
    columns: dict[str, Any] = {"date": pa.array([row[0] for row in rows], pa.date32())}
    for place, name in enumerate(("open", "high", "low", "close", "volume", "adj_close"), start=1):
        columns[name] = pa.array([row[place] for row in rows], pa.float64())
    return pa.table(columns)


def make_price_units(currency: str) -> dict[str, str]:
    return {**dict.fromkeys(("open", "high", "low", "close", "adj_close"), currency), "volume": "shares"}


STATEMENT_TYPES = {"start": "date32", "end": "date32", "filed": "date32", "value": "float64", "latest": "bool_"}


def make_statement_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return an Arrow table of ``COLUMNS[Kind.STATEMENTS]``, sorted by concept, period and day of filing.

    Filings that only repeat a figure are dropped; ``latest`` marks the newest vintage of each figure.
    """
    pa = arrow()
    kept = mark_vintages(rows, ("concept", "unit", "start", "end"), "filed")
    names = ("concept", "unit", "start", "end", "value", "filed", "form", "accession", "latest")
    return pa.table(
        {
            name: pa.array(
                [row.get(name) for row in kept],
                getattr(pa, STATEMENT_TYPES[name])() if name in STATEMENT_TYPES else pa.string(),
            )
            for name in names
        }
    )


def make_series_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return an Arrow table of ``COLUMNS[Kind.SERIES]``, sorted by day and day of publication.

    Vintages are treated as by ``make_statement_table``.
    """
    pa = arrow()
    kept = mark_vintages(rows, ("date",), "published")
    return pa.table(
        {
            "date": pa.array([row["date"] for row in kept], pa.date32()),
            "value": pa.array([row["value"] for row in kept], pa.float64()),
            "published": pa.array([row.get("published") for row in kept], pa.date32()),
            "latest": pa.array([row["latest"] for row in kept], pa.bool_()),
        }
    )


def mark_vintages(rows: Sequence[Mapping[str, Any]], key: tuple[str, ...], known: str) -> list[dict[str, Any]]:
    """Sort rows by key and day of knowledge, drop repeated values, and set ``latest`` on the newest row of each key."""
    first = date.min
    ordered = sorted(rows, key=lambda row: (*(make_sort_key(row.get(name)) for name in key), row.get(known) or first))
    kept: list[dict[str, Any]] = []
    for row in ordered:
        # Rows with one key stand beside each other and ascend by their day, so comparing with the last one suffices.
        same = bool(kept) and all(kept[-1].get(name) == row.get(name) for name in key)
        if same and kept[-1]["value"] == row["value"]:
            continue
        if same:
            kept[-1]["latest"] = False
        kept.append({**row, "latest": True})
    return kept


def make_sort_key(value: Any) -> str:
    """Return a sort key: the value as text, which also sorts ISO dates."""
    return "" if value is None else str(value)

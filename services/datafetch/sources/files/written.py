"""Numbers and days as people write them into tables: decimal commas, currencies, and the order of day and month."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from fathom.services.datafetch.sources.cells import parse_day, parse_number

# "1.234.567,89" and "12,5"; groups of three behind points, blanks or apostrophes.
COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:[.\u00a0\u202f' ]\d{3})+|\d+)(?:,\d+)?")
# What "1.234" is depends on who wrote it.
GROUPED_BY_POINTS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+")
GROUPS = str.maketrans("", "", ".'\u00a0\u202f ")
# "US$", "R$": letters that belong to a sign behind them.
LETTERS = r"[A-Z]{0,3}"
SLASHED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")
NAMED = ("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%B-%Y", "%d-%b-%y", "%b %d %Y", "%B %d %Y")


def parse_comma_number(cell: Any) -> float | None:
    """Parse a number with a decimal comma: "1.234,5"; accountants' minus as well. Raises ``ValueError``."""
    if not isinstance(cell, str):
        return parse_number(cell)
    text = cell.strip()
    text = f"-{text[1:-1].strip()}" if text.startswith("(") and text.endswith(")") else text
    if not COMMA.fullmatch(text):
        raise ValueError("no number with a decimal comma")
    return float(text.translate(GROUPS).replace(",", "."))


def split_currency(cell: Any) -> tuple[str, str]:
    """Return the sign of a currency in a cell ("$", "US$", "€") and the rest; "" and the cell without one."""
    text = str(cell).strip()
    signs = [character for character in text if unicodedata.category(character) == "Sc"]
    if len(signs) != 1:
        return "", text
    found = re.search(rf"{LETTERS}{re.escape(signs[0])}", text)
    assert found is not None
    rest = (text[: found.start()] + text[found.end() :]).strip()
    # "-$5" and "$ -5" are the same; a blank behind the minus is none of the number.
    return found[0], re.sub(r"^([+-])\s+", r"\1", re.sub(r"\(\s*(.*?)\s*\)", r"(\1)", rest))


def find_currency(cells: Sequence[Any]) -> str:
    """Return the one sign that all amounts of a column have; "" without one, and for several."""
    signs = {split_currency(cell)[0] for cell in cells if isinstance(cell, str)}
    # Amounts without a sign beside others with one are of the same column; two signs are two currencies.
    signs.discard("")
    return signs.pop() if len(signs) == 1 else ""


def parse_written_day(cell: Any, is_day_first: bool) -> date | None:
    """Parse a day in any usual form; of "03/04/2025" the first number is the day or else the month.

    With points the day comes first everywhere. Raises ``ValueError``.
    """
    if not isinstance(cell, str):
        return parse_day(cell)
    text = cell.strip()
    if found := SLASHED.fullmatch(text):
        first, sign, second, year = int(found[1]), found[2], int(found[3]), int(found[4])
        day, month = (first, second) if is_day_first or sign == "." else (second, first)
        return date(year, month, day)
    for form in NAMED:
        try:
            # A day has no zone.
            return datetime.strptime(text, form).date()
        except ValueError:
            continue
    return parse_day(text)

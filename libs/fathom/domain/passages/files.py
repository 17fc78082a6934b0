"""Files of nearly the same name, such as a memo and its amendment, and the day of each.

Neither names nor texts prove that a document replaces another: an amended memo may share few sentences with the first
one, and the minutes of two months share most of their names. They are therefore shown side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from fathom.domain.periods.grammar import find_dates
from fathom.domain.periods.period import Date, Unit, settle
from fathom.domain.text.places import drop_page
from fathom.domain.text.terms import list_words

# Share of the shorter name's words that the other one has.
ALIKE = 2 / 3


def name_source(item: Mapping[str, Any]) -> str:
    """Return the file of a hit or of a document that was read; "" for what is no file of the user's own."""
    return drop_page(str(item.get("place", "")))


def find_day(item: Mapping[str, Any]) -> str:
    """Return the day of a document: when it was published, or else the only day in its name; "" for none."""
    if item.get("time"):
        return str(item["time"])
    dates = [value for _, _, value in find_dates(strip_name(name_source(item))) if isinstance(value, Date)]
    days = {found.start for date in dates if date.unit is Unit.DAY and (found := settle(date)) and found.start}
    return days.pop().isoformat() if len(days) == 1 else ""


def strip_name(source: str) -> str:
    """Return the name of a file without folder and ending, as words."""
    return PurePath(source).stem.replace("_", " ")


def are_alike(one: str, other: str) -> bool:
    """Return whether two files have nearly the same name, but for dates."""
    first, second = list_name_words(one), list_name_words(other)
    fewer = min(len(first), len(second))
    # Sheets of one workbook share its name, and none replaces another.
    return name_file(one) != name_file(other) and fewer > 0 and len(first & second) >= ALIKE * fewer


def name_file(source: str) -> str:
    """Return the file of a source: that of a table is named with its sheet behind it, "capex.xlsx Volumes"."""
    path = PurePath(source)
    return f"{path.parent}/{path.stem}{path.suffix.partition(' ')[0]}"


def list_name_words(source: str) -> set[str]:
    """Return the words of a file's name, without its dates."""
    name = strip_name(source)
    for start, end, _ in reversed(find_dates(name)):
        name = f"{name[:start]} {name[end:]}"
    return set(list_words(name))

"""The header of a user's table: below titles, and over two rows where cells are merged, the lower one of days, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import zip_longest
from typing import Any

from fathom.services.datafetch.sources.base import RowIssue
from fathom.services.datafetch.sources.cells import parse_number

# Rows among which the header is looked for.
PEEKED = 20
YEARS = range(1900, 2101)
Row = tuple[int, Sequence[Any]]


@dataclass(frozen=True)
class FoundHeader:
    """Names of the columns as cells, the number of rows before the first one with data, and what was left out."""

    cells: Sequence[Any]
    rows: int
    issues: tuple[RowIssue, ...]


def find_header(rows: Sequence[Row]) -> FoundHeader:
    """Return the header of a table that begins with these rows, of which there is one at least.

    Rows of one cell above wider ones are titles. A row with gaps above one of labels or days, which fills them, is the
    upper half of a header whose cells were merged: its cells hold for the gaps to their right.
    """
    start = count_titles(rows)
    titles = tuple(
        RowIssue(number, f"was taken for a title: {str(next(filter(is_filled, cells)))[:80]!r}")
        for number, cells in rows[:start]
    )
    upper = rows[start][1]
    if start + 2 < len(rows) and is_split(upper, rows[start + 1][1], [cells for _, cells in rows[start + 2 :]]):
        return FoundHeader(join_levels(upper, rows[start + 1][1]), start + 2, titles)
    return FoundHeader([format_label(cell) if isinstance(cell, date) else cell for cell in upper], start + 1, titles)


def count_titles(rows: Sequence[Row]) -> int:
    """Return how many rows of one cell stand above the first one with several; 0 for a table of one column."""
    widths = [sum(map(is_filled, cells)) for _, cells in rows]
    return next((place for place, width in enumerate(widths) if width > 1), 0)


def is_split(upper: Sequence[Any], lower: Sequence[Any], below: Sequence[Sequence[Any]]) -> bool:
    """Return whether two rows are the halves of one header."""
    width = max(len(upper), len(lower))
    gaps = [place for place in range(width) if not is_filled(pick(upper, place))]
    # A gap that the lower row leaves empty, too, has no name at all; only the labels at the left do often without one.
    empty = [place for place in gaps if not is_filled(pick(lower, place))]
    if not gaps or empty == gaps or empty not in ([], [0]):
        return False
    if not all(is_label(cell) for cell in lower if is_filled(cell)) and not is_row_of_days(lower, below):
        return False
    # Labels above labels may be the first row of a table of texts; above figures they are names.
    return any(
        is_filled(pick(lower, place)) and is_figure(pick(cells, place)) for cells in below for place in range(width)
    )


def is_row_of_days(lower: Sequence[Any], below: Sequence[Sequence[Any]]) -> bool:
    """Return whether a row names columns by different days, below which there are figures and no further days."""
    places = [place for place, cell in enumerate(lower) if is_filled(cell)]
    days = [lower[place] for place in places]
    if not all(isinstance(day, date) for day in days) or len(set(days)) < max(2, len(days)):
        return False
    return not any(isinstance(pick(cells, place), date) for cells in below for place in places)


def join_levels(upper: Sequence[Any], lower: Sequence[Any]) -> list[str]:
    """Return the names of two levels: "2024 Q1", or the one that is there."""
    names, above = [], ""
    for over, under in zip_longest(upper, lower):
        above = format_label(over) if is_filled(over) else above
        names.append(" ".join(filter(None, (above, format_label(under)))))
    return names


def pick(cells: Sequence[Any], place: int) -> Any:
    return cells[place] if place < len(cells) else None


def is_filled(cell: Any) -> bool:
    return cell is not None and bool(str(cell).strip())


def is_figure(cell: Any) -> bool:
    """Return whether a cell holds a number or a day."""
    if isinstance(cell, date):
        return True
    try:
        return is_filled(cell) and parse_number(cell) is not None
    except ValueError:
        return False


def is_label(cell: Any) -> bool:
    """Return whether a cell may be a name: a text, or a year."""
    if not is_figure(cell):
        return True
    try:
        return not isinstance(cell, date) and int(str(cell)) in YEARS
    except ValueError:
        return False


def format_label(cell: Any) -> str:
    if isinstance(cell, date):
        # Spreadsheets know days only with a time.
        return cell.strftime("%Y-%m-%d")
    return " ".join(str(cell).split()) if is_filled(cell) else ""

"""Addresses of cells as spreadsheets write them: "B5", "B2:B13"."""

from __future__ import annotations

import re
from collections.abc import Sequence

LETTERS = 26
RANGE = re.compile(r"([A-Z]{1,3})(\d+):\1(\d+)$")


def name_column(place: int) -> str:
    """Return the letters of a column, counted from 0: A, …, Z, AA."""
    text = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, LETTERS)
        text = chr(ord("A") + rest) + text
    return text


def name_range(place: int, rows: Sequence[int]) -> str:
    """Return the cells of a column from its first to its last row with values, of which there is one at least."""
    letters = name_column(place)
    return f"{letters}{rows[0]}:{letters}{rows[-1]}"


def list_cells(text: str, count: int) -> list[str]:
    """Return the addresses of a column's cells, of which a text ends with the range; [] where rows were left out."""
    found = RANGE.search(text)
    if found is None or int(found[3]) - int(found[2]) + 1 != count:
        return []
    return [f"{found[1]}{row}" for row in range(int(found[2]), int(found[3]) + 1)]

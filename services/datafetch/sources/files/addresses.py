"""Addresses of cells as spreadsheets write them: "B5", "B2:B13"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

LETTERS = 26
RUN = re.compile(r"([A-Z]{1,3})(\d+)(?::\1(\d+))?")
# Cells at the end of a text: "sales.xlsx B2:B5, B7".
CELLS = re.compile(r"(?:^| )((?:[A-Z]{1,3}\d+(?::[A-Z]{1,3}\d+)?, )*[A-Z]{1,3}\d+(?::[A-Z]{1,3}\d+)?)$")
# More are named as the one range that holds them.
MOST_RUNS = 8


def name_column(place: int) -> str:
    """Return the letters of a column, counted from 0: A, …, Z, AA."""
    text = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, LETTERS)
        text = chr(ord("A") + rest) + text
    return text


def find_runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of rows that follow each other; one run of all where there are more than a few."""
    runs: list[tuple[int, int]] = []
    for row in rows:
        if runs and row == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], row)
        else:
            runs.append((row, row))
        if len(runs) > MOST_RUNS:
            return [(rows[0], rows[-1])]
    return runs


def name_range(place: int, runs: Sequence[tuple[int, int]]) -> str:
    """Return the cells of a column in some runs of rows: "B2:B5, B7" where a row is left out."""
    letters = name_column(place)
    # A column of one row is a range, too, as every reader of these texts knows it.
    is_one = len(runs) == 1
    ends = [f":{letters}{last}" if is_one or last > first else "" for first, last in runs]
    return ", ".join(f"{letters}{first}{end}" for (first, _), end in zip(runs, ends, strict=True))


def join_cells(cells: Sequence[str]) -> list[str]:
    """Return addresses with those that follow each other down a column as one: "B2:B5", "D7"."""
    runs: list[tuple[str, int, int]] = []
    for letters, row in ((cell.rstrip("0123456789"), int(cell.lstrip(ascii_uppercase))) for cell in cells):
        if runs and runs[-1][0] == letters and row == runs[-1][2] + 1:
            runs[-1] = (letters, runs[-1][1], row)
        else:
            runs.append((letters, row, row))
    ends = [f":{letters}{last}" if last > first else "" for letters, first, last in runs]
    return [f"{letters}{first}{end}" for (letters, first, _), end in zip(runs, ends, strict=True)]


def list_cells(text: str, count: int) -> list[str]:
    """Return the addresses of a column's cells, with which a text ends; [] where they are not ``count``."""
    found = CELLS.search(text)
    runs = [RUN.fullmatch(one) for one in found[1].split(", ")] if found else []
    # Counted before they are listed, as a range of a text may be any.
    sizes = [int(run[3] or run[2]) - int(run[2]) + 1 if run else 0 for run in runs]
    if 0 in sizes or sum(sizes) != count:
        return []
    return [f"{run[1]}{row}" for run in runs if run for row in range(int(run[2]), int(run[3] or run[2]) + 1)]

"""Addresses of cells as spreadsheets write them: "B5", "B2:B13"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from string import ascii_uppercase

LETTERS = 26
CELL = re.compile(r"([A-Z]{1,3})(\d+)")
# A cell, or those that follow each other.
RUN = r"[A-Z]{1,3}\d+(?::[A-Z]{1,3}\d+)?"
# Cells at the end of a text: "sales.xlsx B2:B5, B7"; of a row: "Rent | 42,700 | (A5:B5)".
CELLS = re.compile(rf"(?:^| )((?:{RUN}, )*{RUN})$")
PLACED = re.compile(rf"\((?:{RUN}, )*{RUN}\)$")
# More are named as the one range that holds them.
MOST_RUNS = 8
# Column, counted from 0, and row, counted from 1.
Cell = tuple[int, int]


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


def number_column(letters: str) -> int:
    """Return the place of a column, counted from 0, by its letters."""
    return reduce(lambda place, letter: place * LETTERS + ascii_uppercase.index(letter) + 1, letters, 0) - 1


def join_cells(cells: Sequence[Cell]) -> list[str]:
    """Return addresses with those that follow each other down a column or along a row as one: "B2:B5", "D7:G7"."""
    runs: list[tuple[Cell, Cell]] = []
    for column, row in cells:
        if runs:
            first, (last_column, last_row) = runs[-1]
            is_down = column == last_column == first[0] and row == last_row + 1
            is_along = row == last_row == first[1] and column == last_column + 1
            if is_down or is_along:
                runs[-1] = (first, (column, row))
                continue
        runs.append(((column, row), (column, row)))
    return [name_cell(first) if first == last else f"{name_cell(first)}:{name_cell(last)}" for first, last in runs]


def name_cell(cell: Cell) -> str:
    """Return the address of a cell."""
    return f"{name_column(cell[0])}{cell[1]}"


def list_cells(text: str, count: int) -> list[Cell]:
    """Return the cells of some runs with which a text ends, as column and row; [] where they are not ``count``."""
    found = CELLS.search(text)
    runs = [read_run(one) for one in found[1].split(", ")] if found else []
    # Counted before they are listed, as a range of a text may be any.
    sizes = [(last[0] - first[0] + 1) * (last[1] - first[1] + 1) for first, last in runs]
    if any(size < 1 for size in sizes) or sum(sizes) != count:
        return []
    return [
        (column, row)
        for first, last in runs
        for column in range(first[0], last[0] + 1)
        for row in range(first[1], last[1] + 1)
    ]


def is_placed(line: str) -> bool:
    """Return whether a line is a row of a spreadsheet, which ends with its cells in brackets."""
    return PLACED.search(line) is not None


def read_run(text: str) -> tuple[Cell, Cell]:
    """Return the first and the last cell of "B5" or "B2:B13"; of a range over rows and columns an empty run."""
    ends = [(number_column(letters), int(row)) for letters, row in CELL.findall(text)]
    first, last = ends[0], ends[-1]
    return (first, last) if first[0] == last[0] or first[1] == last[1] else (first, (first[0] - 1, first[1]))


def choose_cells(text: str, places: Sequence[int], count: int) -> str:
    """Return some of the ``count`` cells with which a text ends: "sales.xlsx B4:B6" of "sales.xlsx B2:B9".

    "" where the text has another number of cells.
    """
    found, cells = CELLS.search(text), list_cells(text, count)
    if found is None or not cells or not places:
        return ""
    return f"{text[: found.start()]} {', '.join(join_cells([cells[place] for place in sorted(places)]))}".strip()

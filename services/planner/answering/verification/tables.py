"""Markdown tables of an answer: their cells with the headers that say of whom, when and in which unit a number is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.services.planner.answering.verification.dates import find_moments
from fathom.services.planner.answering.verification.numbers import find_numbers

# The second line of a Markdown table, such as ``| --- | :-: |``; with one column it needs a bar.
DELIMITER = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
BAR = re.compile(r"(?<!\\)\|")
WORD = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Cell:
    """A cell at offsets ``start`` to ``end`` of the text; row 0 is the header, rows count from there."""

    start: int
    end: int
    text: str
    row: int
    column: int


@dataclass(frozen=True)
class MarkdownTable:
    """A table at offsets ``start`` to ``end``, with the cells of its header and of its rows, blank ones included."""

    start: int
    end: int
    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def has_row_headers(self) -> bool:
        """Return whether the first column names its rows: by words or dates in at least half of them."""
        first = [row[0].text for row in self.rows if row and row[0].text.strip()]
        named = [text for text in first if WORD.search(strip_units(text)) or find_moments(text)]
        return bool(first) and 2 * len(named) >= len(first)

    def row_header(self, cell: Cell) -> str:
        """Return the text of the row's header; "" for a cell of the header or without one."""
        if not cell.row or not cell.column or not self.has_row_headers:
            return ""
        return self.rows[cell.row - 1][0].text.strip()

    def column_header(self, cell: Cell) -> str:
        """Return the text of the column's header; "" for a cell of the header itself or beyond its last one."""
        return self.header[cell.column].text.strip() if cell.row and cell.column < len(self.header) else ""

    def is_label(self, cell: Cell) -> bool:
        """Return whether a cell names its column or row, so that numbers in it are part of a name."""
        return not cell.row or (not cell.column and self.has_row_headers)


def strip_units(text: str) -> str:
    """Return the text without its numbers and their units, so that "12 bn" has no word."""
    for number in reversed(find_numbers(text)):
        text = text[: number.start] + text[number.end :]
    return text


def find_tables(text: str) -> Iterator[MarkdownTable]:
    """Yield the tables of a Markdown text in which code is blanked out."""
    lines = text.splitlines(keepends=True)
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line)
    at = 1
    while at < len(lines):
        if "|" in lines[at - 1] and "|" in lines[at] and DELIMITER.match(lines[at].rstrip("\n")):
            end = at + 1
            while end < len(lines) and "|" in lines[end]:
                end += 1
            header = split_cells(lines[at - 1], starts[at - 1], 0)
            rows = tuple(split_cells(lines[line], starts[line], line - at) for line in range(at + 1, end))
            yield MarkdownTable(starts[at - 1], starts[end - 1] + len(lines[end - 1].rstrip("\n")), header, rows)
            at = end
        at += 1


def split_cells(line: str, start: int, row: int) -> tuple[Cell, ...]:
    """Return the cells of a line; bars at its ends border no cell."""
    body = line.rstrip("\n")
    edges = [match.start() for match in BAR.finditer(body)]
    left = 0 if not body.lstrip().startswith("|") else edges.pop(0) + 1
    right = len(body)
    if edges and body.rstrip().endswith("|"):
        right = edges.pop()
    borders = [left, *(place for edge in edges for place in (edge, edge + 1)), right]
    spans: Sequence[tuple[int, int]] = list(zip(borders[::2], borders[1::2], strict=True))
    return tuple(
        Cell(start + begin, start + end, body[begin:end], row, column) for column, (begin, end) in enumerate(spans)
    )

"""Addresses of cells: rows that a file leaves empty are no part of them, and each value keeps its own."""

from __future__ import annotations

import pytest

from fathom.domain.text.addresses import choose_cells, find_runs, is_placed, join_cells, list_cells, name_range
from fathom.services.datafetch.semantics.applying import apply_meaning
from fathom.services.datafetch.semantics.meaning import ColumnMeaning, Role, TableMeaning
from fathom.services.datafetch.sources.upload import read_upload

# A note below the table, after an empty row.
FILE = b"Shop,2023 Sales,2024 Sales\nBergen,11,12\nTrondheim,21,22\n\nNOK million,,\n"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([2, 3, 4], "C2:C4"),
        ([5], "C5:C5"),
        ([2, 3, 5], "C2:C3, C5"),
        ([2, 4, 5, 9], "C2, C4:C5, C9"),
    ],
)
def test_rows_that_are_left_out_are_not_named(rows: list[int], text: str) -> None:
    assert name_range(2, find_runs(rows)) == text
    assert list_cells(f"a list of A5 paper.xlsx {text}", len(rows)) == [(2, row) for row in rows]


def test_many_gaps_are_one_range_of_which_no_cell_is_known() -> None:
    text = name_range(0, find_runs(range(2, 60, 2)))
    assert text == "A2:A58"
    assert list_cells(text, 29) == []


def test_a_text_without_cells_has_none() -> None:
    assert list_cells("prices of B5, 2024", 1) == []


def test_a_value_beside_a_note_below_the_table_keeps_its_cell() -> None:
    found = read_upload(FILE, "shops.csv")
    meaning = TableMeaning((
        ColumnMeaning("Shop", Role.LABEL),
        ColumnMeaning("2023 Sales", Role.VALUE, ("Sales",), year=2023),
        ColumnMeaning("2024 Sales", Role.VALUE, ("Sales",), year=2024),
    ))  # fmt: skip
    sources = {name: f"shops.csv {cells}" for name, cells in found.cells.items()}
    sheet, _ = apply_meaning(found.table, "shops.csv", meaning, sources)
    assert {column.name: column.source for column in sheet.columns}["Trondheim Sales"] == "shops.csv B3:C3"


def test_cells_down_a_column_and_along_a_row_are_one_range_from_which_some_are_chosen() -> None:
    cells = [(column, row) for row in (2, 3) for column in (1, 2, 3)]
    text = f"t.xlsx {', '.join(join_cells([*cells, (26, 9), (26, 10)]))}"
    assert text == "t.xlsx B2:D2, B3:D3, AA9:AA10"
    assert list_cells(text, 8) == [*cells, (26, 9), (26, 10)]
    assert choose_cells(text, [1, 2, 7], 8) == "t.xlsx C2:D2, AA10"
    # Where rows are without a value nobody can tell which cell is whose.
    assert choose_cells(text, [1], 7) == ""
    assert list_cells("t.xlsx B2:D3", 6) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [("Rent | 42,700 | (A5:B5)", True), ("Rent | 42,700 | (A5, C5:D5)", True), ("Rent | 42,700 | (2031)", False)],
)
def test_a_row_of_a_spreadsheet_ends_with_its_cells(line: str, expected: bool) -> None:
    assert is_placed(line) is expected

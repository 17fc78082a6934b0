"""Test rows of printed tables, which a page's text holds as lines, as cells with the names of their columns."""

from __future__ import annotations

import pytest

from fathom.domain.text.terms import list_rows
from fathom.services.retrieval.corpus.parse.columns import mark_tables
from fathom.services.retrieval.corpus.parse.wrapping import join_wrapped_lines

BALANCE = """Note 9 – Borrowings
2031 2030
Bond, due 2034 (80.0) (80.0)
Bank overdraft (12.5) –
Leases (7.1) (6.6)
Net borrowings (99.6) (86.6)
The bond carries 4.1%."""


def test_a_row_has_the_names_of_its_columns() -> None:
    assert list_rows(mark_tables(BALANCE)) == [
        ("", "2031 | 2030"),
        ("2031 | 2030", "Bond, due 2034 | (80.0) | (80.0)"),
        ("2031 | 2030", "Bank overdraft | (12.5) | –"),
        ("2031 | 2030", "Leases | (7.1) | (6.6)"),
        ("2031 | 2030", "Net borrowings | (99.6) | (86.6)"),
    ]


def test_lines_around_a_table_stay_as_they_are() -> None:
    lines = mark_tables(BALANCE).splitlines()
    assert (lines[0], lines[-1]) == ("Note 9 – Borrowings", "The bond carries 4.1%.")


def test_forecasts_stand_in_a_column_of_their_own() -> None:
    printed = "EUR million 2030 2031E 2032E\nSales 10 11 12\nCost (4) (5) (5)"
    assert mark_tables(printed) == "EUR million | 2030 | 2031E | 2032E\nSales | 10 | 11 | 12\nCost | (4) | (5) | (5)"


def test_a_sentence_behind_a_table_is_no_part_of_its_last_row() -> None:
    rows = [f"Operations of the northern region {number} {number},000 {number},500" for number in range(3)]
    said = "The figures of the whole northern region leave out the"
    found = join_wrapped_lines(mark_tables("\n".join([*rows, said, "costs of the closure."]))).splitlines()
    assert found[2:] == ["Operations of the northern region | 2 | 2,000 | 2,500", f"{said} costs of the closure."]


@pytest.mark.parametrize(
    "text",
    [
        "Sales rose in 2030\nand again in 2031",
        "He was born on 4 May 1970\nShe was born on 6 June 1971\nTheir son on 7 July 2001\nthey moved in 2004",
        "Chapter 1\nChapter 2\nChapter 3\nChapter 4",
    ],
)
def test_sentences_and_lists_are_no_tables(text: str) -> None:
    assert mark_tables(text) == text

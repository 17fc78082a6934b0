"""Test that a passage is quoted around its best part, as far as the limit allows."""

from __future__ import annotations

import pytest

from fathom.domain.passages.windows import quote_window
from fathom.domain.text.terms import Part, list_parts

REPORT = """# Freight

The year was mild. Freight lost a contract in May. It made a loss.

| Part | Profit |
|---|---|
| Freight | (1,284) |
| Ferries | 6,100 |
"""
ROWS = "\n".join(f"Route {number} | Cars: {number}00 | (A{number}:B{number})" for number in range(1, 30))


def find_part(text: str, words: str) -> Part:
    """Return the part of a text that has some words."""
    return next(part for part in list_parts(text) if words in part.text)


def test_sentences_around_the_best_one_are_quoted_in_order() -> None:
    assert quote_window(REPORT, find_part(REPORT, "contract"), 70) == (
        "The year was mild. Freight lost a contract in May. It made a loss."
    )


def test_a_row_stands_with_its_neighbours_and_the_names_of_the_columns() -> None:
    assert quote_window(REPORT, find_part(REPORT, "1,284"), 40) == (
        "Part | Profit” … “Freight | (1,284)” … “Ferries | 6,100"
    )


def test_rows_of_a_spreadsheet_keep_their_cells() -> None:
    quoted = quote_window(ROWS, find_part(ROWS, "Route 15"), 200)
    assert "Route 15 | Cars: 1500 | (A15:B15)" in quoted
    assert "Route 14" in quoted
    assert "Route 16" in quoted
    assert "Route 29" not in quoted


@pytest.mark.parametrize(("limit", "expected"), [(10, "合同期五年。"), (28, "合同期五年。期满可以买下。")])
def test_a_chinese_character_counts_as_two_letters(limit: int, expected: str) -> None:
    text = "租金按月支付。合同期五年。期满可以买下。"
    assert quote_window(text, Part("", "合同期五年。"), limit) == expected


def test_a_part_that_was_cut_otherwise_is_quoted_alone() -> None:
    assert quote_window("Nothing of it.", Part("", "It was  elsewhere.")) == "It was elsewhere."

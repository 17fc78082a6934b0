"""Test which files have nearly the same name, and of which day they are."""

from __future__ import annotations

import pytest

from fathom.domain.passages.files import are_alike, find_day, name_source


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("memo.md", "memo_amended.md", True),
        ("sub/Clinics - AMENDED memo 27 March 2026.docx", "Clinics - investment memo (draft 3 Feb 2026).docx", True),
        ("资金管理办法_20260612修订.html", "资金管理办法.html", True),
        ("treasury_committee_minutes_2026-09-17.md", "valuation committee 2026-10-08 notes.md", False),
        ("2026-01-12.txt", "2026-03-09.txt", False),
        ("memo.md", "memo.md", False),
        ("capex.xlsx Capex 2025", "capex.xlsx Volumes kt", False),
        ("capex 2025-01-31.xlsx Volumes", "capex 2026-01-31.xlsx Volumes", True),
        ("", "", False),
    ],
)
def test_names_are_compared_without_dates(one: str, other: str, expected: bool) -> None:
    assert are_alike(one, other) is expected


def test_a_day_is_that_of_publication_or_the_only_one_of_the_name() -> None:
    assert find_day({"place": "IC memo 2026-07 (14 May 2026).docx p. 3"}) == "2026-05-14"
    assert find_day({"place": "memo 2026-05-14.docx", "time": "2026-06-01"}) == "2026-06-01"
    assert find_day({"place": "prices 2026-01-01 to 2026-03-31.csv"}) == ""
    assert find_day({"place": "prices 2026-02-31.csv"}) == ""


def test_the_file_of_a_place_is_without_page_and_how_surely_it_was_read() -> None:
    places = ("lease.pdf p. 2", "lease.pdf p. 2 (OCR 97 %)", "lease.pdf")
    assert {name_source({"place": place}) for place in places} == {"lease.pdf"}

"""Test that documents of nearly the same name are quoted side by side, the later one first, and named with their days."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.services.policy.reference.versions import are_alike, find_day, name_source
from tests.unit.policy.reference.passages.test_answerability import LEASE, make_question

AMENDED = LEASE.replace("1,240,000", "1,310,000")
QUESTION = "What is the yearly rent of the Bremmen warehouse?"
# What no sentence answers.
UNANSWERED = "Which share of the Bremmen warehouse does its landlord own?"
OTHER = "The canteen of the Bremmen warehouse opens at noon."


def make_world(world: Any, first: str, amended: str) -> Any:
    """Return a world where the first version is found before the amended one, and a file of another name after both."""
    documents = {"a": ("Memo", LEASE), "b": ("Amended memo", AMENDED), "c": ("Canteen", OTHER)}
    return world(documents=documents, places={"a": first, "b": amended, "c": "canteen hours.txt"})


@pytest.mark.parametrize(
    ("first", "amended", "named"),
    [
        (
            "Board memo 14 Bremmen 2026-01-12.txt",
            "Board memo 14 Bremmen AMENDED 2026-03-09.pdf p. 2",
            "Board memo 14 Bremmen AMENDED 2026-03-09.pdf (2026-03-09) [2];"
            " Board memo 14 Bremmen 2026-01-12.txt (2026-01-12) [1].",
        ),
        (
            "IC memo (14 May 2026).docx",
            "IC memo CORRECTED 2 June 2026.pdf p. 1",
            "IC memo CORRECTED 2 June 2026.pdf (2026-06-02) [2]; IC memo (14 May 2026).docx (2026-05-14) [1].",
        ),
    ],
)
async def test_the_later_of_two_memos_stands_first_and_both_are_named(
    drive: Any, world: Any, first: str, amended: str, named: str
) -> None:
    talk = await drive(make_question(QUESTION), make_world(world, first, amended))
    assert talk.answer.index("1,310,000") < talk.answer.index("1,240,000")
    assert named in talk.answer
    # The file of another name is not named.
    assert "canteen" not in talk.answer


async def test_files_without_a_day_are_named_without_one(drive: Any, world: Any) -> None:
    talk = await drive(make_question(QUESTION), make_world(world, "memo.md", "memo_amended.md"))
    assert "memo.md (its day is not known) [1]; memo_amended.md (its day is not known) [2]." in talk.answer
    assert "1,310,000" in talk.answer
    assert "1,240,000" in talk.answer


async def test_where_nothing_answers_the_later_one_stands_first_too(drive: Any, world: Any) -> None:
    talk = await drive(make_question(UNANSWERED), make_world(world, "lease 2026-01-12.md", "lease 2026-03-09.md"))
    assert talk.answer.startswith("This stays open: no passage here answers it for certain.")
    later, earlier = "“Amended memo, lease 2026-03-09.md”", "“Memo, lease 2026-01-12.md”"
    assert talk.answer.index(later) < talk.answer.index(earlier)
    assert "lease 2026-03-09.md (2026-03-09)" in talk.answer


async def test_documents_of_other_names_are_not_said_to_replace_each_other(drive: Any, world: Any) -> None:
    talk = await drive(
        make_question(QUESTION), make_world(world, "Board memo 14 Bremmen.txt", "Lease of the harbour.pdf")
    )
    assert "1,310,000" in talk.answer
    assert "1,240,000" in talk.answer
    assert "nearly the same name" not in talk.answer


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

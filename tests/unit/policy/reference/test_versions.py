"""Test that documents of nearly the same name are quoted side by side, the later one first, and named with their days."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.policy.reference.test_documents import LEASE, make_question

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

"""Test whether a passage is given as the answer, or as the nearest one that may not answer."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.domain.chat.guidance import OWN_DOCUMENTS, with_guidance
from tests.unit.policy.reference.conftest import make_program

LEASE = (
    "The lease of the Bremmen warehouse ends on 31 March 2034. The yearly rent of the Bremmen warehouse is 1,240,000"
    " euros. The landlord is a fund of Brandvik Partners."
)
MEETING = (
    "Brandvik Partners was represented by two of its partners. The landlord will report on the state of the roof of the"
    " warehouse. The next meeting is in May."
)
FEES = "# Storage fees\n\n| Days in store | Fee |\n|---|---|\n| 1 to 30 days | 2% |\n| 31 to 90 days | 7% |\n"


def make_question(text: str) -> str:
    """Return a question as a run asks it that searches documents of one's own."""
    return with_guidance(text, [OWN_DOCUMENTS[0]])


@pytest.fixture
def ask(drive: Any, world: Any) -> Any:
    """Ask about one document where no table has anything."""

    async def run(question: str, text: str, title: str = "Note") -> Any:
        return await drive(make_question(question), world(documents={"d1": (title, text)}))

    return run


async def test_a_sentence_that_says_what_is_asked_is_the_answer(ask: Any) -> None:
    talk = await ask("What is the yearly rent of the Bremmen warehouse?", LEASE)
    assert talk.answer.startswith("According to “Note”: “")
    assert "1,240,000" in talk.answer
    assert "reading" not in talk.calls[-1][1]


async def test_a_sentence_that_only_shares_words_is_the_nearest_passage(ask: Any) -> None:
    question = "Which share of the warehouse does the landlord Brandvik Partners own?"
    talk = await ask(question, MEETING)
    assert talk.answer.startswith("This stays open: no passage here answers it for certain.")
    assert "May answer, not certain, in “Note”: “" in talk.answer
    assert "According to" not in talk.answer
    assert talk.calls[-1][1]["reading"]["open"] == [f"no passage surely answers “{question}”"]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        # One word in common, and a year that the text does not have.
        ("How long may we wait before we settle with Fjellin?", "Fjellin gives its customers thirty days."),
        ("What revenue does Brandvik plan for 2031?", "The plan of Brandvik says: revenue of 8 million euros."),
    ],
)
async def test_a_document_of_ones_own_is_shown_though_it_may_not_answer(ask: Any, question: str, text: str) -> None:
    talk = await ask(question, text)
    assert talk.answer.startswith("This stays open: no passage here answers it for certain.")
    assert f"May answer, not certain, in “Note”: “{text}” [1]" in talk.answer


async def test_nearest_passages_come_as_the_search_ranks_them(drive: Any, world: Any) -> None:
    first = ("Minutes", "The partners met in the warehouse.")
    found = world(documents={"a": first, "b": ("Roof", MEETING), "c": ("Canteen", "The warehouse has a canteen.")})
    talk = await drive(make_question("Which share of the warehouse does the landlord Brandvik Partners own?"), found)
    assert talk.answer.index("“Minutes”") < talk.answer.index("“Roof”") < talk.answer.index("“Canteen”")


async def test_what_the_search_ranks_before_an_answer_is_shown_behind_it(drive: Any, world: Any) -> None:
    found = world(documents={"a": ("Roof", MEETING), "b": ("Lease", LEASE), "c": ("Canteen", "The warehouse is old.")})
    talk = await drive(make_question("What is the yearly rent of the Bremmen warehouse?"), found)
    assert talk.answer.startswith("According to “Lease”: “")
    assert talk.answer.index("“Lease”") < talk.answer.index("ranks other passages higher") < talk.answer.index("“Roof”")
    assert "it is not certain that what is quoted first answers" in str(talk.messages[-1])


async def test_passages_are_read_until_one_answers(drive: Any, world: Any) -> None:
    others = {f"d{number}": (f"Roof {number}", "The yearly state of the warehouse is fair.") for number in range(3)}
    asked = make_question("What is the yearly rent of the Bremmen warehouse?")
    talk = await drive(asked, world(documents={**others, "d9": ("Lease", LEASE)}))
    assert talk.tools.count("fetch") == 4
    assert talk.answer.startswith("According to “Lease”: “")


async def test_what_no_series_can_say_is_looked_for_in_documents_of_ones_own(drive: Any, world: Any) -> None:
    outside = {"text": "outside()", "confidence": 0.99, "kind": "outside"}
    told = world(documents={"d1": ("Lease", LEASE)}, program=outside)
    talk = await drive(make_question("What is the yearly rent of the Bremmen warehouse?"), told)
    assert "1,240,000" in talk.answer
    assert "no forecast" not in talk.answer


@pytest.mark.parametrize(("confidence", "is_read"), [(0.8, True), (0.97, False)], ids=["unsure", "sure"])
async def test_documents_of_ones_own_are_read_beside_an_unsure_calculation(
    confidence: float, is_read: bool, drive: Any, two_companies: Any
) -> None:
    two_companies.reads_only, two_companies.words = True, []
    two_companies.documents = {"d1": ("Lease", LEASE)}
    two_companies.program = make_program(["f.last(s1)"], confidence=confidence)
    talk = await drive(make_question("How many euros of rent does Alpha pay?"), two_companies)
    assert "last value of Alpha" in talk.answer
    assert ("search" in talk.tools, "1,240,000" in talk.answer) == (is_read, is_read)


async def test_the_row_in_whose_range_the_quantity_lies_is_quoted(ask: Any) -> None:
    talk = await ask("What is the storage fee for goods that are 45 days in store?", FEES, "Storage fees")
    assert "“31 to 90 days | 7%”" in talk.answer


ROWS = (
    "Tax rate | Value: 25.8 | Unit: % | (A2:C2)\n"
    "Discount rate | Value: 8.4 | Unit: % | (A3:C3)\n"
    "Harbour loan | Value: 12.5 | Unit: EUR million | (A4:C4)\n"
)


async def test_a_row_of_a_spreadsheet_answers_what_it_names_and_is_shown_otherwise(ask: Any) -> None:
    talk = await ask("What is the value of the discount rate?", ROWS, "model.xlsx Assumptions")
    assert "“Discount rate | Value: 8.4 | Unit: % | (A3:C3)”" in talk.answer
    # Of a loan that the sheet has, not of the one that is asked for.
    talk = await ask("What value does the bank want for the new harbour loan?", ROWS, "model.xlsx Assumptions")
    assert talk.answer.startswith("This stays open")
    assert "“Harbour loan | Value: 12.5 | Unit: EUR million | (A4:C4)”" in talk.answer
    assert "According to" not in talk.answer


@pytest.mark.parametrize("above", ["Yard | 2031 | | 2032 |", "Yard | 2031 | 2031 | 2032 | 2032"])
async def test_the_second_row_of_a_header_is_no_data(ask: Any, above: str) -> None:
    rows = f"{above}\n| Berths | Cranes | Berths | Cranes\nNorth yard | 14 | 6 | 15 | 7\nSouth yard | 9 | 4 | 9 | 5\n"
    talk = await ask("How many berths and cranes has the North yard?", rows, "Yards")
    assert (
        f"“{above.strip(' |')}” … “Berths | Cranes | Berths | Cranes” … “North yard | 14 | 6 | 15 | 7”" in talk.answer
    )


async def test_a_row_of_texts_is_no_second_header(ask: Any) -> None:
    rows = "Yard | Keeper\nNorth yard | Ola Brekke\nSouth yard | 2 keepers\n"
    talk = await ask("Who is the keeper of the North yard?", rows, "Yards")
    assert "“Yard | Keeper” … “North yard | Ola Brekke”" in talk.answer


async def test_of_rows_and_sentences_that_share_as_many_words_the_row_called_so_is_quoted(ask: Any) -> None:
    rows = (
        "2031 | 2030",
        "Bank loan | (80) | (90)",
        "Gross debt | (120) | (140)",
        "Gross debt / equity | 1.2 | 1.4",
        "",
    )
    debt = "\n".join(rows)
    said = "Interest rises while the ratio of gross debt to equity is above 2 at the end of a quarter."
    talk = await ask("What was the gross debt at the end of 2031?", debt + said, "Accounts 2031")
    assert "“Gross debt | (120) | (140)”" in talk.answer

"""Test what of a text is quoted for a question: a sentence, or a row of a table with the names of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fathom.domain.text.terms import Part, find_within, list_parts, quote_part

PLANS = "All prices are without VAT.\nPlan | Price per month | Users\nStarter | 19 | 3\nPro | 49 | 15"
CITIES = "# Caps\n\n| City | Cap |\n|---|---|\n| Rome | 180 |\n| Oslo | 240 |\n\nCaps hold from January."
LEASE = "Rent | 42,700 kroner\nDeposit | 9,500 kroner\nThe lease ends in 2030."


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (PLANS, ["All prices are without VAT.", "Plan | Price per month | Users” … “Pro | 49 | 15"]),
        (CITIES, ["City | Cap” … “Oslo | 240", "Caps hold from January."]),
        # Without names of columns the first row says something, too.
        (LEASE, ["The lease ends in 2030.", "Rent | 42,700 kroner", "Deposit | 9,500 kroner"]),
        ("城市 | 上限\n罗马 | 180\n奥斯陆 | 240", ["城市 | 上限” … “奥斯陆 | 240"]),
    ],
)
def test_a_row_is_quoted_with_the_names_of_its_columns(text: str, quoted: Sequence[str]) -> None:
    parts = list_parts(text)
    assert set(quoted) <= {quote_part(text, parts, place) for place in range(len(parts))}


@pytest.mark.parametrize(
    ("question", "row", "found"),
    [
        ("What is the fee for 45 pages?", Part("Pages | Fee", "31 to 60 | 12"), ["45 pages"]),
        ("What is the fee for 61 pages?", Part("Pages | Fee", "31 to 60 | 12"), []),
        ("What is the fee for 45 users?", Part("Pages | Fee", "31 to 60 | 12"), []),
        ("库龄200天的存货按什么比例计提？", Part("库龄 | 比例", "181至360天 | 20%"), ["200 天"]),
        ("What is due at 1,500 kWh?", Part("", "1,001 kWh – 2,000 kWh | 9"), ["1,500 kWh"]),
        ("What is due at 7 kWh?", Part("", "No ranges here"), []),
    ],
)
def test_a_quantity_is_found_in_the_range_of_a_row(question: str, row: Part, found: list[str]) -> None:
    assert find_within(question, row) == found

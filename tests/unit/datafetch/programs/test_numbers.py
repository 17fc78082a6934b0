"""Numbers as questions write them."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.programs.numbers import read_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10), ("$10k", 10_000), ("1,000,000", 1e6), ("5.5%", 5.5), ("−3%", -3), ("1.5万亿", 1.5e12),
        ("500 billion", 5e11), ("$1.2bn", 1.2e9), ("25bp", 0.25), ("50 basis points", 0.5), ("25个基点", 0.25),
        ("50-day", 50), ("3 months", 3), ("300 bucks", 300), ("10,000 dollars", 10_000), ("１００万", 1e6),
        ("five", 5), ("twenty-five", 25), ("ten grand", 10_000), ("a dozen", 12), ("half a million", 5e5),
        ("two and a half", 2.5), ("a hundred thousand", 1e5), ("two hundred and fifty thousand", 250_000),
        ("three percent", 3), ("ten years", 10), ("half", 0.5), ("sixty", 60),
        ("三", 3), ("两万", 20_000), ("一百二十", 120), ("百万", 1e6), ("两千万", 2e7), ("一亿两千万", 1.2e8),
        ("五万亿", 5e12), ("十", 10), ("百分之五", 5), ("三成", 30), ("3成", 30), ("一半", 0.5), ("五年", 5),
    ],
)  # fmt: skip
def test_a_number_is_read(text: str, value: float) -> None:
    assert read_number(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "evenly", "Microsoft", "黄金", "%", "from 2010 to 2020", "50/200"])
def test_other_words_are_no_number(text: str) -> None:
    assert read_number(text) is None

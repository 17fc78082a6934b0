"""Points of an old answer: sentences with numbers, without markup, with their signs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.memory.points import extract_points


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Intro. It rose 5%. It fell 3%. Then 2. Then 1.", ["It rose 5%.", "It fell 3%.", "Then 2."]),
        ("It rose 5.3% to 1,234.5. Then more.", ["It rose 5.3% to 1,234.5."]),
        ("No figures here. None.", ["No figures here."]),
        ("上涨5.2%。下跌。回撤3%！", ["上涨5.2%。", "回撤3%！"]),
        ("**Bold** [1] {{table:sheet_1}} rose 4% [2, 3].", ["Bold rose 4%."]),
        ("- 5.3% return\n1. Apple rose 12%\n2) Microsoft 9%", ["5.3% return", "Apple rose 12%", "Microsoft 9%"]),
        ("-5% was the drawdown.", ["-5% was the drawdown."]),
        ("3*4 is 12 and close_adj > 5.", ["3*4 is 12 and close_adj > 5."]),
        ("# Results 2020\n\nIt rose 4%.", ["It rose 4%."]),
        ("| date | close |\n|---|---|\n| 2020 | 5 |\nIt rose 4%.", ["It rose 4%."]),
        ("```python\nx = 5\n```\nIt rose 4%.\n<figure>y = 6</figure>", ["It rose 4%."]),
        ("See [the note 7](http://x/1) for 4%.", ["See the note 7 for 4%."]),
        ("苹果**上涨5%**，*微软* `close` 持平。", ["苹果上涨5%，微软 close 持平。"]),
        ("> quoted 4%", ["quoted 4%"]),
        ("---\n***", []),
        ("", []),
    ],
)
def test_points(answer: str, expected: list[str]) -> None:
    assert [" ".join(point.split()) for point in extract_points(answer)] == expected


def test_a_long_point_is_cut_at_a_word() -> None:
    (point,) = extract_points("value 1.2345 " * 40)
    assert len(point) <= 200
    assert point.endswith(("value…", "1.2345…"))


@given(st.text(st.sampled_from(list("ab1 .*_`[]()|#>-\n。{}<")), max_size=300))
def test_points_are_few_and_short(answer: str) -> None:
    found = extract_points(answer)
    assert len(found) <= 3
    assert all(0 < len(point) <= 200 for point in found)


@pytest.mark.parametrize("piece", ["**", "*a", "[", "```", "<figure", "_a ", ">", "`", "{{", "[1", ". ", " "])
def test_hostile_markup_costs_no_more_than_its_length(piece: str) -> None:
    assert len(extract_points(piece * 5_000)) <= 3

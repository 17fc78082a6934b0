"""Numbers and dates as people write them, and when two of them are the same."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.planner.answering.verification.dates import find_moments, find_ranges
from fathom.services.planner.answering.verification.numbers import find_numbers, is_close


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1,234,567,890 shares", 1_234_567_890, ""),
        ("$1.2 billion", 1.2e9, ""),
        ("US$3.5bn", 3.5e9, ""),
        ("26,902.5 Bil. of $", 2.69025e13, ""),
        ("170,000 Thous. of Persons", 1.7e8, ""),
        ("12.3 %", 12.3, "%"),
        ("12.3 percent", 12.3, "%"),
        ("25 basis points", 25, "bp"),
        ("fell to -38.5%", -38.5, "%"),
        ("−38.5%", -38.5, "%"),
        # A dash between blanks is no minus, and a typographical one before a number is.
        ("October – 2022", 2022, ""),
        ("1.2万亿元", 1.2e12, ""),
        ("3.5亿", 3.5e8, ""),
        ("2万", 2e4, ""),
        ("1e-3", 0.001, ""),
        ("百分之十二点三", 12.3, "%"),
        ("三千五百亿元", 3.5e11, ""),
        ("一百二十家", 120, ""),
        ("两万五千人", 25_000, ""),
        ("1，234元", 1234, ""),
        ("a 0.25 percentage point cut", 0.25, "%"),
    ],
)
def test_values(text: str, value: float, kind: str) -> None:
    (number,) = find_numbers(text)
    assert number.value == pytest.approx(value)
    assert number.kind == kind


@pytest.mark.parametrize("text", ["sheet_1", "Q3", "fig_12", "10th", "v2", "H100"])
def test_names_are_no_numbers(text: str) -> None:
    assert find_numbers(text) == []


@pytest.mark.parametrize(
    ("said", "held", "same"),
    [
        ("1.2 billion", 1_234_567_890, True),
        ("1.3 billion", 1_234_567_890, False),
        # Percentages are held as fractions by one source and as percent by another; basis points likewise, below.
        ("12.3%", 0.1234, True),
        ("12.3%", 12.34, True),
        ("12.4%", 0.1234, False),
        ("25 bp", 0.25, True),
        ("25 bp", 0.0025, True),
        ("(1,234)", -1234.2, True),
        # Parentheses are an accountant's minus or a mere aside: a number in them may be either.
        ("(1,234)", 1234, True),
        ("-1,234", 1234, False),
        ("1,234.57", 1234.5678, True),
        ("1,234.56", 1234.5678, False),
        ("about 1,200", 1213, True),
        ("nearly 50%", 0.493, True),
        ("12亿", 1_234_567_890, True),
        # One digit was said: everything that rounds to it is meant.
        ("0.1", 0.1499, True),
        ("0.1", 0.16, False),
    ],
)
def test_units_rounding_and_signs(said: str, held: float, same: bool) -> None:
    (number,) = find_numbers(said)
    assert is_close(held, number.candidates()) is same


@given(st.floats(-1e9, 1e9).map(lambda value: round(value, 4)), st.integers(0, 3))
def test_a_rounded_value_is_always_recognised(value: float, digits: int) -> None:
    (number,) = find_numbers(f"it was {value:,.{digits}f} then")
    assert is_close(value, number.candidates())


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2020-03-31", date(2020, 3, 31), date(2020, 3, 31)),
        ("2020/3/31", date(2020, 3, 31), date(2020, 3, 31)),
        ("March 31, 2020", date(2020, 3, 31), date(2020, 3, 31)),
        ("31st March 2020", date(2020, 3, 31), date(2020, 3, 31)),
        ("Mar 2020", date(2020, 3, 1), date(2020, 3, 31)),
        ("2020年3月31日", date(2020, 3, 31), date(2020, 3, 31)),
        ("二〇二〇年三月二一日", date(2020, 3, 21), date(2020, 3, 21)),
        ("二〇二〇年三月", date(2020, 3, 1), date(2020, 3, 31)),
        ("2020年第三季度", date(2020, 7, 1), date(2020, 9, 30)),
        ("Q4 2008", date(2008, 10, 1), date(2008, 12, 31)),
        ("the third quarter of 2001", date(2001, 7, 1), date(2001, 9, 30)),
        ("in 2009", date(2009, 1, 1), date(2009, 12, 31)),
        ("2009年", date(2009, 1, 1), date(2009, 12, 31)),
        ("2020-12", date(2020, 12, 1), date(2020, 12, 31)),
        ("the 1990s", date(1990, 1, 1), date(1999, 12, 31)),
    ],
)
def test_dates(text: str, first: date, last: date) -> None:
    (found,) = find_moments(text)
    assert (found.first, found.last) == (first, last)


# A unit, a separator or a fraction makes a number of what would be a year.
@pytest.mark.parametrize("text", ["$2020", "2,020", "2020.5", "1999%", "2020 million", "2030-02-30x"])
def test_what_is_no_date(text: str) -> None:
    assert [found for found in find_moments(text) if found.days == 1 or text == found.text] == []


def test_ranges() -> None:
    text = "From 2015-01-02 to 2020-12-31"
    spans = find_ranges(text, find_moments(text))
    assert any(span.covers(date(2017, 5, 5)) for span in spans)
    assert not any(moment.covers(date(2017, 5, 5)) for moment in find_moments(text))
    text = "since 2018"
    assert any(span.covers(date(2025, 1, 1)) for span in find_ranges(text, find_moments(text)))
    text = "2015–2020"
    assert any(span.covers(date(2017, 5, 5)) for span in find_ranges(text, find_moments(text)))

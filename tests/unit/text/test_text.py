"""The shared tables of numerals, months, scripts and stop words, and the reading of small Chinese numerals."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.domain.text.months import MONTH, MONTHS
from fathom.domain.text.numerals import DIGIT_VALUES, ONE_TO_TEN, TYPED_DIGITS, parse_numeral, replace_digits
from fathom.domain.text.scripts import ALL_HAN, HAN, HAN_AND_RARE
from fathom.domain.text.stop_words import FUNCTION_WORDS, LINKING_WORDS


def spell_numeral(number: int) -> str:
    tens, ones = divmod(number, 10)
    head = ("" if tens == 1 else ONE_TO_TEN[tens - 1]) + "十" if tens else ""
    return head + (ONE_TO_TEN[ones - 1] if ones else "")


@given(st.integers(1, 99))
def test_every_numeral_below_a_hundred_is_read_as_its_number(number: int) -> None:
    # Spelled by the test's own rules, which go the other way.
    assert parse_numeral(spell_numeral(number)) == parse_numeral(str(number)) == number


@pytest.mark.parametrize(("text", "number"), [("两", 2), ("仨", 3), ("二一", 21), ("二○二四", 2024), ("〇", 0)])
def test_digits_are_read_one_by_one(text: str, number: int) -> None:
    assert parse_numeral(text) == number


@pytest.mark.parametrize("text", ["", "十十", "一十十", "二十三十", "百", "three", "3a", "-3"])
def test_what_is_no_small_numeral_is_refused(text: str) -> None:
    assert parse_numeral(text) is None


@given(st.text(TYPED_DIGITS, min_size=1))
def test_each_digit_becomes_one_arabic_digit(text: str) -> None:
    # Also the white circle that keyboards offer for zero.
    assert [int(digit) for digit in replace_digits(text)] == [DIGIT_VALUES[digit] for digit in text]


def test_months_are_numbered_in_the_order_of_the_calendar() -> None:
    for number in range(1, 13):
        forms = {form for form, found in MONTHS.items() if found == number}
        # The calendar's own names: the table has every form that strftime writes.
        assert {f"{date(2024, number, 1):%B}".lower(), f"{date(2024, number, 1):%b}".lower()} <= forms


@pytest.mark.parametrize("form", list(MONTHS))
def test_the_pattern_takes_the_whole_name_of_a_month(form: str) -> None:
    match = re.match(MONTH, f"{form} 2024")
    # Not a beginning of it: "mar" must not be read out of "march".
    assert match is not None
    assert match.group() == form


@pytest.mark.parametrize(
    ("character", "ranges"),
    # A common character, a rare one, and one outside the basic plane.
    [("中", (HAN, HAN_AND_RARE, ALL_HAN)), ("㐀", (HAN_AND_RARE, ALL_HAN)), ("𠮷", (ALL_HAN,)), ("あ", ()), ("a", ())],
)
def test_each_wider_range_of_characters_holds_the_narrower(character: str, ranges: tuple[str, ...]) -> None:
    for each in (HAN, HAN_AND_RARE, ALL_HAN):
        assert (re.fullmatch(f"[{each}]", character) is not None) == (each in ranges)


def test_stop_words_are_words_in_lower_case() -> None:
    assert LINKING_WORDS < FUNCTION_WORDS
    assert all(word.isalpha() and word.islower() for word in FUNCTION_WORDS)

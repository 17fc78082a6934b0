"""Chinese digits, for patterns and tables, and the values of small numerals."""

from __future__ import annotations

from collections.abc import Mapping

ONE_TO_NINE = "一二三四五六七八九"
ONE_TO_TEN = ONE_TO_NINE + "十"
DIGITS = "〇零" + ONE_TO_NINE
# Many keyboards offer the white circle (U+25CB) in place of 〇 (U+3007), so questions have it; printed sources do not.
TYPED_DIGITS = DIGITS + "○"
ARABIC = str.maketrans(TYPED_DIGITS, "00" + "123456789" + "0")
# 两 is "two" before a unit or a measure word; 俩 and 仨 are "two of" and "three of".
COUNTING = str.maketrans("两俩仨", "二二三")
NUMBER_WORDS: Mapping[str, int] = {
    word: value
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
} | {"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50}
DIGIT_VALUES: Mapping[str, int] = {digit: int(digit.translate(ARABIC)) for digit in TYPED_DIGITS} | {"两": 2}


def replace_digits(text: str) -> str:
    """Return the text with an Arabic digit for each Chinese one: "二〇二四" is "2024"."""
    return text.translate(ARABIC)


def parse_numeral(text: str) -> int | None:
    """Parse "3", "三", "十二", "二十" or "两"; return None for anything else.

    Numerals with 十 go up to 99; without it Chinese digits are read one by one ("二一" is 21).
    """
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.translate(COUNTING).partition("十")
    if not tens + ten or any(digit not in TYPED_DIGITS for digit in tens + ones):
        return None
    if not ten:
        return int(replace_digits(tens))
    # 二十三 has one digit on each side of 十; more is no numeral below a hundred.
    if len(tens) > 1 or len(ones) > 1:
        return None
    return 10 * int(replace_digits(tens or "一")) + int(replace_digits(ones or "〇"))


def parse_number(word: str) -> int | None:
    """Parse digits, a Chinese numeral, or an English number word up to twelve; return None for anything else."""
    word = word.lower()
    return NUMBER_WORDS[word] if word in NUMBER_WORDS else parse_numeral(word)

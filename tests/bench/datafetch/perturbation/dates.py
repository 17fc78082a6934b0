"""Days, months, quarters and years in a text, and other ways to write them."""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

YEAR = r"((?:19|20)\d{2})"
NAMES = list(calendar.month_name)[1:]
SHORT = list(calendar.month_abbr)[1:]
MONTH = "(" + "|".join([*NAMES, *SHORT]) + r")\.?"
DIGITS = "〇一二三四五六七八九"
ORDINALS = ["first", "second", "third", "fourth"]
QUARTERS = "一二三四"
WORD = re.compile(r"[A-Za-z0-9]")
TOLD = re.compile(r"上一?年|去年|前[一二两三]?年|往年|last year|previous year", re.IGNORECASE)
WIDE = str.maketrans("0123456789", "０１２３４５６７８９")


@dataclass(frozen=True)
class Mention:
    """A period and where it stands; month or day 0 when it is longer than that."""

    start: int
    end: int
    year: int
    month: int = 0
    day: int = 0
    quarter: int = 0


Read = Callable[[re.Match[str]], tuple[int, int, int, int]]
ENGLISH_MONTH = {name.casefold(): i % 12 + 1 for i, name in enumerate([*NAMES, *SHORT])}
PATTERNS: list[tuple[re.Pattern[str], Read]] = [
    (re.compile(rf"(?<!\d){YEAR}年(\d{{1,2}})月(\d{{1,2}})日"), lambda m: (int(m[1]), int(m[2]), int(m[3]), 0)),
    (re.compile(rf"(?<!\d){YEAR}[-/.](\d{{1,2}})[-/.](\d{{1,2}})(?!\d)"), lambda m: (int(m[1]), int(m[2]), int(m[3]), 0)),
    (re.compile(rf"(?<!\d){YEAR}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?!\d)"), lambda m: (int(m[1]), int(m[2]), int(m[3]), 0)),
    (re.compile(rf"\b{MONTH} (\d{{1,2}})(?:st|nd|rd|th)?,? {YEAR}\b"), lambda m: (int(m[3]), month(m[1]), int(m[2]), 0)),
    (re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?{MONTH},? {YEAR}\b"), lambda m: (int(m[3]), month(m[2]), int(m[1]), 0)),
    (re.compile(rf"(?<!\d){YEAR}年(\d{{1,2}})月(?!\d)"), lambda m: (int(m[1]), int(m[2]), 0, 0)),
    (re.compile(rf"\b{MONTH} {YEAR}\b"), lambda m: (int(m[2]), month(m[1]), 0, 0)),
    (re.compile(rf"(?<!\d){YEAR}年第?([一二三四])季度"), lambda m: (int(m[1]), 0, 0, QUARTERS.index(m[2]) + 1)),
    (re.compile(rf"(?<!\d){YEAR}年?Q([1-4])"), lambda m: (int(m[1]), 0, 0, int(m[2]))),
    (re.compile(rf"\bQ([1-4]) {YEAR}\b"), lambda m: (int(m[2]), 0, 0, int(m[1]))),
    (re.compile(rf"(?<![\d到至和与~-]){YEAR}年(?![\d一二三四第上下前末底初来到至以度报和与~-])"), lambda m: (int(m[1]), 0, 0, 0)),
]  # fmt: skip
ENGLISH_YEAR = re.compile(rf"(?<=\b[Ii]n ){YEAR}\b(?! (?:and|to|through|or|Q))(?![-/])")


def month(name: str) -> int:
    return ENGLISH_MONTH[name.casefold()]


def mentions(text: str) -> list[Mention]:
    """Every period of a kind that is known here, in order; none overlaps another."""
    found: list[Mention] = []
    for pattern, read in PATTERNS:
        for match in pattern.finditer(text):
            if all(match.end() <= other.start or match.start() >= other.end for other in found):
                found.append(Mention(match.start(), match.end(), *read(match)))
    for match in ENGLISH_YEAR.finditer(text):
        found.append(Mention(match.start(), match.end(), int(match[1])))
    return sorted(found, key=lambda mention: mention.start)


def respelt(text: str, lang: str, rng: random.Random) -> str:
    """Every period in another spelling; impossible days are left as they are."""
    for mention in reversed(mentions(text)):
        now = text[mention.start : mention.end]
        ways = [way for way in spellings(mention, lang) if way != now]
        if ways:
            text = join_parts(text[: mention.start], rng.choice(ways), text[mention.end :])
    return text


def join_parts(before: str, middle: str, after: str) -> str:
    """Join three parts; Latin letters and digits of different parts do not run into each other."""
    left = " " if WORD.match(before[-1:]) and WORD.match(middle[:1]) else ""
    right = " " if WORD.match(middle[-1:]) and WORD.match(after[:1]) else ""
    return before + left + middle + right + after


def spellings(mention: Mention, lang: str) -> list[str]:
    """Ways to write a period in a language; empty for a day that the calendar does not have."""
    if mention.day:
        try:
            return of_day(date(mention.year, mention.month, mention.day), lang)
        except ValueError:
            return []
    if mention.quarter:
        return of_quarter(mention.year, mention.quarter, lang)
    return of_month(mention.year, mention.month, lang) if mention.month else of_year(mention.year, lang)


def of_day(day: date, lang: str) -> list[str]:
    both = [day.isoformat(), f"{day:%Y/%m/%d}", f"{day.year}/{day.month}/{day.day}", f"{day:%Y%m%d}"]
    if lang == "zh":
        plain = f"{day.year}年{day.month}月{day.day}日"
        chinese = f"{digits(day.year)}年{numeral(day.month)}月{numeral(day.day)}日"
        return [
            *both,
            plain,
            f"{day:%Y年%m月%d日}",
            chinese,
            plain.translate(WIDE),
            f"{day.year}.{day.month}.{day.day}",
        ]
    name, short = NAMES[day.month - 1], SHORT[day.month - 1]
    return [
        *both,
        f"{name} {day.day}, {day.year}",
        f"{day.day} {name} {day.year}",
        f"{short} {day.day}, {day.year}",
        f"{day.day} {short} {day.year}",
    ]


def of_month(year: int, number: int, lang: str) -> list[str]:
    if lang == "zh":
        plain = f"{year}年{number}月"
        return [
            plain,
            f"{year}年{number:02}月",
            f"{year}-{number:02}",
            f"{digits(year)}年{numeral(number)}月",
            f"{year % 100:02}年{number}月",
            plain.translate(WIDE),
        ]
    return [
        f"{NAMES[number - 1]} {year}",
        f"{SHORT[number - 1]} {year}",
        f"{year}-{number:02}",
        f"{NAMES[number - 1]} of {year}",
    ]


def of_quarter(year: int, number: int, lang: str) -> list[str]:
    if lang == "zh":
        word = QUARTERS[number - 1]
        return [
            f"{year}年{word}季度",
            f"{year}年第{word}季度",
            f"{year}Q{number}",
            f"{year}年Q{number}",
            f"{year % 100:02}Q{number}",
            f"{year}年第{number}季度",
        ]
    return [
        f"Q{number} {year}",
        f"{year}Q{number}",
        f"{year} Q{number}",
        f"the {ORDINALS[number - 1]} quarter of {year}",
        f"Q{number} of {year}",
    ]


def of_year(year: int, lang: str) -> list[str]:
    if lang == "zh":
        return [
            f"{year}年",
            f"{year}年度",
            f"{digits(year)}年",
            f"{year % 100:02}年",
            f"{year} 年",
            f"{year}年".translate(WIDE),
        ]
    return [f"{year}", f"the year {year}", f"calendar year {year}", f"the whole of {year}"]


def digits(number: int) -> str:
    """2020 → 二〇二〇."""
    return "".join(DIGITS[int(digit)] for digit in str(number))


def numeral(number: int) -> str:
    """1 to 31 in Chinese."""
    tens, ones = divmod(number, 10)
    head = "" if not tens else ("十" if tens == 1 else f"{DIGITS[tens]}十")
    return head + (DIGITS[ones] if ones else "")


def relative(text: str, lang: str, rng: random.Random) -> tuple[str, date] | None:
    """A text with one year and no other period, told from a today; None for any other text."""
    found = mentions(text)
    if TOLD.search(text) or len(found) != 1 or found[0].month or found[0].quarter or len(re.findall(YEAR, text)) != 1:
        return None
    (mention,) = found
    if lang == "zh":
        word, gap = rng.choice([("去年", 1), ("前年", 2), ("上年", 1), ("上一年", 1)])
        return text[: mention.start] + word + text[mention.end :], date(mention.year + gap, 12, 31)
    word, gap = rng.choice([("last year", 1), ("the previous year", 1), ("the year before last", 2)])
    # "in 2020" becomes "last year", without its preposition.
    head = re.sub(r"\b[Ii]n $", "", text[: mention.start])
    return head + word + text[mention.end :], date(mention.year + gap, 12, 31)

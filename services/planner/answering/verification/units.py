"""Kinds of units and what values are counted per: a number of one is no value of another, whatever its digits are."""

from __future__ import annotations

import re

from fathom.domain.text.scripts import HAN
from fathom.domain.text.stop_words import FUNCTION_WORDS
from fathom.services.planner.answering.verification.numbers import (
    CROWNS,
    CURRENCIES,
    CURRENCY_IN_UNIT,
    CURRENCY_WORDS,
    DOLLARS,
    NOUNS,
    YENS,
    Number,
)

PERCENT, MONEY, POINTS = "percent", "money", "points"
IN_PERCENT = re.compile(r"%|％|percent|per cent|(?<![a-z])pct(?![a-z])|百分", re.IGNORECASE)
# What stands before these is what a value is counted in: dollars in "USD per barrel".
PER = re.compile(r"\bper\b(?!\s*cent)|/|每|\ban?\b(?=\s(?:hour|day|week|month|quarter|year)\b)", re.IGNORECASE)
# An index has a base, as in "1982-1984=100".
INDEX = re.compile(r"=\s*100\b|\bindex\b|指数", re.IGNORECASE)
# Units of time, as words and as adjectives, from short to long.
TIMES = {
    "hour": re.compile(r"\bhour(?:s|ly)?\b|小时|时薪", re.IGNORECASE),
    "day": re.compile(r"\bda(?:ys?|ily)\b|天|日(?!元)", re.IGNORECASE),
    "fortnight": re.compile(r"\bfortnight(?:s|ly)?\b", re.IGNORECASE),
    "week": re.compile(r"\bweek(?:s|ly)?\b|周|星期", re.IGNORECASE),
    "month": re.compile(r"\bmonth(?:s|ly)?\b|月", re.IGNORECASE),
    "quarter": re.compile(r"\bquarter(?:s|ly)?\b|季", re.IGNORECASE),
    "year": re.compile(r"\byear(?:s|ly)?\b|\bannum\b|年", re.IGNORECASE),
}
# Behind a number: its unit of at most two words, then "an ounce", "per week", "/桶".
BEHIND = re.compile(
    rf"^(?:\s?[A-Za-z$€£¥]+|[{HAN}]{{1,3}}){{0,2}}?\s?(?:\b(?P<article>an?)\b|\b(?:per|each)\b|/|每)\s*"
    rf"(?P<word>[A-Za-z]+(?:-[A-Za-z]+)?|[{HAN}]{{1,2}})(?P<rest>[^\n]{{0,12}})",
)
# "25.6 hours in an average month".
TYPICAL = re.compile(
    r"^(?:\s[A-Za-z]+)?\s(?:in|over|during)\s+an?\s+(?:average|typical|normal|ordinary)\s+(?P<word>[A-Za-z]+)",
    re.IGNORECASE,
)
# "169.75 to the dollar", "8.68 Hong Kong dollars for one US dollar".
RATE = re.compile(
    rf"^(?:\s[A-Za-z]+){{0,3}}?\s(?:to\s+the|for\s+(?:an?|one|each|every))\s+(?-i:(?:[A-Z][A-Za-z.]*\s){{0,2}})"
    rf"(?P<word>{CURRENCY_WORDS})(?![A-Za-z])",
    re.IGNORECASE,
)
# Before a number: 每盎司1,514美元, 平均每周工作41.4小时, 日均揽收1260万件, 每10股派息0.45元, 日薪249元.
BEFORE = re.compile(
    r"(?:每(?P<word>(?:\d{1,4}(?=[^\d.]))?[^\d，。；、每]{1,7})|(?<!按)(?P<time>[日周月季年])[均薪][^\d，。；、每]{0,7})$"
)
COUNTED = re.compile(r"\d+")
# "daily volatility", 日收益率波动率: a deviation per its own step, where no word says that it is annualised.
STEPWISE = re.compile(
    r"\b(?P<en>daily|weekly|monthly)\s+(?:return\s+)?volatility\b|(?P<zh>[日周月])(?:度)?(?:收益率)?的?波动率",
    re.IGNORECASE,
)
ANNUALISED = re.compile(r"(?<!not )(?<!un)\bannuali[sz]ed\b|(?<![未非])年化", re.IGNORECASE)
# What is priced or exchanged, as the subject: "A litre of regular cost 4.93 dollars", 1美元兑7.5元.
SUBJECT = re.compile(r"\b(?:an?|one|each|every)\s+(?P<word>[a-z]+)\s+of\b[^,;.]*$", re.IGNORECASE)
EXCHANGED = re.compile(rf"(?P<word>{CURRENCY_WORDS})(?:可?兑换?|可换|合)[^\d，。；]{{0,4}}$")
# What counts the year even where it is measured by the month: "Thous. of Units (SAAR)".
ANNUAL_RATE = re.compile(r"\bSAAR\b|\bannual rate\b|年率", re.IGNORECASE)
# "8.3% a year earlier" tells a date.
DISTANCE = re.compile(r"^\s*(?:earlier|later|before|after|ago|on\b(?!\s+average)|prior|previously)", re.IGNORECASE)


def find_kind(unit: str) -> str:
    """Return the kind of a column's unit or of a printed name such as ``return_pct``; "" when it is not known."""
    words = unit.replace("_", " ")
    if IN_PERCENT.search(words):
        return PERCENT
    counted = PER.split(words)[0] or words
    if CURRENCY_IN_UNIT.search(counted):
        return MONEY
    if INDEX.search(words):
        return POINTS
    return next((kind for kind, pattern in NOUNS.items() if pattern.search(f" {counted}")), "")


def name_kind(number: Number) -> str:
    """Return the kind of unit that is written with a number; "" when none is."""
    if number.kind:
        return PERCENT
    return MONEY if number.currency else number.noun


def has_unit(number: Number, unit: str) -> bool:
    """Return whether a number can be a value in this unit: no percentage is a price, no euro a dollar.

    A number that names no unit can be anything, and a unit that is not known holds anything.
    """
    said, held = name_kind(number), find_kind(unit)
    if said == held == MONEY:
        counted = PER.split(unit)[0] or unit
        currencies = [CURRENCIES[found.group(1).lower()] for found in CURRENCY_IN_UNIT.finditer(counted)]
        return any(may_be_same(number.currency, one) for one in currencies)
    return not said or not held or said == held


def may_be_same(left: str, right: str) -> bool:
    """Return whether two currencies may be one: "$" may be any dollar and "¥" yen or yuan."""
    for sign, family in (("$", DOLLARS), ("kr", CROWNS)):
        if sign in (left, right):
            return {left, right} <= family
    return {left, right} <= YENS if "¥" in (left, right) else left == right


def name_denominator(words: str) -> str:
    """Return the name of what values are counted per: a unit of time, a currency or a kind of ``NOUNS``; else ""."""
    for name, pattern in (*TIMES.items(), *NOUNS.items()):
        if pattern.search(f" {words}"):
            return name
    if found := CURRENCY_IN_UNIT.search(words):
        return CURRENCIES[found.group(1).lower()]
    return ""


def find_column_denominator(unit: str, label: str) -> str:
    """Return what a column is counted per, from its unit, or of hours from its label; "" where neither says."""
    _, *behind = PER.split(unit)
    if ANNUAL_RATE.search(unit):
        return "year"
    if behind:
        words = behind[0].partition("(")[0]
        return name_denominator(words) or words.strip().lower()
    if not NOUNS["hours"].search(f" {unit}"):
        return ""
    return next((name for name, pattern in TIMES.items() if name != "hour" and pattern.search(label)), "")


def find_denominator(text: str, number: Number) -> str:
    """Return what a number of a text is counted per; "" where the text does not say."""
    for pattern in (TYPICAL, RATE) if not number.kind else ():
        if found := pattern.match(text[number.end :]):
            return name_denominator(found.group("word"))
    if found := BEHIND.match(text[number.end :]):
        word, rest = found.group("word").lower(), found.group("rest")
        if found.group("article") and DISTANCE.match(rest):
            return ""
        # "a touch above": an unknown word is a unit where it ends what it stands in.
        following = re.match(r"\s+([A-Za-z]+)", rest)
        ends = following is None or following.group(1).lower() in FUNCTION_WORDS
        is_named = number.currency or number.noun or "-" in word
        return name_denominator(word) or (word if ends and is_named else "")
    before = text[: number.start]
    if found := EXCHANGED.search(before):
        return CURRENCIES[found.group("word").lower()]
    if found := BEFORE.search(before):
        words = found.group("word") or found.group("time")
        # What ten of something have is no value per one of it.
        count = COUNTED.match(words)
        return f"{count.group()} {name_denominator(words) or words[count.end()]}" if count else name_denominator(words)
    if number.kind and (found := STEPWISE.search(text)) and not ANNUALISED.search(text):
        return name_denominator(found.group("en") or found.group("zh"))
    # Of whatever else a sentence speaks, only a measure of quantity is what a price is for.
    found = SUBJECT.search(before) if number.currency else None
    return next((kind for kind, one in NOUNS.items() if found and one.search(f" {found.group('word')}")), "")


def find_time(text: str) -> str:
    """Return the unit of time that a text, such as a column's unit, begins with; "" where it begins otherwise."""
    words = text.lstrip(" 个")
    return next((name for name, pattern in TIMES.items() if pattern.match(words)), "")


def find_counted_time(text: str, number: Number) -> str:
    """Return the unit of time that a number of a text counts; "" for a percentage, as in "20% year on year"."""
    return "" if number.kind or number.currency else find_time(text[number.end :])


def may_share_denominator(said: str, held: str) -> bool:
    """Return whether a number with a denominator can be a value of a column; unknown ones can be anything."""
    if not said or not held or said == held:
        return True
    return "$" in (said, held) and {said, held} <= DOLLARS

"""Numbers as questions write them: "$10k", "5%", "twenty-five", "500 billion", 五万, 三成, 25个基点."""

from __future__ import annotations

import math
import re
import unicodedata

from fathom.domain.grading.text import CHINESE_SCALES, DASHES, SCALES
from fathom.domain.text.numerals import DIGIT_VALUES, NUMBER_WORDS

DIGITS = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
LATIN = re.compile(r"[a-z]+")
# A scale behind digits, "10k" or "5 million", ends where the word does: "3 months" are no millions.
SCALE = re.compile(r"[\s-]*([a-z]+)(?![a-z])")
BASIS_POINTS = re.compile(r"[\s-]*(?:bps?\b|basis[\s-]+points?|个?基点)")
TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ENGLISH = (
    dict(NUMBER_WORDS)
    | {word: 13 + at for at, word in enumerate(TEENS)}
    | {word: 20 + 10 * at for at, word in enumerate(TENS)}
)
# Behind digits and number words; a percentage counts in percent.
ENGLISH_SCALES = {word: scale for word, scale in SCALES.items() if scale > 1} | {
    "hundred": 100.0, "grand": 1e3, "dozen": 12.0,
}  # fmt: skip
HALF, ARTICLES = ("half", "半"), ("a", "an")
BASIS_POINT, TENTH = 0.01, 10.0


def read_number(text: str) -> float | None:
    """Return the number of a text, a percentage in percent and basis points in points; None when it has none."""
    shown = unicodedata.normalize("NFKC", text).translate(DASHES).lower().strip()
    shown = THOUSANDS.sub("", shown)
    found = list(DIGITS.finditer(shown))
    # "From 2010 to 2020" and "50/200" are two numbers, and neither is the one that is asked for.
    if len(found) > 1:
        return None
    if found:
        return float(found[0][0]) * read_scale(shown[found[0].end() :])
    english = read_english(shown)
    return english if english is not None else read_chinese(shown)


def read_scale(rest: str) -> float:
    """Return the factor that stands behind a number: " million", "bp", 万亿, 成."""
    if BASIS_POINTS.match(rest):
        return BASIS_POINT
    rest = rest.strip()
    if rest.startswith("成"):
        return TENTH
    factor = 1.0
    # "Hundred thousand" and 千万 are products.
    while rest[:1] in CHINESE_SCALES and rest:
        factor, rest = factor * CHINESE_SCALES[rest[0]], rest[1:]
    while (word := SCALE.match(rest)) and word[1] in ENGLISH_SCALES:
        factor, rest = factor * ENGLISH_SCALES[word[1]], rest[word.end() :]
    return factor


def read_english(text: str) -> float | None:
    """Return the number in English words, or None: "two hundred and fifty thousand", "half a million"."""
    total, part, has_number = 0.0, None, False
    for match in LATIN.finditer(text):
        word = match[0]
        if word in ENGLISH:
            part, has_number = (part or 0.0) + ENGLISH[word], True
        elif word == HALF[0]:
            part, has_number = (part or 0.0) + 0.5, True
        elif word in ENGLISH_SCALES and len(word) > 2:
            part, has_number = (1.0 if part is None else part) * ENGLISH_SCALES[word], True
            # "Hundred" goes on within its thousands; greater scales end what is counted in them.
            if ENGLISH_SCALES[word] >= 1e3:
                total, part = total + part, None
        elif has_number and word not in (*ARTICLES, "and"):
            return (total + (part or 0.0)) * read_scale(text[match.start() :])
    return total + (part or 0.0) if has_number else None


def read_chinese(text: str) -> float | None:
    """Return the number in Chinese numerals, or None: 一千二百, 五万, 百分之五, 一半."""
    rest = text.removeprefix("百分之")
    if HALF[1] in rest:
        return 0.5
    total, section, digit, has_number = 0.0, 0.0, None, False
    for at, sign in enumerate(rest):
        if sign in DIGIT_VALUES:
            digit = (0 if digit is None else 10 * digit) + DIGIT_VALUES[sign]
        elif sign in ("万", "亿"):
            counted = section + (digit or 0)
            # 亿 counts all before it, 万 only what follows the 亿: 万亿, 一亿两千万.
            total = (total + counted or 1.0) * 1e8 if sign == "亿" else total + (counted or 1.0) * 1e4
            section, digit = 0.0, None
        elif sign in CHINESE_SCALES:
            section, digit = section + (1 if digit is None else digit or 1) * CHINESE_SCALES[sign], None
        elif has_number:
            return (total + section + (digit or 0)) * read_scale(rest[at:])
        else:
            continue
        has_number = True
    value = total + section + (digit or 0)
    return value if has_number and math.isfinite(value) else None

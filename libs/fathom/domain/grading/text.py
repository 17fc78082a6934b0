"""Text processing for graders: normalisation, tokens and numbers."""

from __future__ import annotations

import math
import re
import string
import unicodedata

from fathom.domain.text.numerals import DIGITS, replace_digits
from fathom.domain.text.scripts import ALL_HAN

ARTICLES = re.compile(r"\b(a|an|the)\b")
CJK = re.compile(f"[{ALL_HAN}]")
# SQuAD deletes ASCII punctuation; Chinese and typographic marks are the same thing in other scripts.
PUNCTUATION = str.maketrans("", "", string.punctuation + "。、，；：？！“”‘’（）《》〈〉「」『』【】·…—–")
DASHES = str.maketrans("−﹣", "--")
# Numbers as answers write them: 1,234.5, .5, 1e-6, -12%, 3.2亿, 5 million; group 1 is the unit.
NUMBER = re.compile(
    # A sign counts only where no word, number or date goes before it: "2020-03" is no minus three.
    r"(?:(?<![\w.)%])[-+])?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)(?:e[-+]?\d{1,3}(?!\w))?"
    r"(?: ?(%|[十百千万亿]+|(?:[kmbt]|mn|bn|tn|thousand|million|billion|trillion|percent)\b))?",
    re.IGNORECASE,
)
SCALES = {
    "%": 0.01, "percent": 0.01,
    "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9, "billion": 1e9,
    "t": 1e12, "tn": 1e12, "trillion": 1e12,
}  # fmt: skip
CHINESE_SCALES = {"十": 1e1, "百": 1e2, "千": 1e3, "万": 1e4, "亿": 1e8}


def normalize_text(text: str) -> str:
    """Normalise text: lower case, then no punctuation, then no a/an/the as whole words, then single spaces.

    The order is that of SQuAD and Search-R1; full-width forms are folded first (NFKC). For ASCII text the result is
    identical to theirs, character for character.
    """
    lowered = unicodedata.normalize("NFKC", text).lower().translate(PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", lowered).split())


def tokens(text: str) -> list[str]:
    """Split into normalised words; each Chinese character is one token."""
    return CJK.sub(lambda match: f" {match.group()} ", normalize_text(text)).split()


def numbers(text: str) -> list[float]:
    """Return the numbers of a text with their scale, in order: 1,234.5 · 12% as 0.12 · 3.2亿 · 5 million · 3千万.

    Numbers too large for a float are left out.
    """
    found = []
    for match in NUMBER.finditer(unicodedata.normalize("NFKC", text).translate(DASHES)):
        unit = (match.group(1) or "").lower()
        digits = match.group().lower().removesuffix(unit).strip().replace(",", "")
        scale = SCALES[unit] if unit in SCALES else math.prod(CHINESE_SCALES[sign] for sign in unit)
        value = float(digits) * scale
        if math.isfinite(value):
            found.append(value)
    return found


DIGIT_RUN = re.compile(rf"[{DIGITS}]{{2,}}")
BESIDE_CJK = re.compile(rf"(?<={CJK.pattern})\s+|\s+(?={CJK.pattern})")


def normalize_spelling(text: str) -> str:
    """Normalise Chinese spelling variants too: digits as in 二〇二四, and no blanks beside Chinese characters."""
    digits = DIGIT_RUN.sub(lambda match: replace_digits(match.group()), normalize_text(text))
    return BESIDE_CJK.sub("", digits)

"""Text normalisation that preserves positions within its result."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

CJK = re.compile(r"[\u3400-\u9fff]")
DIGITS = dict(zip("〇零○一二三四五六七八九", "000123456789", strict=True))


def plain(text: str) -> str:
    """Return the NFKC form, with full-width characters as usual ones and all dashes as "-"."""
    if text.isascii():
        return text
    return re.sub(r"[‐‑‒–—―−﹣]", "-", unicodedata.normalize("NFKC", text))


def folded(text: str) -> str:
    """Return the text in lower case, character by character, so that positions do not change."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def normal(text: str) -> str:
    """Return the form in which names are compared: plain, lower case, single spaces."""
    return " ".join(folded(plain(text)).split())


def is_chinese(text: str) -> bool:
    """Return whether the text contains a Chinese character."""
    return CJK.search(text) is not None


def chinese_number(word: str) -> int | None:
    """Parse "3", "三", "十二", "二十" or "两"; return None for anything else.

    Numerals with 十 go up to 99; without it Chinese digits are read one by one ("二一" is 21).
    """
    if word.isdecimal():
        return int(word)
    word = word.replace("两", "二").replace("俩", "二").replace("仨", "三")
    if not word or any(char not in DIGITS and char != "十" for char in word):
        return None
    if "十" not in word:
        return int("".join(DIGITS[char] for char in word))
    tens, _, ones = word.partition("十")
    if len(tens) > 1 or len(ones) > 1:
        return None
    return 10 * int(DIGITS[tens] if tens else "1") + int(DIGITS[ones] if ones else "0")


def blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the text with the spans replaced by NUL characters: positions stay the same and words do not join."""
    for start, end in spans:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text

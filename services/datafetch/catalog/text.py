"""Text normalisation that preserves positions within its result."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from fathom.domain.text.scripts import HAN_AND_RARE

CJK = re.compile(f"[{HAN_AND_RARE}]")
BRACKETS = re.compile(r"[(（\[].*?[)）\]]")


def plain(text: str) -> str:
    """Return the NFKC form, with full-width characters as usual ones and all dashes as "-"."""
    # ASCII is its own NFKC form; most questions in English are spared the work.
    if text.isascii():
        return text
    return re.sub(r"[‐‑‒–—―−﹣]", "-", unicodedata.normalize("NFKC", text))


def fold_case(text: str) -> str:
    """Return the text in lower case, character by character, so that positions do not change."""
    lower = text.lower()
    # Lower case may change the length: "İ" becomes two characters, and every position behind it would be wrong.
    if len(lower) == len(text):
        return lower
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def normal(text: str) -> str:
    """Return the form in which names are compared: plain, lower case, single spaces."""
    return " ".join(fold_case(plain(text)).split())


def is_chinese(text: str) -> bool:
    """Return whether the text contains a Chinese character."""
    return CJK.search(text) is not None


def blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the text with the spans replaced by NUL characters: positions stay the same and words do not join."""
    for start, end in spans:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text

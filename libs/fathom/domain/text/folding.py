"""Forms in which two texts are compared: each leaves out something that makes no difference to its question."""

from __future__ import annotations

import re
import unicodedata

WORDS = re.compile(r"\w+")
GROUPED = re.compile(r"(?<=\d),(?=\d)")


def fold_width(text: str) -> str:
    """Return the text without case, and full-width characters as usual ones (NFKC)."""
    return unicodedata.normalize("NFKC", text).casefold()


def join_words(text: str) -> str:
    """Return the folded text with one blank for each run of blanks: words stay apart."""
    return " ".join(fold_width(text).split())


def remove_blanks(text: str) -> str:
    """Return the folded text without blanks, which Chinese may or may not have."""
    return "".join(fold_width(text).split())


def keep_letters(text: str) -> str:
    """Return the letters and digits of the folded text alone: neither quotation marks nor line breaks count."""
    return "".join(WORDS.findall(fold_width(text)))


def ungroup_digits(text: str) -> str:
    """Return the folded text without the commas that group digits: "1,000" is "1000"."""
    return GROUPED.sub("", fold_width(text))

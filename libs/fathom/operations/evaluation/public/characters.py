"""Exact match and F1 of characters, as CMRC 2018 (arXiv 1810.07366) measures answers in Chinese.

F1 is of the longest run of tokens that answer and reference share, where SQuAD's is of single words: a Chinese
character is a token, so that single ones would be shared by nearly all sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from fathom.domain.text.scripts import ALL_HAN

# Signs that the authors leave out. ASCII quotation marks, brackets and full stops are not among them.
SIGNS = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》…·、「」（）－～『』")
# A Chinese character, a number with its separators, a word, or any other sign.
TOKEN = re.compile(rf"[{ALL_HAN}]|\d+(?:[.,]\d+)*|[^\W\d{ALL_HAN}]+|[^\s\w]")


def score_characters(given: str, accepted: Sequence[str]) -> Mapping[str, float]:
    """Return the best exact match and F1 over the accepted answers."""
    own = strip_signs(given)
    return {
        "em": float(any(own == strip_signs(answer) for answer in accepted)),
        "f1": max((share_run(split_tokens(given), split_tokens(answer)) for answer in accepted), default=0.0),
    }


def strip_signs(text: str) -> str:
    """Return the text in lower case without signs."""
    return text.lower().strip().translate(SIGNS)


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text without signs."""
    # Signs are left out first, as in the authors' script: "top-ten" is one token.
    return TOKEN.findall(strip_signs(text))


def share_run(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the F1 of the longest run that both have."""
    # Without autojunk, which passes over tokens that a long text has often.
    matcher = SequenceMatcher(None, given, wanted, autojunk=False)
    size = matcher.find_longest_match().size
    return 2 * size / (len(given) + len(wanted)) if size else 0.0

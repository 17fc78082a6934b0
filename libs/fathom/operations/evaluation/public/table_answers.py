"""Exact match, F1 and scale of answers over tables and text, as TAT-QA (arXiv 2105.07624) measures them.

Several answers are wanted together: they are sorted and joined. A number counts in its scale, so that "1.5" in
millions is "1500000", and is compared to two digits in that scale; of an answer that is computed F1 is exact match.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

SCALES: Mapping[str, float] = MappingProxyType(
    {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "percent": 0.01}
)
COMPUTED = frozenset({"arithmetic", "count"})
ARTICLES = re.compile(r"\b(a|an|the)\b")
BESIDE_NUMBERS = str.maketrans("", "", "'\"\\$€£¥%(),[]")
PUNCTUATION = str.maketrans("", "", string.punctuation)
# Group 1 is the number; one that begins with its point counts as no number, as in the authors' script.
DIGITS = re.compile(r"([+-]?\d+(?:\.\d+)?)|[+-]?\.\d+")
# "(134)" is how accounts write a loss; blanks and one decimal point may stand within.
LOSS = re.compile(r"\([\d.\s]+\)")
PERCENT = re.compile(r"[\d.\s]+%")
# The first number with the word behind it, which may be its scale.
WITH_WORD = re.compile(r"[\d.]+\s?[a-zA-Z]+")
OWN_SCALE = re.compile(rf"\s+({'|'.join(name for name in SCALES if name != 'hundred')})s?\s*\Z", re.IGNORECASE)


@dataclass(frozen=True)
class TableAnswer:
    """Values that an answer must have, their scale ("" for none), their kind: span, multi-span, arithmetic, count."""

    values: tuple[str, ...]
    scale: str = ""
    kind: str = "span"


def score_table_answer(given: str, wanted: TableAnswer) -> Mapping[str, float]:
    """Return exact match, F1 and whether the scale is the wanted one; an empty answer scores nothing."""
    if not given.strip() or not wanted.values:
        return {"em": 0.0, "f1": 0.0, "scale": 0.0}
    value, scale = split_scale(given)
    reference = join_values(wanted.values, wanted.scale)
    texts = [join_values([value], scale)]
    # A bare number is also compared as it stands: 0.2342 is 23.42 percent.
    if not scale and "%" not in value and is_number(value) and (bare := read_number(value)) is not None:
        texts.append(f"{bare:.4f}")
    em, f1 = max(compare(text, reference) for text in texts)
    return {"em": em, "f1": em if wanted.kind in COMPUTED else f1, "scale": float(scale == wanted.scale)}


def split_scale(text: str) -> tuple[str, str]:
    """Return an answer as its value and the scale that its last word names; a % sign stays with its number."""
    match = OWN_SCALE.search(text)
    if match is None or not is_number(text[: match.start()]):
        return text.strip(), ""
    return text[: match.start()].strip(), match[1].lower()


def join_values(values: Sequence[str], scale: str) -> str:
    """Return sorted values, numbers of them in plain units."""
    return " ".join(write_value(value, scale) for value in sorted(values))


def write_value(value: str, scale: str) -> str:
    """Return a number in plain units with four digits, or a text with its scale behind it."""
    number = read_number(value) if is_number(value) else None
    if number is None:
        return f"{value} {scale}".strip()
    # A percentage says its own scale.
    return f"{number:.4f}" if "%" in value else f"{round(number, 2) * SCALES.get(scale, 1.0):.4f}"


def compare(text: str, reference: str) -> tuple[float, float]:
    """Return exact match, and the F1 of the sets of tokens in two digits."""
    given, wanted = normalize(text), normalize(reference)
    own, other = set(given.split()), set(wanted.split())
    common = len(own & other)
    precision, recall = common / len(own) if own else 1.0, common / len(other) if other else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return float(given == wanted), round(f1, 2)


def normalize(text: str) -> str:
    """Return a text token by token: numbers in one form, others without punctuation and articles."""
    found = []
    for token in text.lower().split(" "):
        number = read_number(token) if is_number(token) else None
        plain = str(number) if number is not None else token if is_number(token) else token.translate(PUNCTUATION)
        found += ARTICLES.sub(" ", plain).split()
    return " ".join(found)


def is_number(text: str) -> bool:
    """Return True for a number, alone or before a scale."""
    words = text.translate(BESIDE_NUMBERS).split()
    try:
        value = float(words[0]) if words else float("nan")
    except ValueError:
        return False
    return value == value and (len(words) < 2 or find_scale(words[1]) != 1)


def read_number(text: str) -> float | None:
    """Return the first number of a text with its scale, sign and percentage; None without digits."""
    match = DIGITS.search(text.translate(BESIDE_NUMBERS))
    if match is None or match[1] is None:
        return None
    word = WITH_WORD.search(text)
    sign, share = -1 if LOSS.search(text.strip()) else 1, 0.01 if PERCENT.search(text.strip()) else 1
    number = float(match[0]) if "." in match[0] else int(match[0])
    return round(number * (find_scale(word[0]) if word else 1) * sign * share, 4)


def find_scale(text: str) -> float:
    """Return the factor of the scale that a text names, 1 for none."""
    return next((factor for name, factor in SCALES.items() if name in text.lower()), 1)

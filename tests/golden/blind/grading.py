"""Grade an answer to a blind question: right, partly right, refused, silently wrong or invented.

The grading reads what a reader would: the answer's text and the tables that it places. It shares no code with the
product's own checks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.golden.blind.schema import Question, Value

# Grouping commas, signs of both kinds, decimals, exponents. A digit right behind a letter belongs to a name (M2).
NUMBER = re.compile(r"(?<![A-Za-z0-9_.])[-+−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
REFERENCE = re.compile(r"\{\{[^}]*\}\}|\[\d{1,3}\]")
DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?|\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?")
# What multiplies the number before it; a reader takes "1.2 trillion" and "1,200 billion" for the same.
SCALES = {
    "trillion": 1e12, "billion": 1e9, "bn": 1e9, "million": 1e6, "thousand": 1e3,
    "万亿": 1e12, "亿": 1e8, "万": 1e4,
}  # fmt: skip


class Grade(StrEnum):
    """Name how good an answer is."""

    RIGHT = "right"
    PARTLY = "partly right"
    """Some of what was asked, and the answer says that something is open."""
    REFUSED_RIGHTLY = "correctly refused"
    REFUSED_WRONGLY = "wrongly refused"
    WRONG_MARKED = "wrong, but says that something is open"
    SILENT = "silently wrong"
    """Not what was asked, and looks finished; a part of it counts as this as well when nothing says so."""
    INVENTED = "invented"
    """Figures that the product's checks find in no material."""


@dataclass(frozen=True)
class Given:
    """Hold what came back: the answer with its placed tables as text, and how the product marked it."""

    text: str
    is_open: bool
    """True when the answer itself says that it leaves something open, lacks data or did not finish."""
    is_refusal: bool
    """True when it states no figure beyond those of the question and names what it lacks, or asks back."""
    unsupported: int = 0
    """Number of figures that stand in no material, by the product's checks."""
    seconds: float = 0.0
    rounds: int = 0


@dataclass(frozen=True)
class Verdict:
    """A graded answer, with what it lacks."""

    question: Question
    given: Given
    grade: Grade
    lacks: tuple[str, ...]


def judge(question: Question, given: Given) -> Verdict:
    """Grade an answer."""
    lacks = (*list_lacking_values(question, given.text), *list_lacking_words(question, given.text))
    wanted = len(question.values) + len(question.words) + len(question.missing)
    return Verdict(question, given, choose_grade(question, given, len(lacks), wanted), lacks)


def choose_grade(question: Question, given: Given, lacking: int, wanted: int) -> Grade:
    """Return the grade of an answer that lacks some of what was wanted."""
    if given.unsupported and not (question.answerable and lacking == 0):
        return Grade.INVENTED
    if not question.answerable:
        if lacking == 0 and (given.is_refusal or given.is_open or question.words):
            return Grade.REFUSED_RIGHTLY
        return Grade.REFUSED_RIGHTLY if given.is_refusal and not question.words else wrong(given)
    if lacking == 0:
        return Grade.RIGHT
    if given.is_refusal:
        return Grade.REFUSED_WRONGLY
    return Grade.PARTLY if lacking < wanted and given.is_open else wrong(given)


def wrong(given: Given) -> Grade:
    return Grade.WRONG_MARKED if given.is_open else Grade.SILENT


def list_lacking_values(question: Question, text: str) -> list[str]:
    """Return the values that the text does not hold."""
    numbers = read_numbers(text)
    return [f"{value.name} {value.any_of[0]:g} {value.unit}" for value in question.values if not holds(value, numbers)]


def list_lacking_words(question: Question, text: str) -> list[str]:
    """Return the first spelling of each word that the text does not hold."""
    low = text.casefold()
    wanted = (*question.words, *question.missing)
    return [options[0] for options in wanted if not any(option.casefold() in low for option in options)]


def holds(value: Value, numbers: Sequence[float]) -> bool:
    """Return whether one of the numbers is the value; a fall may be written without its sign."""
    slack = value.tolerance + 1e-9
    return any(abs(abs(number) - abs(option)) <= slack for number in numbers for option in value.any_of)


def read_numbers(text: str) -> list[float]:
    """Return the numbers of a text, each as written and, before a word such as "billion", multiplied by it."""
    bare = DATE.sub(lambda found: " " * len(found.group()), REFERENCE.sub(" ", text))
    numbers: list[float] = []
    for found in NUMBER.finditer(bare):
        number = float(found.group().replace(",", "").replace("−", "-"))
        numbers.append(number)
        after = bare[found.end() : found.end() + 12].lstrip().lower()
        scale = next((scale for word, scale in SCALES.items() if after.startswith(word)), None)
        if scale is not None:
            # Expectations name a unit of their own ("billion USD"): any usual scale of the same amount counts.
            numbers += [number * scale / other for other in (1.0, 1e3, 1e4, 1e6, 1e8, 1e9, 1e12)]
    return numbers

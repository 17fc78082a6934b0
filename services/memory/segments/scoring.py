"""Scores of pages and segments for a question, by meaning, words and dates; the heat of segments. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from fathom.domain.periods.grammar import read_periods
from fathom.services.memory.segments.meaning import Floats, Origin
from fathom.services.memory.segments.passages import TOLD, list_terms

# Okapi's usual saturation and normalisation by length.
K1, B = 1.2, 0.75
# Shares of a score. Chosen on the planted turns of two authors, each set tried on the other, and on two dialogues of
# LoCoMo; the other three were looked at afterwards. Of 540 choices around this one none finds less than 46 of 50.
MEANING, WORDS, DATES = 0.55, 0.45, 0.1
# More for what the user told, where the question is about what is the user's own.
OWN = 0.2
# Share of the better one of the turns before and after: what a turn is about is often said there.
AROUND = 0.4
# A page and a segment belong together from here on; the sum of the nearness of their meanings and of their words.
# Without meanings, words alone must agree.
JOINS, JOINS_BY_WORDS = 0.88, 0.2
# The first person. "US" is a country.
FIRST_PERSON = re.compile(r"\b(?:[Ii]|[Mm]e|[Mm]y|[Mm]ine|[Ww]e|us|[Oo]urs?)\b|[我咱俺]")
# A use that is a day old counts a half less; see MemoryOS.
HEAT_DECAY_S = 24 * 3600.0
VISIT_HEAT, PAGE_HEAT, RECENT_HEAT = 1.0, 1.0, 1.0


@dataclass(frozen=True)
class Query:
    """A question as pages are compared with it: its terms, its vector or None, and the days that it names.

    ``is_own`` is whether its user speaks of himself or herself in it.
    """

    terms: Sequence[str]
    vector: Floats | None = None
    encoder: str = ""
    origin: Origin | None = None
    days: Sequence[tuple[date, date]] = field(default_factory=tuple)
    is_own: bool = False


def read_query(question: str, today: date) -> Query:
    """Return the question's terms and days, without a vector; ``today`` anchors "last week"."""
    periods = read_periods(question, today).periods
    days = tuple((one.start, one.end or today) for one in periods if one.start is not None)
    own = FIRST_PERSON.search(question) is not None
    return Query(tuple(dict.fromkeys(list_terms(question))), days=days, is_own=own)


def weigh_terms(groups: Sequence[Mapping[str, int]], count: int, terms: Sequence[str]) -> dict[str, float]:
    """Return the weight of each of the question's terms: one of few of the ``count`` texts says more.

    Each group says of its terms in how many of its texts they stand.
    """
    found = {term: sum(group.get(term, 0) for group in groups) for term in terms}
    # With 1 added, as is usual, so that a word that most texts have does not count against them.
    return {term: math.log(1 + (max(0, count - hits) + 0.5) / (hits + 0.5)) for term, hits in found.items()}


def score_words(documents: Sequence[Mapping[str, int]], weights: Mapping[str, float]) -> list[float]:
    """Return the share of the question's words that each document has, by Okapi BM25: 0 none, 1 all of them often."""
    total = sum(weights.values())
    if not documents or not total:
        return [0.0] * len(documents)
    lengths = [sum(document.values()) for document in documents]
    mean = max(1.0, sum(lengths) / len(lengths))
    scores = []
    for document, length in zip(documents, lengths, strict=True):
        norm = K1 * (1 - B + B * length / mean)
        score = sum(
            weight * document[term] * (K1 + 1) / (document[term] + norm)
            for term, weight in weights.items()
            if term in document
        )
        scores.append(min(1.0, score / total))
    return scores


def fuse(
    meanings: Sequence[tuple[float, float] | None], words: Sequence[float], bonuses: Sequence[float]
) -> list[float]:
    """Return scores that order texts among each other, by the place of each in the range of all, with its bonus.

    Encoders put all turns of a few subjects within a narrow band, in which a common word outweighs any meaning. The
    meaning is that of the best passage and that of the turn beside the one before, each in its own range.
    """
    known = [one for one in meanings if one is not None]
    near = iter(zip(stretch([best for best, _ in known]), stretch([whole for _, whole in known]), strict=True))
    by_words = stretch(words)
    return [
        (word if meaning is None else weigh(sum(next(near)) / 2, word)) + bonus
        for meaning, word, bonus in zip(meanings, by_words, bonuses, strict=True)
    ]


def weigh(meaning: float, words: float) -> float:
    """Return the mean of both by their shares."""
    return (MEANING * meaning + WORDS * words) / (MEANING + WORDS)


def stretch(values: Sequence[float]) -> list[float]:
    """Return where each value lies between the least (0) and the greatest (1); all 0 where they are the same."""
    least, greatest = min(values, default=0.0), max(values, default=0.0)
    return [(value - least) / (greatest - least) if greatest > least else 0.0 for value in values]


def score_dates(days: Sequence[tuple[date, date]], ended: float) -> float:
    """Return 1 for a turn of a day that the question names, else 0."""
    day = datetime.fromtimestamp(ended, UTC).date()
    return float(any(start <= day <= end for start, end in days))


def combine(meaning: float | None, words: float, dates: float) -> float:
    """Return the score of a page or segment, 0 to 1; without a meaning its words count alone."""
    return min(1.0, (words if meaning is None else weigh(meaning, words)) + DATES * dates)


def add_neighbours(scores: Mapping[tuple[str, int], float]) -> dict[tuple[str, int], float]:
    """Return the scores of turns, by conversation and number, each with its share of those around it."""
    found = {}
    for (conversation, number), score in scores.items():
        around = max(scores.get((conversation, number + step), 0.0) for step in (-1, 1))
        found[conversation, number] = (score + AROUND * around) / (1 + AROUND)
    return found


def measure_overlap(terms: Mapping[str, int], others: Mapping[str, int], count: int = 1) -> float:
    """Return the share of a turn's terms that others have, each by the share of the ``count`` others that have it."""
    # Single Chinese characters stand in texts of any subject.
    words = [term for term in terms if len(term) > 1 and term != TOLD]
    shared = sum(min(1.0, others[term] / count) if count > 1 else 1.0 for term in words if term in others)
    return shared / len(words) if words else 0.0


def is_joined(nearness: float | None, overlap: float) -> bool:
    """Return whether two texts are about one subject."""
    return overlap >= JOINS_BY_WORDS if nearness is None else nearness + overlap >= JOINS


def measure_heat(visits: int, pages: int, last_used: float, now: float) -> float:
    """Return the heat of a segment: how often it was recalled, how long it is, and how lately it was used."""
    age = max(0.0, now - last_used)
    return VISIT_HEAT * visits + PAGE_HEAT * pages + RECENT_HEAT * math.exp(-age / HEAT_DECAY_S)

"""Scores of pages and segments for a question, by meaning, words, dates and length; the heat of segments."""

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
# The first person. "US" is a country.
FIRST_PERSON = re.compile(r"\b(?:[Ii]|[Mm]e|[Mm]y|[Mm]ine|[Ww]e|us|[Oo]urs?)\b|[我咱俺]")
# A page and a segment belong together from here on; the sum of the nearness of their meanings and of their words.
# Without meanings, words alone must agree.
JOINS, JOINS_BY_WORDS = 0.88, 0.2
# A use that is a day old counts a half less; see MemoryOS.
HEAT_DECAY_S = 24 * 3600.0
VISIT_HEAT, PAGE_HEAT, RECENT_HEAT = 1.0, 1.0, 1.0
# From so many terms on a turn says as much as any other: a report is not asked for more often than a sentence.
FULL_TERMS = 30


@dataclass(frozen=True)
class Shares:
    """Shares of a place among the turns; ``python -m tests.bench ranking`` tries others.

    ``meaning``, ``words`` and ``dates`` make up what a turn has of a question. ``own`` is more for what the user told,
    where the question is about what is the user's own. ``around`` is the share of the better one of the turns before
    and after: what a turn is about is often said there. ``said`` is for the nearness of what a turn says, beside what
    it asks: the questions of a memory are much alike, their answers are not. ``length`` is for turns that say more:
    they are asked for more often than "1.74" is.
    """

    meaning: float = 0.55
    words: float = 0.45
    dates: float = 0.1
    own: float = 0.2
    around: float = 0.4
    said: float = 0.3
    length: float = 0.4


# The first five were chosen on the planted turns of two authors, each set tried on the other, and on two dialogues of
# LoCoMo; the last two on those of four authors, each set tried with what the three others chose. Above 0.2 and up to
# 0.4 for each of the two, 195 or 196 of the 200 are found, 189 without them; from 0.4 for "said" on LoCoMo loses.
SHARES = Shares()


@dataclass(frozen=True)
class Nearness:
    """Nearness of a page to a question: its best passage with its number, the page beside the one before, what it says.

    What it says (``said``) is the best passage of the answer; where the user told something, that counts as well.
    """

    best: float
    passage: int
    whole: float
    said: float

    @property
    def mean(self) -> float:
        """Return the mean of passage and page."""
        return (self.best + self.whole) / 2


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
    meanings: Sequence[Nearness | None], words: Sequence[float], bonuses: Sequence[float], shares: Shares = SHARES
) -> list[float]:
    """Return scores that order texts among each other, by the place of each in the range of all, with its bonus.

    Encoders put all turns of a few subjects within a narrow band, in which a common word outweighs any meaning. The
    meaning is that of the best passage and that of the turn beside the one before, each in its own range.
    """
    by_words = stretch(words)
    best = stretch_known([None if one is None else one.best for one in meanings], by_words)
    whole = stretch_known([None if one is None else one.whole for one in meanings], by_words)
    return [
        weigh((near + nearer) / 2, word, shares) + bonus
        for near, nearer, word, bonus in zip(best, whole, by_words, bonuses, strict=True)
    ]


def weigh(meaning: float, words: float, shares: Shares = SHARES) -> float:
    """Return the mean of both by their shares."""
    return (shares.meaning * meaning + shares.words * words) / (shares.meaning + shares.words)


def score_statements(
    meanings: Sequence[Nearness | None], words: Sequence[float], lengths: Sequence[float], shares: Shares = SHARES
) -> list[float]:
    """Return what is added to the place of each turn for what it says and for how much it says."""
    said = stretch_known([None if one is None else one.said for one in meanings], stretch(words))
    return [shares.said * near + shares.length * long for near, long in zip(said, stretch(lengths), strict=True)]


def measure_length(terms: Mapping[str, int]) -> float:
    """Return how much a turn says, by the logarithm of its terms up to ``FULL_TERMS``."""
    return math.log1p(min(FULL_TERMS, sum(terms.values())))


def stretch_known(values: Sequence[float | None], others: Sequence[float]) -> list[float]:
    """Return where each value lies in the range of those that are known, and the ``others`` in place of the rest."""
    known = iter(stretch([value for value in values if value is not None]))
    return [other if value is None else next(known) for value, other in zip(values, others, strict=True)]


def stretch(values: Sequence[float]) -> list[float]:
    """Return where each value lies between the least (0) and the greatest (1); all 0 where they are the same."""
    least, greatest = min(values, default=0.0), max(values, default=0.0)
    return [(value - least) / (greatest - least) if greatest > least else 0.0 for value in values]


def score_dates(days: Sequence[tuple[date, date]], ended: float) -> float:
    """Return 1 for a turn of a day that the question names, else 0."""
    day = datetime.fromtimestamp(ended, UTC).date()
    return float(any(start <= day <= end for start, end in days))


def combine(meaning: float | None, words: float, dates: float, shares: Shares = SHARES) -> float:
    """Return the score of a page or segment, 0 to 1; without a meaning its words count alone."""
    return min(1.0, (words if meaning is None else weigh(meaning, words, shares)) + shares.dates * dates)


def add_neighbours(scores: Mapping[tuple[str, int], float], shares: Shares = SHARES) -> dict[tuple[str, int], float]:
    """Return the scores of turns, by conversation and number, each with its share of those around it."""
    found = {}
    for (conversation, number), score in scores.items():
        around = max(scores.get((conversation, number + step), 0.0) for step in (-1, 1))
        found[conversation, number] = (score + shares.around * around) / (1 + shares.around)
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

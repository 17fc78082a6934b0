"""Clauses of a sentence with their periods and numbers, as comparisons are read from them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.comparison.relations import Relation, find_relations
from fathom.services.planner.answering.verification.dates import Moment, find_ranges
from fathom.services.planner.answering.verification.elliptical import complete_moments, settle_days
from fathom.services.planner.answering.verification.events import DIRECTIONS
from fathom.services.planner.answering.verification.numbers import Number

# Where one comparison ends and the next begins; a full stop without a space behind it belongs to a number.
CLAUSES = re.compile(r"[;；。]|\.\s|[,，]?\s*\b(?:while|whereas|but|although|though)\b|[,，]\s*(?:而|但)")
PART = re.compile(r"[,，:：]")
# Between ups and downs: "grew in 2007 and shrank in 2008".
JOINT = re.compile(r"[,，]|\band\b|\bthen\b|而", re.IGNORECASE)
OPPOSITE = "the numbers say the opposite"
# Days of the longest period of each unit.
LENGTHS = ((1, "day"), (31, "month"), (92, "quarter"), (366, "year"))


@dataclass(frozen=True)
class Clause:
    """A part of a sentence with its offset in it, and the dates and numbers in it by offsets in the clause."""

    start: int
    text: str
    moments: tuple[Moment, ...]
    numbers: tuple[Number, ...]

    def inside(self, span: tuple[int, int]) -> Clause:
        """Return the part of a span."""
        start, end = span
        moments = tuple(shift(one, -start) for one in self.moments if start <= one.start < end)
        numbers = tuple(one for one in self.numbers if start <= one.start - self.start < end)
        return Clause(self.start + start, self.text[start:end], moments, numbers)


@dataclass(frozen=True)
class Comparison:
    """Words of a comparison, by offsets in the sentence.

    ``why`` says why it is false, "" that it holds, and None that nothing decides it.
    """

    start: int
    end: int
    why: str | None


def shift(moment: Moment, by: int) -> Moment:
    """Return a moment at another offset."""
    return Moment(moment.start + by, moment.stop + by, moment.text, moment.first, moment.last, moment.month_day)


def split_clauses(sentence: Sentence) -> list[Clause]:
    """Return the clauses of a sentence that a contrast parts, and those of a list of ups and downs."""
    moments = settle_days(complete_moments(sentence.text, sentence.moments))
    whole = Clause(0, sentence.text, tuple(moments), sentence.numbers)
    out = []
    for clause in cut(whole, CLAUSES):
        both = all(pattern.search(clause.text) for pattern in DIRECTIONS)
        out += cut(clause, JOINT) if both and not list_relations(clause) else [clause]
    return out


def list_relations(clause: Clause) -> list[Relation]:
    """Return the words of comparison of a clause; "over 2015–2020" names a period and compares nothing."""
    starts = {moment.start for moment in clause.moments}
    return [
        one
        for one in find_relations(clause.text)
        if not (
            clause.text[one.start : one.end].lower().startswith(("over", "under"))
            and starts & set(range(one.end, one.end + 2))
        )
    ]


def cut(clause: Clause, pattern: re.Pattern[str]) -> list[Clause]:
    """Return a clause cut at the matches of a pattern."""
    edges = [0]
    for match in pattern.finditer(clause.text):
        edges += [match.start(), match.end()]
    edges.append(len(clause.text))
    spans = zip(edges[::2], edges[1::2], strict=True)
    return [clause.inside(span) for span in spans if clause.text[slice(*span)].strip()]


def find_scopes(clause: Clause) -> list[Moment]:
    """Return the periods of a clause, with a range in place of its two ends, in the order of the text."""
    dated = [moment for moment in clause.moments if moment.first or moment.last]
    ranges = [one for one in find_ranges(clause.text, dated) if one not in dated and not is_list(clause.text, one)]
    out = [one for one in dated if not any(r.start <= one.start and one.stop <= r.stop for r in ranges)]
    return sorted([*out, *ranges], key=lambda moment: moment.start)


def is_list(text: str, found: Moment) -> bool:
    """Return whether two dates are joined by "and" without "between": two periods and no range."""
    joined = re.search(r"\band\b|[和与及、]", found.text) is not None
    return joined and not re.search(r"\bbetween\b|[在从]", text[: found.start], re.IGNORECASE)


def is_stated(number: Number) -> bool:
    """Return whether a number is a value and no count."""
    return bool(number.kind or number.decimals or number.scaled or number.currency or number.noun)

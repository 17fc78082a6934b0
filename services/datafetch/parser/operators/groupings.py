"""Groupings ("worst month", 单日最大跌幅) and rankings of all entities of a kind ("the three best stocks")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.text.numerals import parse_number
from fathom.services.datafetch.parser.lexicon import cue, cues, group
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.query.model import Frequency, Statistic


@dataclass(frozen=True)
class Grouping:
    """A nested statistic: ``outer`` over the ``inner`` statistic of each ``every``; ``count`` groups are returned."""

    every: Frequency
    inner: Statistic
    outer: Statistic
    count: int


@dataclass(frozen=True)
class Ranking:
    """A ranking of all entities of a kind; ``low`` is ascending, and a ``count`` of 0 stands for all."""

    kind: str
    count: int
    low: bool


def find_grouping(text: str) -> list[Mention]:
    """Return a nested statistic, such as "the three worst months", as a measure, a frequency and a condition."""
    for outer, pattern in cues("groupings"):
        match = pattern.search(text)
        if match is None:
            continue
        inner = Statistic.CHANGE if cue("counted_things").search(match[0]) else Statistic.RETURN
        every = next(Frequency(value) for value, words in cues("group_lengths") if words.fullmatch(group(match, "e")))
        # The number may stand before the match ("the three worst months"): 16 characters hold it and an article.
        ahead = max(0, match.start() - 16)
        counted = cue("several").search(match[0]) or cue("several").search(text[ahead : match.end()])
        told = group(counted, "n") if counted else ""
        start = min(match.start(), text.index(told)) if told else match.start()
        found = Grouping(every, inner, Statistic(outer), parse_number(told) or 1 if told else 1)
        labels = (
            (MentionKind.MEASURE, str(inner)),
            (MentionKind.FREQUENCY, str(every)),
            (MentionKind.CONDITION, f"{outer} {found.count}"),
        )
        # The name that stands between "which day" and "fell most" is read by others.
        gap = next((match.span(key) for key in match.groupdict() if key.startswith("gap") and match[key]), None)
        spans = [(start, gap[0]), (gap[1], match.end())] if gap else [(start, match.end())]
        return [Mention(kind, *span, value, meaning=found) for span in spans for kind, value in labels]
    return []


def find_ranking(text: str) -> list[Mention]:
    """Return a ranking, such as "the three best stocks"."""
    for name, pattern in cues("rankings"):
        match = pattern.search(text)
        if match:
            count = 0 if name == "sorted" else parse_number(group(match, "n") or "1") or 1
            kind = next(kind for kind, words in cues("ranked_kinds") if words.search(match["kind"]))
            low = (cue("lowest").fullmatch(match["way"]) or dict(cues("orders"))["ascending"].search(text)) is not None
            found, value = Ranking(kind, count, low), f"{'bottom' if low else 'top'} {count} {kind}"
            # What stands between is read by others: "which stock rose most", "the five best tech stocks".
            numbers = [match.span(key) for key in match.groupdict() if key.startswith("n") and match[key]]
            spans = sorted([match.span("way"), match.span("kind"), *numbers])
            return [
                Mention(MentionKind.CONDITION, start, end, value, meaning=found)
                for start, end in _join_spans(text, spans)
            ]
    return []


def _join_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, overlapping ones and those with only particles and measure words between them as one."""
    joined = [spans[0]]
    for start, end in spans[1:]:
        if not text[joined[-1][1] : start].strip(" -的前家名位只个支"):
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def find_density(text: str) -> Frequency:
    """Return the output frequency that a text asks for, or ``NATIVE``."""
    found = (Frequency(value) for value, pattern in cues("densities") if pattern.search(text))
    return next(found, Frequency.NATIVE)


def find_group_length(text: str, statistics: Sequence[Statistic], native: Frequency) -> Frequency:
    """Return the period length that statistics are computed for, or ``NATIVE`` for the whole period.

    "Annual returns" gives ``ANNUAL``. Except for returns and changes, the length must be coarser than ``native``.
    """
    # A single end is not a frequency: "up to the end of September".
    text = re.sub(r"(?<![每各逐按])[年月季](?:度)?[末底]", "\0", text)
    found = find_density(text) or (Frequency.ANNUAL if cue("per_year").search(text) else Frequency.NATIVE)
    if not statistics or not found or set(statistics) & {Statistic.CAGR, Statistic.LAST}:
        return Frequency.NATIVE
    # The mean of the only value of a month is the series itself; its change is not.
    order = list(Frequency)
    moves = set(statistics) <= {Statistic.RETURN, Statistic.CHANGE}
    finest = order.index(native) if moves else order.index(native) + 1
    return found if order.index(found) >= finest else Frequency.NATIVE

"""The decision whether a query answers its question: every content word must be in it, or is named.

A word that only was not understood is named beside the figures. Where leaving it out would answer another question (a
measure, condition, frequency or period), there are no figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import is_chinese, normal
from fathom.services.datafetch.parser.lexicon import cue, is_decisive, list_words, load
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.query.model import Frequency, Query, Statistic, Transform

# The density that a measure has by itself: rates of return and volatilities are per year.
OWN_DENSITY = {
    "cagr": Frequency.ANNUAL, "volatility": Frequency.ANNUAL, "yoy": Frequency.ANNUAL,
    "qoq": Frequency.QUARTERLY, "mom": Frequency.MONTHLY,
}  # fmt: skip
# Days of the longest period of each length.
LONGEST = {Frequency.MONTHLY: 31, Frequency.QUARTERLY: 92, Frequency.ANNUAL: 366}


@dataclass(frozen=True)
class Objection:
    """Words that a query leaves out; ``decisive`` when its figures would answer another question."""

    start: int
    end: int
    reason: str
    decisive: bool = False


def find_objections(text: str, mentions: Sequence[Mention], query: Query, layer: Layer) -> Iterator[Objection]:
    """Yield the words of a question that its query does not express, in their order."""
    specs = _list_specs(query, layer)
    expressed = _list_measures(query, specs)
    densities, counts = _list_densities(query, specs, expressed), _list_counts(query)
    marks = {mark for spec in specs for mark in re.findall(r"\((SA|NSA)", spec.unit)}
    spelt = " ".join(map(normal, _list_names(query, specs, layer)))
    # The catalog lists measures such as "moving average" as names of prices, their input.
    own = " ".join(map(normal, _list_names(query, [spec for spec in specs if not spec.default], layer)))
    asked = {item.value for item in mentions}
    # Whoever sees the figures of both periods can compare them.
    several = len(query.periods) > 1 and bool(query.statistics)
    paired = _find_pairing(mentions)
    if paired:
        yield Objection(*paired.span, "every name has a period of its own, and a query has one for all", decisive=True)
    if {Statistic.MAX, Statistic.MIN} <= set(query.statistics) and list_words("relations", "moves") & expressed:
        edge = next(item for item in mentions if item.value in ("max", "min"))
        yield Objection(*edge.span, "a move between two extremes is none of the whole period", decisive=True)
    for mention in mentions:
        words = normal(text[mention.start : mention.end])
        # "Unadjusted" is part of the name of the series that was taken.
        names = own if mention.kind == MentionKind.MEASURE else spelt
        if _is_in(words, names):
            continue
        if mention.kind == MentionKind.UNKNOWN:
            # A ranking by something that was not understood is another ranking.
            decisive = (is_decisive(words) and not (several and words in list_words("decisive", "comparison"))) or bool(
                query.order
            )
            # A time that is named by what happened in it, while the figures are of all times.
            ahead, behind = cue("of_event").search(text[: mention.start]), cue("event_behind").match(text, mention.end)
            decisive = decisive or bool((ahead or behind) and query.start is None and query.end is None)
            yield Objection(*mention.span, "no meaning of it is known here", decisive)
        elif mention.kind == MentionKind.CONDITION and mention.value == "base":
            yield Objection(*mention.span, "a move needs two points in time, and this is one", decisive=True)
        elif mention.kind == MentionKind.PARAMETER and mention.value not in marks:
            number = mention.value.partition(" ")[0]
            if number not in counts:
                # 12月 apart from its year is a month that no period holds.
                # A statistic over another stretch of time is another figure; "which three days" counts figures.
                listed = re.search(r"(?:\bwhich|哪)\s*$", text[: mention.start], re.I)
                stretch = (
                    bool(query.statistics)
                    and mention.value.endswith(tuple(list_words("relations", "lengths")))
                    and not listed
                )
                decisive = stretch or words.endswith(("月", "日", "号", "nsa"))
                yield Objection(*mention.span, "no measure takes this", decisive)
        elif mention.kind == MentionKind.FREQUENCY and mention.value not in densities:
            yield Objection(*mention.span, f"the figures are not {mention.value}", decisive=True)
        elif mention.kind == MentionKind.MEASURE and not _is_expressed(mention.value, expressed):
            if not query.statistics and not query.transform:
                if not is_computed(mention.value):
                    yield Objection(*mention.span, "the figures are the series it is computed from")
                elif not asked & list_words("relations", "series"):
                    yield Objection(*mention.span, "the figures are the series, not its measure")
            else:
                yield Objection(*mention.span, f"the figures are {', '.join(sorted(expressed))}", decisive=True)


def settle_measures(mentions: Sequence[Mention], query: Query, layer: Layer) -> list[Mention]:
    """Return the mentions, with words such as "worst" and "altogether" as the measure that is computed for them."""
    expressed = _list_measures(query, _list_specs(query, layer)) - {"price"}
    computed = expressed & frozenset(map(str, (*query.statistics, query.outer, query.transform)))
    settled = []
    for item in mentions:
        # A measure of its own stays as it was asked; what modifies one means the one that is computed.
        options = (
            set(load("relations")["expressed_by"].get(item.value, ())) & computed
            if item.kind == MentionKind.MEASURE
            else ()
        )
        modifies = (
            item.value not in expressed and len(options) == 1 and item.value in list_words("relations", "modifiers")
        )
        settled.append(replace(item, value=next(iter(options))) if modifies else item)
    return settled


def _is_in(words: str, names: str) -> bool:
    """Return whether words, in singular or plural, stand in the names; a number never does."""
    if is_chinese(words):
        return words in names
    pattern = rf"(?<!\w){re.escape(words.removesuffix('s'))}s?(?!\w)"
    return not words.isdecimal() and re.search(pattern, names) is not None


def join_adjacent(text: str, objections: Iterable[Objection]) -> list[Objection]:
    """Return the objections with neighbours as one phrase: "3 months before", 第二高."""
    joined: list[Objection] = []
    for item in sorted(objections, key=lambda item: item.start):
        last = joined[-1] if joined else None
        if last is not None and not text[last.end : item.start].strip():
            reason = item.reason if item.decisive and not last.decisive else last.reason
            joined[-1] = Objection(last.start, max(last.end, item.end), reason, last.decisive or item.decisive)
        else:
            joined.append(item)
    return joined


def _find_pairing(mentions: Sequence[Mention]) -> Mention | None:
    """Return the second period of names that each have a period of their own ("Apple in 2019, Oracle in 2020")."""
    named = [item for item in mentions if item.kind in (MentionKind.ENTITY, MentionKind.PERIOD)]
    turns = [item.kind for item in named]
    apart = len(turns) >= 4 and all(one != other for one, other in pairwise(turns))
    periods = [item for item in named if item.kind == MentionKind.PERIOD]
    return periods[1] if apart and len({item.value for item in periods}) > 1 else None


def is_computed(measure: str) -> bool:
    return measure in {*map(str, Statistic), *map(str, Transform)} | list_words("relations", "computed")


def _is_expressed(measure: str, expressed: frozenset[str]) -> bool:
    return not expressed.isdisjoint(load("relations")["expressed_by"].get(measure, [measure]))


def _list_measures(query: Query, specs: Sequence[IndicatorSpec]) -> frozenset[str]:
    """Return the measures that a query computes."""
    found = {str(item) for item in (*query.statistics, query.outer, query.transform, query.combination) if item}
    formulas = [*query.indicators, *(spec.formula for spec in specs)]
    found |= {name for text in formulas for name in re.findall(r"\b(yoy|qoq|mom|ttm)\(", text)}
    found |= {"ratio"} if any("/" in text for text in formulas) else set()
    found |= {"spread"} if any(" - " in text for text in formulas) else set()
    # One figure for each of several names is all that ranking them takes.
    ranked = query.order or query.kind or query.outer or (query.statistics and len(query.entities) > 1)
    found |= {"rank"} if ranked else set()
    # "Fell below" is a condition with a verb of moving.
    found |= list_words("relations", "moves") if query.filters else set()
    # A price names what the figures are, whatever is computed of them.
    found.add("price")
    return frozenset(found if query.statistics else found | list_words("relations", "plain"))


def _list_densities(query: Query, specs: Sequence[IndicatorSpec], expressed: frozenset[str]) -> frozenset[str]:
    """Return the frequencies that the figures have, that their statistics are of, or whose single period is asked."""
    found = {query.frequency, query.every, *(spec.frequency for spec in specs)}
    found |= {density for measure, density in OWN_DENSITY.items() if measure in expressed}
    if query.start and query.end:
        days = (query.end - query.start).days + 1
        found |= {density for density, longest in LONGEST.items() if days <= longest}
    return frozenset(map(str, found - {Frequency.NATIVE}))


def _list_counts(query: Query) -> frozenset[str]:
    """Return the numbers that say how many of something a query has: entities, indicators, years, rows."""
    found = {1, len(query.entities), len(query.indicators), len(query.periods), query.limit, query.tail}
    if query.start and query.end:
        found.add(query.end.year - query.start.year + 1)
        months = (query.end.year - query.start.year) * 12 + query.end.month - query.start.month + 1
        found |= {months, months // 3}
    return frozenset(map(str, found))


def _list_specs(query: Query, layer: Layer) -> list[IndicatorSpec]:
    """Return the indicators of a query, including those within formulas such as ``yoy(gdpc1)``."""
    names = dict.fromkeys(name for text in query.indicators for name in re.findall(r"[a-z]\w*", text))
    return [layer.indicators[name] for name in names if name in layer.indicators]


def _list_names(query: Query, specs: Sequence[IndicatorSpec], layer: Layer) -> Iterator[str]:
    """Yield the names and units of a query's indicators, and the names of its entities."""
    for spec in specs:
        yield from (spec.name, spec.name_zh, spec.unit, *layer.indicator_names.list_names(spec.id))
    for entity in (layer.entities[name] for name in query.entities if name in layer.entities):
        yield from (entity.name, entity.name_zh, *entity.aliases)

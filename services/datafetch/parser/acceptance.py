"""The decision whether a query answers its question: every content word must be in it, or is named.

A word that only was not understood is named beside the figures. Where leaving it out would answer another question (a
measure, condition, frequency or period), there are no figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fathom.domain.periods.period import measure_months
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import is_chinese, normal
from fathom.services.datafetch.parser.draft import list_specs
from fathom.services.datafetch.parser.lexicon import cue, is_decisive, list_words, load, says
from fathom.services.datafetch.parser.mention import Mention, MentionKind, is_free, select
from fathom.services.datafetch.query.model import Frequency, Query, Statistic, Transform

# What denies the word behind it, and the same with up to one word between them: "unadjusted", "not dividend-adjusted".
DENYING = r"(?:un|non-?|not\s+(?:\w+[\s-]+)?)"
DENIED = re.compile(rf"\b{DENYING}\w+")
# The first two characters of what is denied are enough: 复权 in 不复权.
DENYING_ZH = re.compile(r"([不未非无])..")
# Shorter words of a definition define nothing: "or", "for".
DEFINING = re.compile(r"[a-z]{5,}")
# What a unit says besides its name: whether it is seasonally adjusted, and the base year of an index.
UNIT_MARK = re.compile(r"(?<=\()(?:SA|NSA)|[\d-]+=100")
# Days of the longest period of each length.
LONGEST = {Frequency.MONTHLY: 31, Frequency.QUARTERLY: 92, Frequency.ANNUAL: 366}


@dataclass(frozen=True)
class Objection:
    """Words that a query leaves out; ``decisive`` when its figures would answer another question."""

    start: int
    end: int
    reason: str
    decisive: bool = False


def find_objections(text: str, mentions: Sequence[Mention], query: Query, layer: Layer) -> list[Objection]:
    """Return the words of a question that its query does not express, in order, neighbours as one phrase: 第二高."""
    found = sorted(_find_objections(text, mentions, query, layer), key=lambda item: item.start)
    joined: list[Objection] = []
    for item in found:
        last = joined[-1] if joined else None
        # Neighbours are one phrase to a reader, and the graver of two reasons is the one to give.
        if last is not None and not text[last.end : item.start].strip():
            reason = item.reason if item.decisive and not last.decisive else last.reason
            joined[-1] = Objection(last.start, max(last.end, item.end), reason, last.decisive or item.decisive)
        else:
            joined.append(item)
    return joined


def _find_objections(text: str, mentions: Sequence[Mention], query: Query, layer: Layer) -> Iterator[Objection]:
    specs = list_specs(query.indicators, layer)
    expressed, asked = _list_measures(query, specs), {item.value for item in mentions}
    counts = _list_counts(query).union(*(UNIT_MARK.findall(spec.unit) for spec in specs))
    # The catalog lists measures such as "moving average" as names of prices, their input.
    own = join_names([spec for spec in specs if not spec.default], query.entities, layer)
    names = {MentionKind.MEASURE: own}, join_names(specs, query.entities, layer)
    paired, is_single = _find_pairing(mentions), _has_single_value(query, specs)
    if paired:
        yield Objection(*paired.span, "every name has a period of its own, and a query has all for each", decisive=True)
    # "From the peak to the trough": a table of both extremes lacks the move between them, and the move that
    # it may have is the one from the first day to the last.
    extremes = {Statistic.MAX, Statistic.MIN}
    edges = [item for item in mentions if item.value in ("max", "min")]
    if extremes <= set(query.statistics) and list_words("relations", "moves") & expressed:
        yield Objection(*edges[0].span, "a move between two extremes is none of the whole period", decisive=True)
    elif edges and extremes & set(query.statistics) and is_single:
        yield Objection(*edges[0].span, "there is one value in this time, and no highest or lowest", decisive=True)
    # "Added on average per month" is the mean of twelve changes. The mean of the levels and the change of the
    # year stand beside each other here, and either looks like it.
    steps = select(mentions, MentionKind.FREQUENCY)
    if steps and Statistic.MEAN in query.statistics and list_words("relations", "moves") & set(query.statistics):
        yield Objection(*steps[0].span, "the mean is that of the values, and not of their moves", decisive=True)
    yield from _find_contradictions(text, mentions, specs)
    for mention in mentions:
        words = normal(text[slice(*mention.span)])
        # "Unadjusted" is part of the name of the series that was taken.
        if is_in(words, names[0].get(mention.kind, names[1])):
            continue
        if is_single and mention.value == Statistic.SUM and _is_of_one(text, mention, mentions, query, specs):
            continue
        reason, is_fatal = "", True
        # "Lately" beside a named period only colours it; alone it says of a move neither where it begins nor ends.
        is_vague = cue("vague_time").fullmatch(words) and query.start is None and query.end is None
        if is_vague and Statistic.LAST not in query.statistics:
            yield Objection(*mention.span, "it says no length of time, as 'the last 3 months' does", decisive=True)
            continue
        if mention.kind == MentionKind.UNKNOWN:
            reason = "no meaning of it is known here"
            is_fatal = _is_decisive_unknown(text, mention, query) or (
                all(spec.default for spec in specs) and _makes_other_price(text, mention, mentions, specs, query)
            )
        elif mention.kind == MentionKind.CONDITION and mention.value == "base":
            reason = "a move needs two points in time, and this is one"
        elif mention.kind == MentionKind.PARAMETER and not _is_counted(mention.value, counts, query):
            # A statistic over another stretch of time is another figure; "which three days" counts figures.
            is_listed = re.search(r"(?:\bwhich|哪)\s*$", text[: mention.start], re.I)
            is_length = mention.value.endswith(tuple(list_words("relations", "lengths"))) and not is_listed
            # 12月 apart from its year is a month that no period holds.
            is_fatal = bool(query.statistics and is_length) or words.endswith(("月", "日", "号", "nsa"))
            reason = "no measure takes this"
        elif mention.kind == MentionKind.FREQUENCY and mention.value not in _list_densities(query, specs, expressed):
            reason = f"the figures are not {mention.value}"
        elif mention.kind == MentionKind.MEASURE and expressed.isdisjoint(_list_options(mention.value)):
            is_lone = is_single and mention.value in set(Statistic)
            is_fatal = bool(query.statistics or query.transform or is_lone)
            reason = _explain_measure(mention.value, expressed, asked, is_computing=is_fatal, is_lone=is_lone)
        if reason:
            yield Objection(*mention.span, reason, is_fatal)


def _is_of_one(
    text: str, total: Mention, mentions: Sequence[Mention], query: Query, specs: Sequence[IndicatorSpec]
) -> bool:
    """Return whether a total is that of a single value of a year, which is the value: 2020年营业收入总共.

    The total of sales and other income is that of two, and one since January (累计) is more than a month's value.
    """
    if len(query.entities) != 1 or any(spec.frequency != Frequency.ANNUAL for spec in specs):
        return False
    before = [item for item in select(mentions, MentionKind.INDICATOR) if item.end <= total.start]
    # Right behind the first of several names it is said of that one alone: 营业收入总共和营业外收入.
    is_inner = len(before) == 1 and not text[before[0].end : total.start].strip()
    has_more = any(item.start >= total.end for item in select(mentions, MentionKind.INDICATOR))
    return len(query.indicators) == 1 or (is_inner and has_more)


def _is_decisive_unknown(text: str, mention: Mention, query: Query) -> bool:
    """Return whether a question is another one without a word that is unknown."""
    words = normal(text[slice(*mention.span)])
    # Whoever sees the figures of both periods can compare them.
    is_shown = len(query.periods) > 1 and query.statistics and words in list_words("decisive", "comparison")
    # A time that is named by what happened in it, while the figures are of all times.
    is_event = says("of_event", text[: mention.start]) or cue("event_behind").match(text, mention.end)
    is_timeless = query.start is None and query.end is None
    return bool((is_decisive(words) and not is_shown) or (is_event and is_timeless))


def _find_contradictions(text: str, mentions: Sequence[Mention], specs: Sequence[IndicatorSpec]) -> Iterator[Objection]:
    """Yield words that deny what a measure is by its definition: "unadjusted", "not dividend-adjusted", 不复权.

    What a definition denies itself is no part of it: "not seasonally adjusted".
    """
    names = select(mentions, MentionKind.ENTITY, MentionKind.INDICATOR)
    for spec in specs:
        defined = DENIED.sub(" ", normal(f"{spec.name} {spec.definition} {spec.basis}"))
        words = "|".join(sorted({re.escape(word) for word in DEFINING.findall(defined)}))
        found = list(re.finditer(rf"\b({DENYING})(?:{words})\b", text, re.I)) if words else []
        found += [match for match in DENYING_ZH.finditer(text) if match[0][1:] in spec.name_zh]
        # "Unemployment" is a name, and denies no employment.
        denied = [match.span() for match in found if is_free(match.span(1), names)]
        yield from (Objection(*span, f"the figures are the {spec.name}", decisive=True) for span in denied)


def _makes_other_price(
    text: str, mention: Mention, mentions: Sequence[Mention], specs: Sequence[IndicatorSpec], query: Query
) -> bool:
    """Return whether an unread word makes another price of the ones that a query has: "bid price", "did it open at".

    It stands right before their name, or the price of a day is asked, which is one figure. A compound of words of the
    definition says nothing new: "split-adjusted".
    """
    parts = re.split(r"[\s-]+", normal(text[slice(*mention.span)]))
    defined = normal(" ".join(f"{spec.name} {spec.name_zh} {spec.definition}" for spec in specs))
    # Words of the definition itself say what the price is anyway.
    if len(parts) > 1 and all(is_in(part, defined) for part in parts):
        return False
    # "Bid price" is another price; "Zorbly, the price of" is not.
    behind = [item for item in mentions if item.start >= mention.end and not text[mention.end : item.start].strip(" -")]
    is_attribute = any(item.kind == MentionKind.INDICATOR for item in behind)
    return is_attribute or (_has_single_value(query, specs) and not query.statistics)


def _explain_measure(measure: str, expressed: set[str], asked: set[str], *, is_computing: bool, is_lone: bool) -> str:
    """Return why figures are no asked measure; "" where its reader computes it from the series that was asked for.

    A single figure would be taken for the measure.
    """
    if is_lone:
        return "there is one value in this time, from which it is not computed"
    if is_computing:
        return f"the figures are {', '.join(sorted(expressed))}"
    if measure not in {*map(str, Statistic), *map(str, Transform)} | list_words("relations", "computed"):
        return "the figures are the series it is computed from"
    return "" if asked & list_words("relations", "series") else "the figures are the series, not its measure"


def _has_single_value(query: Query, specs: Sequence[IndicatorSpec]) -> bool:
    """Return whether the period of a query holds one value of each series."""
    if query.start is None or query.end is None or not specs:
        return False
    # Weekends and holidays make a month or a week shorter, never longer.
    days = (query.end - query.start).days + 1
    shortest = {Frequency.DAILY: 1, Frequency.WEEKLY: 7, **LONGEST}
    return all(days <= shortest.get(query.frequency or spec.frequency, 0) for spec in specs)


def is_in(words: str, names: str) -> bool:
    """Return whether words, in singular or plural, stand in the names; a number never does."""
    if is_chinese(words):
        # A single character is what is left of a longer word that was not read: 国 of 中国.
        return len(words) > 1 and words in names
    # Whole words only: a rate is no part of an exchange.
    pattern = rf"(?<!\w){re.escape(words.removesuffix('s'))}s?(?!\w)"
    return not words.isdecimal() and re.search(pattern, names) is not None


def _find_pairing(mentions: Sequence[Mention]) -> Mention | None:
    """Return the second period of names that each have a period of their own ("Apple in 2019, Oracle in 2020")."""
    named, periods = select(mentions, MentionKind.ENTITY, MentionKind.PERIOD), select(mentions, MentionKind.PERIOD)
    # "Apple and Oracle in 2019 and 2020" pairs nothing: each name has both periods.
    is_turning = len(named) >= 4 and all(one.kind != other.kind for one, other in pairwise(named))
    return periods[1] if is_turning and len({item.value for item in periods}) > 1 else None


def _list_options(measure: str) -> list[str]:
    """Return the measures that a query may express a measure by."""
    options: list[str] = load("relations")["expressed_by"].get(measure, [measure])
    return options


def _list_measures(query: Query, specs: Sequence[IndicatorSpec]) -> set[str]:
    """Return the measures that a query computes."""
    # A price names what the figures are, whatever is computed of them.
    found = {"price", *map(str, filter(None, (*query.statistics, query.transform)))}
    formulas = " ; ".join([*query.indicators, *(spec.formula for spec in specs)])
    found.update(re.findall(r"\b(yoy|qoq|mom|ttm)\(", formulas))
    found |= {"ratio"} if "/" in formulas else set()
    found |= {"spread"} if " - " in formulas else set()
    # One figure for each of several names is all that ranking them takes.
    found |= {"rank"} if query.statistics and len(query.entities) > 1 else set()
    return found if query.statistics else found | list_words("relations", "plain")


def _list_densities(query: Query, specs: Sequence[IndicatorSpec], expressed: set[str]) -> set[str]:
    """Return the frequencies that the figures have, that their statistics are of, or whose single period is asked."""
    found = {query.frequency, query.every, *(spec.frequency for spec in specs)} - {Frequency.NATIVE}
    # An annualised return is one figure a year, though its price is daily.
    found |= {Frequency(density) for measure, density in load("relations")["densities"].items() if measure in expressed}
    days = (query.end - query.start).days + 1 if query.start and query.end else max(LONGEST.values()) + 1
    return set(map(str, found | {density for density, longest in LONGEST.items() if days <= longest}))


def _is_counted(value: str, counts: set[str], query: Query) -> bool:
    """Return whether a query has a number, of which a length must have the unit as well: a year has no 12 days."""
    number, _, unit = value.partition(" ")
    if query.start is None or query.end is None or unit not in list_words("relations", "lengths"):
        return not {value, number}.isdisjoint(counts)
    days, months = (query.end - query.start).days + 1, measure_months(query.start, query.end)
    years = query.end.year - query.start.year + 1
    covered = {"days": days, "weeks": days / 7, "months": months, "quarters": months / 3, "years": years}
    # Rows are counted whatever they are of.
    return number in map(str, (query.limit, query.tail, len(query.periods))) or float(number) == covered.get(unit)


def _list_counts(query: Query) -> set[str]:
    """Return the numbers that say how many of something a query has: entities, indicators, years, rows."""
    found = {1, len(query.entities), len(query.indicators), len(query.periods), query.limit, query.tail}
    return set(map(str, found))


def join_names(specs: Iterable[IndicatorSpec], entities: Iterable[str], layer: Layer) -> str:
    """Return the names and units of indicators, and the names of entities, in one text."""
    named = ((spec.name, spec.name_zh, spec.unit, *layer.indicator_names.list_names(spec.id)) for spec in specs)
    named_entities = (layer.entities[name] for name in entities if name in layer.entities)
    owners = ((entity.name, entity.name_zh, *entity.aliases) for entity in named_entities)
    return " ".join(normal(name) for names in (*named, *owners) for name in names)

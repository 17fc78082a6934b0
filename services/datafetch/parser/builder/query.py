"""The builder of queries: from the mentions of a question to a typed query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

from fathom.domain.periods.period import find_month_end, shift_months
from fathom.services.datafetch.parser.builder.changes import build_measures
from fathom.services.datafetch.parser.builder.filters import apply_conditions
from fathom.services.datafetch.parser.builder.statistics import VALUES, build_statistics
from fathom.services.datafetch.parser.draft import Draft, is_rate
from fathom.services.datafetch.parser.lexicon import cue, cues
from fathom.services.datafetch.parser.mention import MentionKind, select
from fathom.services.datafetch.parser.operators import ORDER, Ranking, find_density
from fathom.services.datafetch.parser.periods import Reading
from fathom.services.datafetch.query.model import Basis, Combination, Frequency, Missing, Query, Statistic, Transform
from fathom.services.datafetch.query.periods import MONTHS_OF, Period, in_fiscal, split
from fathom.services.datafetch.query.units import parse_unit

STEP_MONTHS = {Transform.YOY: 12, Transform.QOQ: 3, Transform.MOM: 1}
# Statistics that people compare between two periods without saying "each": one over both would be no answer.
EACH_PERIOD = {Statistic.LAST, Statistic.RETURN, Statistic.SUM, Statistic.MEAN, Statistic.CHANGE}
BETWEEN_DATES = {Statistic.RETURN, Statistic.CHANGE, Statistic.CAGR}


def build_query(draft: Draft) -> Query:
    """Return the typed query of a question; what it cannot express is added to ``draft.missing``."""
    entities, ranking, reading = draft.entities, draft.ranking, draft.reading
    names, transform = build_measures(draft)
    crossed = _is_cross(draft, entities, names)
    if crossed and _is_first_priced(draft):
        entities = entities[::-1]
    wanted = build_statistics(draft, names, transform, draft.text_unranked)
    statistics = wanted.statistics
    if ranking:
        # Only the default indicator (the price) is ranked by a statistic of its period; others are ranked by their
        # value.
        single = all(spec.default for spec in map(draft.layer.indicators.get, names) if spec)
        statistics = _choose_ranked(draft.text, statistics, ranking) if single else ()
    first = draft.layer.entities[entities[0]] if entities else None
    period = in_fiscal(reading.whole, draft.layer.get_calendar(first))
    if transform in STEP_MONTHS:
        reading, period = _drop_base_period(reading, period, transform)
    if set(statistics) & BETWEEN_DATES:
        reading, period = _join_points(draft.text, reading, period)
        period = _start_at_base(draft, reading, period, names)
    combination = Combination.NONE if crossed else _combine(draft, entities, names)
    query = Query(
        # The rate of the one for the other is that of the first in the other's money.
        tuple(entities[:1] if crossed else entities),
        # Without indicators nothing is fetched: an answer for other dates than the impossible one would mislead.
        () if reading.impossible else tuple(dict.fromkeys(names)),
        period.start,
        period.end,
        _choose_frequency(draft, names, transform, combination, statistics),
        transform=transform,
        unit=_choose_unit(draft, names, transform, statistics, crossed=crossed),
        currency=entities[1] if crossed else "" if transform in STEP_MONTHS else draft.currency,
        statistics=statistics,
        combination=combination,
        periods=() if wanted.every else _list_ranges(reading.periods, period, draft.text, statistics),
        tail=0 if statistics else max((p.rows for p in reading.periods), default=0),
        basis=Basis.FISCAL if period.fiscal else Basis.CALENDAR,
        every=wanted.every,
        outer=wanted.outer,
        limit=wanted.count,
    )
    query = _limit_rows(draft, query, reading)
    if ranking and draft.indicators and query.indicators:
        query = _rank(query, ranking, draft.indicators[0].value, draft.text)
    elif not query.statistics and len(query.indicators) == 1 and query.indicators[0] in draft.layer.indicators:
        way = next((value for value, words in cues("orders").items() if words.search(draft.text)), "")
        query = replace(query, order=query.indicators[0] if way else "", descending=way == "descending")
    return apply_conditions(draft, query) if draft.conditions else query


def _is_cross(draft: Draft, entities: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a rate between two other currencies than the euro is asked for.

    Every rate is stored per euro, so it is the quotient of two series.
    """
    kinds = [draft.layer.entities[ident].kind for ident in entities]
    asked = kinds == ["currency"] * 2 and list(names) == ["eur_rate"]
    return asked and bool(cue("per").search(draft.text)) and not cue("euro_currency").search(draft.text)


def _is_first_priced(draft: Draft) -> bool:
    """Return whether the first of two currencies is the one being priced: "USD/JPY" is yen per dollar."""
    # Without "one" the first currency is the one priced, unless "per" or 每 says that it prices the other.
    for item in select(draft.mentions, MentionKind.ENTITY):
        if re.search(rf"(?:一|1|\bone)\s*{re.escape(draft.text[item.start : item.end])}", draft.text):
            return item.value == draft.entities[0]
    return not re.search(r"\bper\b|每(?!个?(?:交易|[日天周月季年]))", draft.text)


def _drop_base_period(reading: Reading, period: Period, transform: Transform) -> tuple[Reading, Period]:
    """Keep the later of two periods that lie exactly one step of the transform apart.

    "Q4 against Q3: quarterly growth" asks for the growth of Q4; Q3 is only its base. So is the first of "inflation over
    the year to March", which is the rate of March.
    """
    if len(reading.periods) == 1 and period.is_length and period.start and period.end:
        is_step = shift_months(period.end + timedelta(days=1), STEP_MONTHS[transform]) == period.start
        last = replace(period, start=period.end.replace(day=1), grain=Frequency.NATIVE)
        return (replace(reading, periods=(last,)), last) if is_step else (reading, period)
    if len(reading.periods) != 2:
        return reading, period
    one, two = sorted(reading.periods, key=lambda item: item.start or date.min)
    # Fiscal periods are not shifted to calendar dates yet and cannot be compared.
    if one.end is None or two.end is None or one.grain != two.grain or one.fiscal:
        return reading, period
    months = (two.end.year - one.end.year) * 12 + two.end.month - one.end.month
    return (replace(reading, periods=(two,)), two) if months == STEP_MONTHS[transform] else (reading, period)


def _join_points(text: str, reading: Reading, period: Period) -> tuple[Reading, Period]:
    """Convert two compared points into one range: "April against February", "end of 2015 to end of 2022"."""
    if len(reading.periods) == 2:
        # Open ends sort last, and None must not be compared with dates.
        one, other = sorted(reading.periods, key=lambda p: (p.end is None, p.end, p.start is None, p.start))
        points = one.grain == other.grain and one.grain in (Frequency.MONTHLY, Frequency.QUARTERLY, Frequency.DAILY)
        first, last = sorted(p.span for p in reading.periods)
        listed = any(p.listed for p in reading.periods)
        joined = cue("compared").search(text[first[1] : last[0]]) or (
            listed and cue("between_points").search(text[first[0] : last[1]])
        )
        if points and one.end and other.end and joined:
            # The change from February to April starts at February's last value.
            period = Period(one.end if one.grain != Frequency.DAILY else one.start, other.end)
            reading = replace(reading, periods=(period,))
    start = period.start
    # A change is measured from the last value before its start, so a start at a month's end moves to the next day.
    if start is not None and period.end != start and start == find_month_end(start.year, start.month):
        period = replace(period, start=start + timedelta(days=1))
    return reading, period


def _start_at_base(draft: Draft, reading: Reading, period: Period, names: Sequence[str]) -> Period:
    """Start a range of several quarters or years at the end of its first period, the base of the change."""
    specs = [draft.layer.indicators[name] for name in names if name in draft.layer.indicators]
    whole = reading.whole
    open_ended = period.start is None or period.end is None or whole.relative or whole.cumulative
    # "Over the twelve months to June" counts from the June before, which lies outside.
    open_ended = open_ended or whole.is_length
    if len(reading.periods) != 1 or whole.grain not in MONTHS_OF or open_ended:
        return period
    if not specs or any(spec.frequency != whole.grain for spec in specs):
        return period
    first = split(period, whole.grain)
    return replace(period, start=first[0].end) if len(first) > 1 else period


def _combine(draft: Draft, entities: Sequence[str], names: Sequence[str]) -> Combination:
    """Return how two series are combined; a spread of two different units is reported."""
    if len(entities) * len(names) != 2 and (entities or len(names) != 2):
        return Combination.NONE
    if not cue("combinations.spread").search(draft.text):
        return Combination.RATIO if cue("combinations.ratio").search(draft.text) else Combination.NONE
    specs = [spec for spec in map(draft.layer.indicators.get, names) if spec]
    # Rates in per cent and in percentage points can be subtracted.
    units = {"%" if is_rate(spec) else _strip_scale(spec.unit) for spec in specs}
    if len(specs) != 2 or len(names) != 2 or len(units) == 1:
        return Combination.SPREAD
    shown = " and ".join(f"{spec.name} ({spec.unit})" for spec in specs)
    said = f"{shown} have different units: there is no difference between them"
    draft.missing.append(Missing(shown, "NO_MATCH", said, aspect="mixed units"))
    return Combination.NONE


def _strip_scale(unit: str) -> str:
    """Return a unit without scale and seasonal adjustment: "Bil. of $ (SAAR)" and "Mil. of $ (SA)" are both "$"."""
    return re.sub(r"^(?:Bil|Mil|Thous)\. of |U\.S\. |\s*\((?:SAAR|SA|NSA)\)$", "", unit)


def _choose_frequency(
    draft: Draft,
    names: Sequence[str],
    transform: Transform,
    combination: Combination,
    statistics: Sequence[Statistic],
) -> Frequency:
    """Return the frequency that the combination or transform requires, or that the question asks for."""
    if combination in (Combination.SPREAD, Combination.RATIO):
        densities = {spec.frequency for spec in draft.find_specs(names)}
        # Values of different dates cannot be subtracted: the finer series is resampled to the coarser frequency.
        if len(densities) > 1:
            return max(densities, key=ORDER.index)
    if transform in (Transform.QOQ, Transform.MOM):
        return Frequency.QUARTERLY if transform == Transform.QOQ else Frequency.MONTHLY
    # Statistics have no output frequency.
    return Frequency.NATIVE if statistics else find_density(draft.blank_names(draft.text))


def _choose_unit(
    draft: Draft, names: Sequence[str], transform: Transform, statistics: Sequence[Statistic], *, crossed: bool
) -> str:
    """Return the unit of the answer; a change of rates may be asked for in basis points."""
    specs = [draft.layer.indicators.get(name) for name in names]
    rates = bool(specs) and all(spec is not None and is_rate(spec) for spec in specs)
    if rates and tuple(statistics) == (Statistic.CHANGE,) and cue("basis").search(draft.text):
        return "basis points"
    read = parse_unit(draft.unit) if draft.unit else None
    if transform in STEP_MONTHS and not (read is not None and read.fraction > 0):
        # "Revenue in million yuan and its growth": an amount's unit says nothing of a rate.
        return ""
    # A unit converts the values below a statistic: "return in %" must not ask for prices in per cent.
    below = set(statistics) - {Statistic.CHANGE} - VALUES and read is not None and read.fraction > 0
    return "" if crossed or below else draft.unit


def _list_ranges(
    periods: Sequence[Period], whole: Period, text: str, statistics: Sequence[Statistic]
) -> tuple[tuple[date, date], ...]:
    """Return the ranges of periods listed one by one ("2021 against 2019"), or ``()`` when one range covers them all.

    Ranges are returned if there is a gap between them. Adjacent ones are returned only if a statistic is asked for
    each: the question says so ("respectively"), or all statistics are in ``EACH_PERIOD``.
    """
    named = sorted(
        # A single day is kept only if it was listed: otherwise it is the bound of a range.
        (p.start, p.end)
        for p in periods
        if p.start and p.end and not p.fiscal and (p.start != p.end or p.listed)
    )
    if len(named) < 2 or len(named) != len(periods) or whole.fiscal:
        return ()
    # Adjacent periods (2020 and 2021) are one range for a series, without a day lost between them.
    gaps = any((later[0] - earlier[1]).days > 1 for earlier, later in pairwise(named))
    first, last = min(p.span for p in periods), max(p.span for p in periods)
    each = (
        statistics
        and (all(p.listed for p in periods) or cue("compared").search(text[first[1] : last[0]]))
        and (cue("severally").search(text) is not None or set(statistics) <= EACH_PERIOD)
    )
    return tuple(named) if gaps or each else ()


def _limit_rows(draft: Draft, query: Query, reading: Reading) -> Query:
    """Limit the query to the first or last day of its period, or to the newest n values of a regular series."""
    # "The last day of each month" is a frequency, not one row.
    if query.statistics or cue("each").search(draft.asked):
        return query
    if any(period.edge == "start" for period in reading.periods):
        return replace(query, limit=1)
    if len(reading.periods) != 1:
        return query
    period = reading.periods[0]
    specs = draft.find_specs(query.indicators)
    regular = specs and all(MONTHS_OF.get(spec.frequency) == period.step for spec in specs)
    if query.transform or query.periods or query.start is None or not period.steps or not regular:
        return query
    # Unpublished periods have no value, so the newest n values reach further back.
    return replace(query, start=shift_months(query.start, 6 + period.step), tail=period.steps)


def _choose_ranked(text: str, found: Sequence[Statistic], ranking: Ranking) -> tuple[Statistic, ...]:
    """Return the one statistic to rank by; "best performing" is ranked by return.

    Otherwise it is ``LAST`` if that is asked for or the ranking covers all entities, else the lowest or highest value
    of the period.
    """
    fitting = [item for item in found if item not in (Statistic.MAX, Statistic.MIN, Statistic.LAST)]
    if fitting:
        return (fitting[0],)
    # "Which stock rose most", 表现最好: a move without the name of a statistic is ranked by return.
    if cue("moving").search(text):
        return (Statistic.RETURN,)
    if Statistic.LAST in found or not ranking.count:
        return (Statistic.LAST,)
    return (Statistic.MIN if ranking.low else Statistic.MAX,)


def _rank(query: Query, ranking: Ranking, indicator: str, text: str) -> Query:
    """Return the query over all entities of the kind, ordered by an indicator or by the statistic of its period."""
    returned = query.statistics[:1] == (Statistic.RETURN,)
    # The greatest loss and the greatest drawdown are the lowest numbers.
    falls = query.statistics[:1] == (Statistic.DRAWDOWN,) or (returned and cue("losers").search(text) is not None)
    if returned and ranking.kind == "currency" and cue("strength").search(text):
        # Rates are units per euro: the currency that has risen most has the rate that fell most.
        falls = not cue("weakness").search(text)
    low = ranking.low != falls or (falls and ranking.low and cue("worst").search(text) is not None)
    return replace(query, kind=ranking.kind, order=indicator, descending=not low, limit=ranking.count)

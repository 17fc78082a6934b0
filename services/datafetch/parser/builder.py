"""The builder of queries: from the mentions of a question to a typed query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from itertools import pairwise

from fathom.domain.periods.period import count_months, find_month_end, shift_months
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.parser.draft import Draft, is_rate
from fathom.services.datafetch.parser.filters import apply_conditions
from fathom.services.datafetch.parser.lexicon import choose, says
from fathom.services.datafetch.parser.measures import VALUES, build_series, build_statistics
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
    names, transform = build_series(draft)
    return apply_conditions(draft, _Builder(draft, names, transform).build())


@dataclass
class _Builder:
    """The parts of one query, each from the mentions of its question and the parts that come before it."""

    draft: Draft
    names: Sequence[str]
    transform: Transform

    def __post_init__(self) -> None:
        self.text = self.draft.text
        self.wanted = build_statistics(self.draft, self.names, self.transform)
        self.statistics = self._choose_statistics()
        self.reading, self.period = self._choose_period()

    def build(self) -> Query:
        draft, transform, statistics = self.draft, self.transform, self.statistics
        entities = draft.entities[::-1] if self.is_cross and self._is_first_priced() else draft.entities
        combination = Combination.NONE if self.is_cross else self._combine()
        query = Query(
            # The rate of the one for the other is that of the first in the other's money.
            tuple(entities[:1] if self.is_cross else entities),
            # Without indicators nothing is fetched: an answer for other dates than the impossible one would mislead.
            () if self.reading.impossible else tuple(dict.fromkeys(self.names)),
            self.period.start,
            self.period.end,
            self._choose_frequency(combination),
            transform=transform,
            unit=self._choose_unit(),
            currency=entities[1] if self.is_cross else "" if transform in STEP_MONTHS else draft.currency,
            statistics=statistics,
            combination=combination,
            periods=() if self.wanted.every else self._list_ranges(),
            tail=0 if statistics else max((p.rows for p in self.reading.periods), default=0),
            basis=Basis.FISCAL if self.period.fiscal else Basis.CALENDAR,
            every=self.wanted.every,
            outer=self.wanted.outer,
            limit=self.wanted.count,
        )
        query = self._limit_rows(query)
        if draft.ranking and draft.indicators and query.indicators:
            return self._rank(query, draft.ranking, draft.indicators[0].value)
        if not query.statistics and len(query.indicators) == 1 and query.indicators[0] in draft.layer.indicators:
            way = choose("orders", self.text)
            query = replace(query, order=query.indicators[0] if way else "", descending=way == "descending")
        return query

    @cached_property
    def specs(self) -> list[IndicatorSpec]:
        """Return the named indicators that are no formulas."""
        return [spec for name in self.names if (spec := self.draft.layer.indicators.get(name))]

    @cached_property
    def is_cross(self) -> bool:
        """Return whether a rate between two other currencies than the euro is asked for.

        Every rate is stored per euro, so it is the quotient of two series.
        """
        kinds = [self.draft.layer.entities[ident].kind for ident in self.draft.entities]
        is_asked = kinds == ["currency"] * 2 and list(self.names) == ["eur_rate"]
        return is_asked and says("per", self.text) and not says("euro_currency", self.text)

    def _is_first_priced(self) -> bool:
        """Return whether the first of two currencies is the one being priced: "USD/JPY" is yen per dollar."""
        # Without "one" the first currency is the one priced, unless "per" or 每 says that it prices the other.
        for item in select(self.draft.mentions, MentionKind.ENTITY):
            if re.search(rf"(?:一|1|\bone)\s*{re.escape(self.text[item.start : item.end])}", self.text):
                return item.value == self.draft.entities[0]
        return not re.search(r"\bper\b|每(?!个?(?:交易|[日天周月季年]))", self.text)

    def _choose_statistics(self) -> tuple[Statistic, ...]:
        """Return the statistics, of a ranking the one to rank by."""
        found, ranking = self.wanted.statistics, self.draft.ranking
        if not ranking:
            return found
        # Only the default indicator (the price) is ranked by a statistic of its period; others are ranked by their
        # value.
        if not all(spec.default for spec in self.specs):
            return ()
        fitting = [item for item in found if item not in (Statistic.MAX, Statistic.MIN, Statistic.LAST)]
        if fitting:
            return (fitting[0],)
        # "Which stock rose most", 表现最好: a move without the name of a statistic is ranked by return.
        if says("moving", self.text):
            return (Statistic.RETURN,)
        if Statistic.LAST in found or not ranking.count:
            return (Statistic.LAST,)
        return (Statistic.MIN if ranking.low else Statistic.MAX,)

    def _choose_period(self) -> tuple[Reading, Period]:
        """Return the periods as the measures take them, and the one from the first to the last day."""
        entities, layer, reading = self.draft.entities, self.draft.layer, self.draft.reading
        period = in_fiscal(reading.whole, layer.get_calendar(layer.entities[entities[0]] if entities else None))
        later = _drop_base_period(reading.periods, period, STEP_MONTHS.get(self.transform, 0))
        if later is not None:
            reading, period = replace(reading, periods=(later,)), later
        if BETWEEN_DATES.isdisjoint(self.statistics):
            return reading, period
        joined = _join_points(self.text, reading.periods)
        if joined is not None:
            reading, period = replace(reading, periods=(joined,)), joined
        start = period.start
        # A change is measured from the last value before its start, so a start at a month's end moves to the next day.
        if start is not None and period.end != start and start == find_month_end(start.year, start.month):
            period = replace(period, start=start + timedelta(days=1))
        return reading, self._start_at_base(reading, period)

    def _start_at_base(self, reading: Reading, period: Period) -> Period:
        """Start a range of several quarters or years at the end of its first period, the base of the change."""
        whole = reading.whole
        # "Over the twelve months to June" counts from the June before, which lies outside.
        is_open = None in (period.start, period.end) or whole.relative or whole.cumulative or whole.is_length
        is_stored = bool(self.specs) and all(spec.frequency == whole.grain for spec in self.specs)
        if len(reading.periods) != 1 or whole.grain not in MONTHS_OF or is_open or not is_stored:
            return period
        first, *more = split(period, whole.grain)
        return replace(period, start=first.end) if more else period

    def _combine(self) -> Combination:
        """Return how two series are combined; a spread of two different units is reported."""
        entities, names, specs = self.draft.entities, self.names, self.specs
        if len(entities) * len(names) != 2 and (entities or len(names) != 2):
            return Combination.NONE
        found = Combination(choose("combinations", self.text))
        # Rates in per cent and in percentage points can be subtracted.
        units = {"%" if is_rate(spec) else _strip_scale(spec.unit) for spec in specs}
        if found != Combination.SPREAD or len(specs) != 2 or len(names) != 2 or len(units) == 1:
            return found
        shown = " and ".join(f"{spec.name} ({spec.unit})" for spec in specs)
        said = f"{shown} have different units: there is no difference between them"
        self.draft.missing.append(Missing(shown, "NO_MATCH", said, aspect="mixed units"))
        return Combination.NONE

    def _choose_frequency(self, combination: Combination) -> Frequency:
        """Return the frequency that the combination or transform requires, or that the question asks for."""
        densities = {spec.frequency for spec in self.draft.find_specs(self.names)}
        # Values of different dates cannot be subtracted: the finer series is resampled to the coarser frequency.
        if combination and len(densities) > 1:
            return max(densities, key=ORDER.index)
        if self.transform in (Transform.QOQ, Transform.MOM):
            return Frequency.QUARTERLY if self.transform == Transform.QOQ else Frequency.MONTHLY
        # Statistics have no output frequency.
        return Frequency.NATIVE if self.statistics else find_density(self.draft.blank_names(self.text))

    def _choose_unit(self) -> str:
        """Return the unit of the answer; a change of rates may be asked for in basis points."""
        is_rates = len(self.specs) == len(self.names) > 0 and all(map(is_rate, self.specs))
        if is_rates and tuple(self.statistics) == (Statistic.CHANGE,) and says("basis", self.text):
            return "basis points"
        if not self.draft.unit and self._mixes_rates():
            return "%"
        unit = parse_unit(self.draft.unit) if self.draft.unit else None
        is_share = unit is not None and unit.fraction > 0
        if self.transform in STEP_MONTHS and not is_share:
            # "Revenue in million yuan and its growth": an amount's unit says nothing of a rate.
            return ""
        # A unit converts the values below a statistic: "return in %" must not ask for prices in per cent.
        is_below = is_share and set(self.statistics) - {Statistic.CHANGE} - VALUES
        return "" if self.is_cross or is_below else self.draft.unit

    def _mixes_rates(self) -> bool:
        """Return whether rates of change stand beside stored rates in per cent: inflation beside an interest rate."""
        # A fraction beside per cent cannot be compared at a glance, nor drawn on one axis.
        is_change = [name.partition("(")[0] in STEP_MONTHS for name in self.names]
        return any(is_change) and len(self.specs) == is_change.count(False) > 0 and all(map(is_rate, self.specs))

    def _list_ranges(self) -> tuple[tuple[date, date], ...]:
        """Return the ranges of periods listed one by one ("2021 against 2019"), or ``()`` when one covers them all.

        Ranges are returned if there is a gap between them. Adjacent ones are returned only if a statistic is asked for
        each: the question says so ("respectively"), or all statistics are in ``EACH_PERIOD``.
        """
        periods, text = self.reading.periods, self.text
        named = sorted(
            # A single day is kept only if it was listed: otherwise it is the bound of a range.
            (p.start, p.end)
            for p in periods
            if p.start and p.end and not p.fiscal and (p.start != p.end or p.listed)
        )
        if len(named) < 2 or len(named) != len(periods) or self.period.fiscal:
            return ()
        # Adjacent periods (2020 and 2021) are one range for a series, without a day lost between them.
        has_gaps = any((later[0] - earlier[1]).days > 1 for earlier, later in pairwise(named))
        between = text[min(p.span for p in periods)[1] : max(p.span for p in periods)[0]]
        is_compared = all(p.listed for p in periods) or says("compared", between)
        is_each = self.statistics and (says("severally", text) or EACH_PERIOD.issuperset(self.statistics))
        return tuple(named) if has_gaps or (is_compared and is_each) else ()

    def _limit_rows(self, query: Query) -> Query:
        """Limit the query to the first or last day of its period, or to the newest n values of a regular series."""
        periods = self.reading.periods
        # "The last day of each month" is a frequency, not one row.
        if query.statistics or says("each", self.draft.asked):
            return query
        if any(period.edge == "start" for period in periods):
            return replace(query, limit=1)
        if len(periods) != 1 or not periods[0].steps or query.transform or query.periods or query.start is None:
            return query
        densities = {MONTHS_OF.get(spec.frequency) for spec in self.draft.find_specs(query.indicators)}
        if densities != {periods[0].step}:
            return query
        # Unpublished periods have no value, so the newest n values reach further back.
        return replace(query, start=shift_months(query.start, 6 + periods[0].step), tail=periods[0].steps)

    def _rank(self, query: Query, ranking: Ranking, indicator: str) -> Query:
        """Return the query over all entities of the kind, ordered by an indicator or by the statistic of its period."""
        is_return = query.statistics[:1] == (Statistic.RETURN,)
        # The greatest loss and the greatest drawdown are the lowest numbers.
        is_fall = query.statistics[:1] == (Statistic.DRAWDOWN,) or (is_return and says("losers", self.text))
        if is_return and ranking.kind == "currency" and says("strength", self.text):
            # Rates are units per euro: the currency that has risen most has the rate that fell most.
            is_fall = not says("weakness", self.text)
        is_low = ranking.low != is_fall or (is_fall and ranking.low and says("worst", self.text))
        return replace(query, kind=ranking.kind, order=indicator, descending=not is_low, limit=ranking.count)


def _drop_base_period(periods: Sequence[Period], whole: Period, months: int) -> Period | None:
    """Return the later of two periods that lie exactly one step of a transform of ``months`` apart, or None.

    "Q4 against Q3: quarterly growth" asks for the growth of Q4; Q3 is only its base. So is the first of "inflation over
    the year to March", which is the rate of March.
    """
    if not months or not 1 <= len(periods) <= 2:
        return None
    if len(periods) == 1:
        if not whole.is_length or not whole.start or not whole.end:
            return None
        is_step = shift_months(whole.end + timedelta(days=1), months) == whole.start
        return replace(whole, start=whole.end.replace(day=1), grain=Frequency.NATIVE) if is_step else None
    one, two = sorted(periods, key=lambda item: item.start or date.min)
    # Fiscal periods are not shifted to calendar dates yet and cannot be compared.
    if one.end is None or two.end is None or one.grain != two.grain or one.fiscal:
        return None
    return two if count_months(two.end) - count_months(one.end) == months else None


def _join_points(text: str, periods: Sequence[Period]) -> Period | None:
    """Return two compared points as one range, or None: "April against February", "end of 2015 to end of 2022"."""
    if len(periods) != 2:
        return None
    # Open ends sort last, and None must not be compared with dates.
    one, other = sorted(periods, key=lambda p: (p.end is None, p.end, p.start is None, p.start))
    is_point = one.grain == other.grain and one.grain in (Frequency.MONTHLY, Frequency.QUARTERLY, Frequency.DAILY)
    first, last = sorted(p.span for p in periods)
    is_listed = any(p.listed for p in periods) and says("between_points", text[first[0] : last[1]])
    is_joined = is_listed or says("compared", text[first[1] : last[0]])
    if not is_point or not is_joined or not one.end or not other.end:
        return None
    # The change from February to April starts at February's last value.
    return Period(one.end if one.grain != Frequency.DAILY else one.start, other.end)


def _strip_scale(unit: str) -> str:
    """Return a unit without scale and seasonal adjustment: "Bil. of $ (SAAR)" and "Mil. of $ (SA)" are both "$"."""
    return re.sub(r"^(?:Bil|Mil|Thous)\. of |U\.S\. |\s*\((?:SAAR|SA|NSA)\)$", "", unit)

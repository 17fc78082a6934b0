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
from fathom.services.datafetch.parser.draft import Draft, is_rate, list_specs, report_not_understood
from fathom.services.datafetch.parser.lexicon import says
from fathom.services.datafetch.parser.measures import VALUES, build_series, find_length, find_statistics
from fathom.services.datafetch.parser.mention import MentionKind, select
from fathom.services.datafetch.parser.operators import find_density
from fathom.services.datafetch.parser.periods import Reading
from fathom.services.datafetch.query.model import Basis, Frequency, Query, Statistic, Transform
from fathom.services.datafetch.query.periods import MONTHS_OF, Period, in_fiscal, split
from fathom.services.datafetch.query.units import parse_unit

STEP_MONTHS = {Transform.YOY: 12, Transform.QOQ: 3, Transform.MOM: 1}
BETWEEN_DATES = {Statistic.RETURN, Statistic.CHANGE, Statistic.CAGR}


def build_query(draft: Draft) -> Query:
    """Return the typed query of a question; what it cannot express is added to ``draft.missing``."""
    names, transform = build_series(draft)
    return _Builder(draft, names, transform).build()


@dataclass
class _Builder:
    """The parts of one query, each from the mentions of its question and the parts that come before it."""

    draft: Draft
    names: Sequence[str]
    transform: Transform

    def __post_init__(self) -> None:
        self.text = self.draft.text
        # The period comes last: where a change begins depends on what is computed.
        self.statistics = find_statistics(self.draft, self.names, self.transform)
        self.reading, self.period = self._choose_period()

    def build(self) -> Query:
        draft, transform, statistics = self.draft, self.transform, self.statistics
        # A rate has the currency that is priced first, as "USD/JPY" is yen per dollar.
        entities = draft.entities[::-1] if self.is_cross and self._is_first_priced() else draft.entities
        is_refused = bool(self.reading.impossible) or self._has_lost_period()
        query = Query(
            # The rate of the one for the other is that of the first in the other's money.
            tuple(entities[:1] if self.is_cross else entities),
            # Without indicators nothing is fetched: an answer for other dates than the impossible one would mislead.
            () if is_refused else tuple(dict.fromkeys(self.names)),
            self.period.start,
            self.period.end,
            self._choose_frequency(),
            transform=transform,
            unit=self._choose_unit(),
            currency=entities[1] if self.is_cross else "" if transform in STEP_MONTHS else draft.currency,
            statistics=statistics,
            periods=self._list_ranges(),
            tail=0 if statistics else max((p.rows for p in self.reading.periods), default=0),
            basis=Basis.FISCAL if self.period.fiscal else Basis.CALENDAR,
            every=find_length(draft, self.names, statistics),
        )
        return self._limit_rows(query)

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
        # Beside other figures two currencies are two columns.
        is_asked = kinds == ["currency"] * 2 and list(self.names) == ["eur_rate"]
        return is_asked and says("per", self.text) and not says("euro_currency", self.text)

    def _is_first_priced(self) -> bool:
        """Return whether the first of two currencies is the one being priced: "USD/JPY" is yen per dollar."""
        # Without "one" the first currency is the one priced, unless "per" or 每 says that it prices the other.
        for item in select(self.draft.mentions, MentionKind.ENTITY):
            if re.search(rf"(?:一|1|\bone)\s*{re.escape(self.text[item.start : item.end])}", self.text):
                return item.value == self.draft.entities[0]
        return not re.search(r"\bper\b|每(?!个?(?:交易|[日天周月季年]))", self.text)

    def _choose_period(self) -> tuple[Reading, Period]:
        """Return the periods as the measures take them, and the one from the first to the last day."""
        entities, layer, reading = self.draft.entities, self.draft.layer, self.draft.reading
        period = in_fiscal(reading.whole, layer.get_calendar(layer.entities[entities[0]] if entities else None))
        # The base of a change over time is read by the transform itself.
        later = _drop_base_period(self.text, reading.periods, period, STEP_MONTHS.get(self.transform, 0))
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

    def _choose_frequency(self) -> Frequency:
        """Return the frequency that the transform requires, or that the question asks for."""
        if self.transform in (Transform.QOQ, Transform.MOM):
            return Frequency.QUARTERLY if self.transform == Transform.QOQ else Frequency.MONTHLY
        # Statistics have no output frequency.
        return Frequency.NATIVE if self.statistics else find_density(self.draft.blank_names(self.text))

    def _choose_unit(self) -> str:
        """Return the unit of the answer; a change of rates may be asked for in basis points."""
        is_rates = len(self.specs) == len(self.names) > 0 and all(map(is_rate, self.specs))
        # The points of "by how many basis points" are those of the answer, not of the stored rate.
        if is_rates and tuple(self.statistics) == (Statistic.CHANGE,) and says("basis", self.text):
            return "basis points"
        unit = parse_unit(self.draft.unit) if self.draft.unit else None
        is_share = unit is not None and unit.fraction > 0
        if self.transform in STEP_MONTHS and not is_share:
            # "Revenue in million yuan and its growth": an amount's unit says nothing of a rate.
            return ""
        # A unit converts the values below a statistic: "return in %" must not ask for prices in per cent.
        is_below = is_share and set(self.statistics) - {Statistic.CHANGE} - VALUES
        return "" if self.is_cross or is_below else self.draft.unit

    def _list_ranges(self) -> tuple[tuple[date, date], ...]:
        """Return the ranges of several periods, or ``()`` where one range has the values of all of them.

        Adjacent ones (2020 and 2021) are one range for a series, but not for a statistic of each.
        """
        # In the order of time, whatever the order of the words; the same range said twice is one.
        ranges = sorted({(p.start, p.end) for p in self.reading.periods if p.start and p.end and not p.fiscal})
        has_gaps = any((later[0] - earlier[1]).days > 1 for earlier, later in pairwise(ranges))
        # The drawdown "during 2008 and 2009" may begin in one year and end in the other.
        is_path = self.statistics == (Statistic.DRAWDOWN,) and not says("severally", self.text)
        return tuple(ranges) if len(ranges) > 1 and (has_gaps or (self.statistics and not is_path)) else ()

    def _has_lost_period(self) -> bool:
        """Return whether one of several periods has no figure of its own, and report it."""
        periods = self.reading.periods
        is_move = not BETWEEN_DATES.isdisjoint(self.statistics)
        lost = [
            period
            for period in periods
            # Rows are limited to the first of all of them. Fiscal periods have other days for each company, and an
            # open one has no last day to compute at. A move has two ends: one day that nothing joins to another has
            # none.
            if period.edge == "start"
            or (self.statistics and (not period.start or not period.end or period.fiscal))
            or (is_move and period.start == period.end)
        ]
        if len(periods) < 2 or not lost:
            return False
        words = self.text[slice(*lost[-1].span)]
        self.draft.missing.append(report_not_understood(words, "of several periods it has no figure of its own"))
        return True

    def _limit_rows(self, query: Query) -> Query:
        """Limit the query to the first or last day of its period, or to the newest n values of a regular series."""
        periods = self.reading.periods
        # "The last day of each month" is a frequency, not one row.
        if query.statistics or query.periods or says("each", self.text):
            return query
        if any(period.edge == "start" for period in periods):
            return replace(query, limit=1)
        if len(periods) != 1 or not periods[0].steps or query.transform or query.start is None:
            return query
        densities = {MONTHS_OF.get(spec.frequency) for spec in list_specs(query.indicators, self.draft.layer)}
        if densities != {periods[0].step}:
            return query
        # Unpublished periods have no value, so the newest n values reach further back.
        return replace(query, start=shift_months(query.start, 6 + periods[0].step), tail=periods[0].steps)


def _drop_base_period(text: str, periods: Sequence[Period], whole: Period, months: int) -> Period | None:
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
    first, last = sorted(period.span for period in periods)
    # "In June 2021 and June 2022" asks for both.
    if says("both", text[first[1] : last[0]]):
        return None
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
    # Two years are compared as wholes, two months or days as points.
    is_point = one.grain == other.grain and one.grain in (Frequency.MONTHLY, Frequency.QUARTERLY, Frequency.DAILY)
    first, last = sorted(p.span for p in periods)
    is_listed = any(p.listed for p in periods) and says("between_points", text[first[0] : last[1]])
    is_joined = is_listed or says("compared", text[first[1] : last[0]])
    if not is_point or not is_joined or not one.end or not other.end:
        return None
    # The change from February to April starts at February's last value.
    return Period(one.end if one.grain != Frequency.DAILY else one.start, other.end)

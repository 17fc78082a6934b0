"""Selection of values: statistics per group, changes between two points, newest values and filters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.names import Mention
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser.names.unmatched import Understanding
from fathom.services.datafetch.parser.operators import cue_words, grouping
from fathom.services.datafetch.parser.operators.changes import CHANGES
from fathom.services.datafetch.parser.operators.conditions import Bound, Conditions
from fathom.services.datafetch.parser.operators.extraction import Asked
from fathom.services.datafetch.parser.operators.grouping import Grouping
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query.model import Combination, Filter, Frequency, Missing, Query, Statistic, Transform
from fathom.services.datafetch.query.periods import Period, back, days_before, month_end, week_of
from fathom.services.datafetch.query.units import find_scale, parse_unit

MOVES = {Statistic.RETURN, Statistic.CHANGE}
SHARES = {Statistic.RETURN, Statistic.CAGR, Statistic.VOLATILITY, Statistic.DRAWDOWN}
# For values whose sign is turned: a fall of more than 5 % is a change below -5 %.
FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
BASIS = re.compile(r"个?基点|\bbasis points?\b|\bbps?\b", re.I | re.A)
COMPOUND = re.compile(r"年化|复合|\bcagr\b|compound|annuali[sz]ed", re.I | re.A)
ORDER = list(Frequency)


@dataclass(frozen=True)
class Wanted:
    """The statistics of a query.

    ``every`` is their period length, ``outer`` the statistic over these periods, ``count`` the number of periods to
    return.
    """

    statistics: tuple[Statistic, ...] = ()
    every: Frequency = Frequency.NATIVE
    outer: Statistic | None = None
    count: int = 0


class Selection:
    """An extractor of statistics, comparison points and filters for a query."""

    def __init__(self, layer: Layer, asked: Asked) -> None:
        self._layer, self._asked = layer, asked

    def wanted(
        self,
        shown: str,
        mentions: list[Mention],
        indicators: Sequence[str],
        reading: expressions.Reading,
        transform: Transform,
        nested: Grouping | None,
        asked: Conditions | None,
    ) -> Wanted:
        """Return the statistics of a question, including nested ones and those computed per group for conditions."""
        specs = [self._layer.indicators[name] for name in self._asked.stored(indicators)]
        # The finest of the series: a group must not be shorter than its values.
        native = min((spec.frequency for spec in specs), key=ORDER.index, default=Frequency.NATIVE)
        # A nested statistic of a growth rate would group changes of changes.
        if nested is not None and specs and not transform:
            inner = self._asked.fitting((nested.inner,), specs, shown)
            return Wanted(inner[:1], nested.every, nested.outer, nested.count) if inner else Wanted()
        statistics = self._asked.statistics(shown, mentions, indicators, reading, transform)
        # "Annual returns" asks for one return a year, not for the compound rate, unless a word says so.
        if statistics == (Statistic.CAGR,) and cue_words.density(shown) and not COMPOUND.search(shown):
            statistics = (Statistic.RETURN,)
        if asked is not None:
            return self._counted(asked, statistics, specs, native, transform)
        whole = reading.whole
        if set(statistics) and set(statistics) <= MOVES and native == Frequency.DAILY and whole.start is not None:
            # The return of one day needs the value of the day before, which only grouping by days reads.
            if whole.start == whole.end:
                return Wanted(statistics, Frequency.DAILY)
            if len(reading.periods) == 1 and whole.end is not None and week_of(whole.start) == (whole.start, whole.end):
                return Wanted(statistics, Frequency.WEEKLY)
        own = [(m.start, m.end) for m in mentions if not self._layer.indicators[m.ids[0]].default]
        every = grouping.each(blank(shown, own), statistics, native)
        return Wanted(statistics, every)

    def _counted(
        self,
        asked: Conditions,
        statistics: tuple[Statistic, ...],
        specs: Sequence[IndicatorSpec],
        native: Frequency,
        transform: Transform,
    ) -> Wanted:
        """Return the statistics that conditions apply to: none for raw values, or a change or mean of each period."""
        moved = any(bound.moved for bound in asked.bounds) and not transform
        coarser = ORDER.index(asked.every) > ORDER.index(native)
        inner: tuple[Statistic, ...] = tuple(
            item for item in statistics if item not in (Statistic.MAX, Statistic.MIN, Statistic.LAST)
        )[:1]
        if moved and not inner:
            inner = self._asked.fitting((Statistic.RETURN,), list(specs), "")
        outer = Statistic.COUNT if asked.pick == "count" else None
        if asked.pick == "who":
            # Which companies pass is decided by their newest value if no statistic is named.
            return Wanted(inner or (Statistic.LAST,))
        # A move of each stored period (daily change) is a statistic of groups too; a mean of single values is not.
        if inner and asked.every and (coarser or (inner[0] in MOVES and asked.every == native)):
            return Wanted(inner, asked.every, outer)
        if inner and inner[0] not in MOVES:
            return Wanted(inner)
        return Wanted((Statistic.COUNT,)) if outer else Wanted()

    def between(self, shown: str, reading: expressions.Reading, period: Period) -> tuple[expressions.Reading, Period]:
        """Convert two compared points into one range: "April against February", "end of 2015 to end of 2022"."""
        if len(reading.periods) == 2:
            # Open ends sort last, and None must not be compared with dates.
            one, other = sorted(reading.periods, key=lambda p: (p.end is None, p.end, p.start is None, p.start))
            points = one.grain == other.grain and one.grain in (Frequency.MONTHLY, Frequency.QUARTERLY, Frequency.DAILY)
            first, last = sorted(p.span for p in reading.periods)
            between = shown[first[1] : last[0]]
            joined = any(p.listed for p in reading.periods) and re.search(
                r"比|较|\b(?:than|versus|vs|from|to)\b", shown[first[0] : last[1]]
            )
            if points and one.end and other.end and (cue_words.COMPARED.search(between) or joined):
                # The change from February to April starts at February's last value.
                start = one.end if one.grain != Frequency.DAILY else one.start
                period = Period(start, other.end)
                reading = replace(reading, periods=(period,))
        start = period.start
        # A change is measured from the last value before its start, so a start at a month's end moves to the next day.
        if start is not None and period.end != start and start == month_end(start.year, start.month):
            period = replace(period, start=days_before(start, -1))
        return reading, period

    def comparable(
        self, entities: Sequence[str], indicators: Sequence[str], together: Combination, seen: Understanding
    ) -> Combination:
        """Return the combination, or ``NONE`` for a spread of two different units, which is reported."""
        specs = [self._layer.indicators.get(name) for name in indicators]
        if together != Combination.SPREAD or len(specs) != 2 or None in specs:
            return together
        kinds = {("%" if spec.unit.startswith(("%", "percentage")) else scaleless(spec.unit)) for spec in specs if spec}
        # Rates in per cent and in percentage points can be subtracted.
        if len(kinds) == 1:
            return together
        names = " and ".join(f"{spec.name} ({spec.unit})" for spec in specs if spec)
        said = f"{names} have different units: there is no difference between them"
        seen.missing.append(Missing(names, "NO_MATCH", said, aspect="mixed units"))
        return Combination.NONE

    def newest(self, shown: str, query: Query, reading: expressions.Reading) -> Query:
        """Limit the query to the first or last day of its period, or to the newest n values of a regular series."""
        # "The last day of each month" is a frequency, not one row.
        if cue_words.EACH.search(shown):
            return query
        at_start = any(period.edge == "start" for period in reading.periods)
        if (at_start or cue_words.FIRST_DAY.search(shown)) and not query.statistics:
            return replace(query, limit=1)
        if cue_words.LAST_DAY.search(shown) and not query.statistics and len(reading.periods) == 1:
            return replace(query, tail=1)
        if len(reading.periods) != 1 or query.statistics or query.transform or query.periods or query.start is None:
            return query
        period = reading.periods[0]
        specs = [self._layer.indicators[name] for name in self._asked.stored(query.indicators)]
        steps = {Frequency.MONTHLY: 1, Frequency.QUARTERLY: 3, Frequency.ANNUAL: 12}
        if period.steps and specs and all(steps.get(spec.frequency) == period.step for spec in specs):
            # Unpublished periods have no value, so the newest n values reach further back.
            return replace(query, start=back(query.start, 6 + period.step), tail=period.steps)
        return query

    def in_points(self, shown: str, indicators: Sequence[str], statistics: Sequence[Statistic]) -> str:
        """Return "basis points" when the change of rates is asked for in basis points, otherwise ""."""
        specs = [self._layer.indicators.get(name) for name in indicators]
        rates = bool(specs) and all(spec is not None and spec.unit.startswith(("%", "percentage")) for spec in specs)
        return "basis points" if tuple(statistics) == (Statistic.CHANGE,) and rates and BASIS.search(shown) else ""

    def conditioned(self, query: Query, asked: Conditions, seen: Understanding) -> Query:
        """Return the query with filters.

        Report a percentage bound on a series that is not a rate, and drop the indicators.
        """
        if not query.indicators:
            return query
        bounds = [self._filter(query, bound) for bound in asked.bounds]
        # Dropping the filter alone would return every value as if it had passed.
        if any(item is None for item in bounds):
            names = ", ".join(self._layer.indicators[name].name for name in self._asked.stored(query.indicators))
            said = f"{names} is no rate: it cannot be compared with a percentage"
            seen.missing.append(Missing(names, "NO_MATCH", said, aspect=query.indicators[0]))
            return replace(query, indicators=())
        filters = tuple(item for item in bounds if item is not None)
        every = asked.every if ORDER.index(asked.every) > ORDER.index(self._native(query)) else query.frequency
        # Rows that pass "below" are shown from the lowest, those of "above" from the highest.
        low = all(item.operator.startswith("<") for item in filters)
        changed = replace(query, filters=filters, descending=not low if query.kind else query.descending)
        if not query.statistics and not query.every and not query.transform:
            changed = replace(changed, frequency=every)
        if asked.pick == "first":
            return replace(changed, limit=1)
        if asked.pick == "last":
            return replace(changed, tail=1, statistics=tuple(s for s in query.statistics if s != Statistic.LAST))
        return changed

    def _native(self, query: Query) -> Frequency:
        specs = [self._layer.indicators[name] for name in self._asked.stored(query.indicators)]
        return min((spec.frequency for spec in specs), key=ORDER.index, default=Frequency.NATIVE)

    def _filter(self, query: Query, bound: Bound) -> Filter | None:
        """Convert a bound to the unit of the filtered series.

        Return None if a percentage is set on a series that is not a rate.
        """
        name = query.indicators[0]
        operator, value = bound.operator, bound.value * bound.scale
        if query.kind == "currency" and query.statistics[:1] == (Statistic.RETURN,) and bound.rate and bound.moved:
            # A currency that gains 10 % has a rate per euro that falls to 1 / 1.1 of what it was.
            shift = abs(value) / 100 * bound.moved
            operator = FLIPPED[operator] if bound.moved > 0 else operator
            return Filter(name, operator, 100 * (1 / (1 + shift) - 1))
        inner = query.statistics[0] if query.statistics else None
        # Drawdowns are computed as negative numbers and asked for as positive ones.
        falls = bound.moved < 0 or (inner == Statistic.DRAWDOWN and value > 0)
        if falls and value > 0 and (inner in MOVES | {Statistic.DRAWDOWN} or query.transform in CHANGES):
            operator, value = FLIPPED[operator], -value
        spec = self._layer.indicators.get(name)
        fractions = query.transform in CHANGES or (spec is None and name.startswith(CHANGES))
        if spec is None and name.startswith("100 *"):
            return Filter(name, operator, value)
        # A condition without an indicator applies to the combined column.
        over = "" if query.combination != Combination.NONE or fractions or spec is None else name
        # Growth is computed as a fraction and asked for in per cent, unless the query converts it.
        if fractions:
            wanted = parse_unit(query.unit) if query.transform in CHANGES else None
            return Filter(name, operator, value / 100 * (wanted.fraction if wanted else 1.0))
        unit = spec.unit if spec else ""
        if inner in SHARES or unit.startswith(("%", "percentage")):
            return Filter(over, operator, value)
        # A quotient of two indicators is a fraction, which may be compared with per cent.
        if bound.rate and not (spec is None and "/" in name):
            return None
        return Filter(over, operator, value / 100 if bound.rate else value / find_scale(unit))


def scaleless(unit: str) -> str:
    """Return a unit without scale and seasonal adjustment: "Bil. of $ (SAAR)" and "Mil. of $ (SA)" are both "$"."""
    return re.sub(r"^(?:Bil|Mil|Thous)\. of |U\.S\. |\s*\((?:SAAR|SA|NSA)\)$", "", unit)

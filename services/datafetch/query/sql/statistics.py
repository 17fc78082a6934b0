"""SQL of the final step: statistics of a period, rows of extreme and last values, combinations of two series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from fathom.services.datafetch.catalog.files import quote
from fathom.services.datafetch.query.model import ROWS, Combination, Filter, Frequency, Query, Statistic
from fathom.services.datafetch.query.planner import Part

# The usual number of trading days of a US year, by which volatility is annualised.
TRADING_DAYS = 252
# Mean length of a year, so that a growth rate over leap years does not drift.
YEAR_DAYS = 365.25
# Well above the relative error of single precision (6e-8), and far below any difference that a question means.
SINGLE_PRECISION = 1e-6
LAST_VALUE = "arg_max(v, date) filter (where inside)"
ORDERS = {Statistic.MAX: "v desc, date", Statistic.MIN: "v, date", Statistic.LAST: "date desc"}
MEASURED_FROM_BASE = {Statistic.RETURN, Statistic.CHANGE, Statistic.CAGR}
BUCKETS = {
    Frequency.DAILY: ("day", "1 day"),
    Frequency.WEEKLY: ("week", "1 week"),
    Frequency.MONTHLY: ("month", "1 month"),
    Frequency.QUARTERLY: ("quarter", "3 months"),
    Frequency.ANNUAL: ("year", "1 year"),
}


@dataclass(frozen=True)
class Source:
    """An input series of statistics: the column ``name`` of a wide sheet, and SQL for its rows (date, v)."""

    name: str
    sql: str
    parameters: tuple[str, ...]
    indicator: str

    def name_statistic(self, statistic: Statistic) -> str:
        """Return the column name of a statistic: ``AAPL.return(close_adj)``, ``mean(US.gs10 - US.gs2)``."""
        if not self.indicator:
            return f"{statistic}({self.name})"
        return f"{self.name.removesuffix('.' + self.indicator)}.{statistic}({self.indicator})"

    def name_nested_statistic(self, outer: Statistic, inner: Statistic) -> str:
        """Return the column name of a nested statistic: ``SP500.mean(return(close_adj))``."""
        if not self.indicator:
            return f"{outer}({inner}({self.name}))"
        return f"{self.name.removesuffix('.' + self.indicator)}.{outer}({inner}({self.indicator}))"


def compile_base(start: date | None) -> str:
    """Return SQL for the base value of a period: its first value.

    If the period starts on the first of a month, the last value before it is used where there is one.
    """
    first = "arg_min(v, date) filter (where inside)"
    return f"coalesce(arg_max(v, date) filter (where not inside), {first})" if start and start.day == 1 else first


def compile_aggregate(statistic: Statistic, start: date | None, grouped: bool, conditions: str) -> str:
    """Return SQL for a statistic over the rows (date, v, inside, p, d, peak).

    ``p`` is the value before, ``d`` its day, ``peak`` the highest value inside so far. Groups are measured from the
    last value before them.
    """
    # Groups follow each other, so the value before the first one is the last of the group before.
    begin = "arg_min(coalesce(p, v), date) filter (where inside)" if grouped else compile_base(start)
    first_day = "min(coalesce(d, date)) filter (where inside)"
    # The same choice of row, for its day instead of its value.
    days = begin.replace("arg_max(v, date)", "max(date)").replace("arg_min(v, date)", "min(date)")
    return {
        Statistic.RETURN: f"100 * ({LAST_VALUE} / nullif({begin}, 0) - 1)",
        Statistic.CHANGE: f"{LAST_VALUE} - {begin}",
        Statistic.CAGR: f"100 * (pow({LAST_VALUE} / nullif({begin}, 0), {YEAR_DAYS} /"
        f" nullif(date_diff('day', {first_day if grouped else days}, max(date) filter (where inside)), 0)) - 1)",
        # Sample deviation of simple returns, annualised by the square root of the trading days.
        Statistic.VOLATILITY: f"100 * sqrt({TRADING_DAYS}) * stddev_samp(v / nullif(p, 0) - 1) filter (where inside)",
        Statistic.DRAWDOWN: "100 * min(v / nullif(peak, 0) - 1) filter (where inside)",
        Statistic.MEAN: "avg(v) filter (where inside)",
        Statistic.SUM: "sum(v) filter (where inside)",
        Statistic.MAX: "max(v) filter (where inside)",
        Statistic.MIN: "min(v) filter (where inside)",
        Statistic.LAST: LAST_VALUE,
        Statistic.COUNT: f"count(v) filter (where inside and {conditions})::double",
    }[statistic]


def list_cells(part: Part) -> list[tuple[str, str]]:
    """Return entity and indicator of each cell, in the order of the part."""
    return [
        (entity.id, measure.spec.id)
        for entity in part.entities
        for measure in part.measures
        if (entity.id, measure.spec.id) in part.cells
    ]


def compile_cell_rows(indicator: str) -> str:
    """Return SQL for the rows (date, v) of one cell; its entity is a parameter."""
    value = quote(f"m.{indicator}")
    return f"select date, {value} as v from done where entity = ? and {value} is not null"


def list_sources(part: Part, query: Query) -> list[Source]:
    """Return the series of a part: its cells, or the one combination of both."""
    found = list_cells(part)
    name, sign = name_combination(part, query)
    if not name:
        return [Source(f"{e}.{i}", compile_cell_rows(i), (e,), i) for e, i in found]
    (e1, i1), (e2, i2) = found
    value = f"a.v {sign} " + ("nullif(b.v, 0)" if sign == "/" else "b.v")
    left, right = compile_cell_rows(i1), compile_cell_rows(i2)
    # An inner join: a day that only one series has gives no difference.
    joined = f"select a.date, {value} as v from ({left}) a join ({right}) b on a.date = b.date"
    return [Source(name, f"select * from ({joined}) where v is not null", (e1, e2), "")]


def compile_condition(column: str, item: Filter) -> str:
    """Return SQL for one condition."""
    # Sources store 3.6 in single precision as 3.5999999; smaller differences count as equal.
    slack = SINGLE_PRECISION * abs(item.value)
    if item.operator in ("=", "!="):
        within = f"abs({column} - {float(item.value)!r}::double) <= {slack!r}::double"
        return within if item.operator == "=" else f"not ({within})"
    # The slack goes against the condition for strict comparisons and with it for the others.
    bound = item.value + (slack if item.operator in (">", "<=") else -slack)
    return f"{column} {item.operator} {float(bound)!r}::double"


def compile_conditions(filters: tuple[Filter, ...], source: Source, column: str = "v") -> str:
    """Return SQL for the query's conditions on a series."""
    return " and ".join(
        compile_condition(column, item)
        for item in filters
        if item.indicator in (source.indicator, "")
    ) or "true"  # fmt: skip


def compile_summary(part: Part, query: Query, parameters: list[Any]) -> str:
    """Return SQL for one row for the period, or one per week, month … of it, with a column per series and statistic."""
    grouped = bool(query.every)
    bucket, length = BUCKETS.get(query.every, ("", ""))
    wanted = [item for item in query.statistics if grouped or query.kind or item not in ROWS]
    inside = "true" if query.start is None else "date >= ?"
    group = f"date_trunc('{bucket}', date)" if grouped else "0"
    steps, columns, joins = [], [], []
    for number, source in enumerate(list_sources(part, query)):
        if query.start is not None:
            parameters.append(query.start)
        parameters += source.parameters
        steps.append(
            f"v{number} as (select g, date, v, inside, lag(v) over (order by date) as p,"
            " lag(date) over (order by date) as d,"
            " max(v) over (partition by g, inside order by date) as peak"
            f" from (select {group} as g, date, v, {inside} as inside from ({source.sql})))"
        )
        bodies = [
            compile_aggregate(item, query.start, grouped, compile_conditions(query.filters, source)) for item in wanted
        ]
        shown = [f"{body} as {quote(source.name_statistic(item))}" for item, body in zip(wanted, bodies, strict=True)]
        steps.append(f"s{number} as (select g, {', '.join(shown)} from v{number} group by g)")
        columns += [f"s{number}.{quote(source.name_statistic(item))}" for item in wanted]
        joins.append(f"left join s{number} on s{number}.g = k.g")
    if grouped:
        # Groups of all series, as one of them may have no value in some month.
        keys = " union ".join(f"select distinct g from v{number} where inside" for number in range(len(joins)))
        last = f"(k.g + interval '{length}' - interval '1 day')::timestamp as date"
        rows = f"select {last}, {', '.join(columns)} from ({keys}) k {' '.join(joins)}"
        return f", {', '.join(steps)}, groups as ({rows}) {compile_groups(part, query)}"
    begin = "min(date) filter (where inside)"
    if set(wanted) <= MEASURED_FROM_BASE:
        # State the day of the base value, so that the figures can be recomputed.
        begin = (
            compile_base(query.start).replace("arg_max(v, date)", "max(date)").replace("arg_min(v, date)", "min(date)")
        )
    span = "(select ({0})::timestamp from v0) as {1}"
    days = f"{span.format(begin, quote('from'))}, {span.format('max(date) filter (where inside)', quote('to'))}"
    return f", {', '.join(steps)} select {days}, {', '.join(columns)} from (select 0 as g) k {' '.join(joins)}"


def compile_groups(part: Part, query: Query) -> str:
    """Return SQL for the groups that pass the conditions, the highest or lowest of them, or their mean or number."""
    series, (inner, *_) = list_sources(part, query), query.statistics
    names = [quote(source.name_statistic(inner)) for source in series]
    fits = [compile_conditions(query.filters, source, name) for source, name in zip(series, names, strict=True)]
    if query.outer in (Statistic.MEAN, Statistic.COUNT):
        function = "avg" if query.outer == Statistic.MEAN else "count"
        shown = [
            f"{function}({name}) filter (where {fit})::double"
            f" as {quote(source.name_nested_statistic(query.outer, inner))}"
            for source, name, fit in zip(series, names, fits, strict=True)
        ]
        return f"select min(date) as {quote('from')}, max(date) as {quote('to')}, {', '.join(shown)} from groups"
    if query.outer in (Statistic.MAX, Statistic.MIN):
        way = "desc" if query.outer == Statistic.MAX else "asc"
        # Each series has its own best groups; nulls mark those that are another series' best.
        tops = [
            f"select date, {', '.join(name if name == own else f'null::double as {name}' for name in names)}"
            f" from (select * from groups where {own} is not null and {fit}"
            f" order by {own} {way}, date limit {max(1, query.limit)})"
            for own, fit in zip(names, fits, strict=True)
        ]
        aggregated = ", ".join(f"max({name}) as {name}" for name in names)
        return f"select date, {aggregated} from ({' union all '.join(tops)}) group by date order by date"
    where = f" where {' or '.join(f'({fit})' for fit in fits)}" if query.filters else ""
    limit = f" limit {int(query.limit)}" if query.limit > 0 else ""
    if query.tail > 0:
        return f"select * from groups where {compile_last_rows('groups', names, where, query.tail)} order by date"
    return f"select * from groups{where} order by date{limit}"


def compile_extreme_rows(part: Part, query: Query, statistic: Statistic, parameters: list[Any]) -> str:
    """Return SQL for the row of the highest, lowest or last value of a series."""
    order = ORDERS[statistic]
    steps, columns = [], []
    for number, source in enumerate(list_sources(part, query)):
        steps.append(f"k{number} as (select date, v from ({source.sql}) order by {order} limit 1)")
        parameters += source.parameters
        # Rows of several series that fall on one day share one row of the sheet.
        columns.append(f"max(v) filter (where n = {number}) as {quote(source.name)}")
    union = " union all ".join(f"select {number} as n, * from k{number}" for number in range(len(steps)))
    chosen = f"select date::timestamp as date, {', '.join(columns)} from ({union}) group by date order by date"
    return f", {', '.join(steps)} {chosen}"


def compile_wide_with_combination(part: Part, query: Query, wide: str) -> str:
    """Return SQL for the wide sheet with the combination of its two cells, limited to rows that pass the filters."""
    name, sign = name_combination(part, query)
    if name:
        one, other = (quote(f"{entity}.{indicator}") for entity, indicator in list_cells(part))
        right = f"nullif({other}, 0)" if sign == "/" else other
        wide = f"select *, {one} {sign} {right} as {quote(name)} from ({wide})"
    series = list_sources(part, query) if query.filters else []
    conditions = [compile_conditions(query.filters, source, quote(source.name)) for source in series]
    where = f" where {' and '.join(conditions)}" if conditions else ""
    limit = f" limit {int(query.limit)}" if query.limit > 0 else ""
    rows = f"select * from whole{where} order by date{limit}"
    if query.tail > 0:
        names = [quote(source.name) for source in list_sources(part, query)]
        rows = f"select * from whole where {compile_last_rows('whole', names, where, query.tail)} order by date"
    return f", whole as ({wide}) {rows}"


def compile_last_rows(table: str, names: Sequence[str], where: str, count: int) -> str:
    """Return the SQL condition for the last rows of each series that have its value and pass ``where``.

    Series end on different days: the last rows of the table alone would hide the latest value of one that ends earlier.
    """
    lasts = [
        f"date in (select date from {table}{where}{' and' if where else ' where'} {name} is not null"
        f" order by date desc limit {int(count)})"
        for name in names
    ]
    return f"({' or '.join(lasts)})"


def name_combination(part: Part, query: Query) -> tuple[str, str]:
    """Return name and sign of the combined column; empty strings when there are not two series."""
    found = list_cells(part)
    if query.combination == Combination.NONE or len(found) != 2:
        return "", ""
    sign = "-" if query.combination == Combination.SPREAD else "/"
    return f" {sign} ".join(f"{entity}.{indicator}" for entity, indicator in found), sign


def find_unit(statistic: Statistic, unit: str, density: Frequency) -> str:
    """Return the unit of a statistic of values in ``unit`` with the given frequency."""
    if statistic == Statistic.COUNT:
        return {
            "daily": "days",
            "weekly": "weeks",
            "monthly": "months",
            "quarterly": "quarters",
            "annual": "years",
        }.get(str(density), "values")
    # These are multiplied by 100 in their SQL.
    if statistic in (Statistic.RETURN, Statistic.CAGR, Statistic.VOLATILITY, Statistic.DRAWDOWN):
        return "%"
    return "percentage points" if statistic == Statistic.CHANGE and unit.startswith("%") else unit


def find_combined_unit(query: Query, entities: tuple[str, str], units: tuple[str, str]) -> str:
    """Return the unit of the combination of two series."""
    if query.combination == Combination.CROSS:
        return f"{entities[0]} per {entities[1]}"
    if query.combination == Combination.RATIO:
        return "ratio"
    return "percentage points" if units[0].startswith("%") else units[0]

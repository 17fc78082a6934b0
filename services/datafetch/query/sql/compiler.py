"""Compiler of a plan's part to one SQL statement with bound parameters; the names in it are checked before.

::

    obs    the stored rows: entity, indicator, date, number, text (sentinels null, one vintage, published by as_of)
    rows   obs resampled to the part's frequency
    dates  the time spine: every requested period, so that a missing one is a row of nulls
    l0     entity × date with a column per stored input; l1, l2 … add columns that look back in time
    done   a column per measure; then the sheet, wide (a column per entity) or long (a row per entity)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any

from fathom.services.datafetch.catalog.files import quote, quote_literal
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.model import Frequency, Query, Statistic
from fathom.services.datafetch.query.planner import Measure, Part
from fathom.services.datafetch.query.sql import statistics
from fathom.services.datafetch.query.sql.source_rows import SourceRows
from fathom.services.datafetch.query.sql.windows import MONTHS, FormulaCompiler
from fathom.services.datafetch.warehouse.database import StoredIndicator

BUCKETS = {
    Frequency.WEEKLY: "week",
    Frequency.MONTHLY: "month",
    Frequency.QUARTERLY: "quarter",
    Frequency.ANNUAL: "year",
}
# The ECB gives no rates at weekends and holidays; the longest gap, over Easter or Christmas, is below a week.
RATE_DAYS = 7


@dataclass
class Statement:
    """SQL and its parameters, in the order of their placeholders."""

    sql: str
    parameters: list[Any] = field(default_factory=list)


class Compiler:
    """A compiler of the parts of one query."""

    def __init__(
        self, layer: Layer, query: Query, as_of: date | None, fetched: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        self._layer, self._query = layer, query
        self._observed = SourceRows(query, as_of, fetched)

    def compile(self, part: Part, layout: str, rates: StoredIndicator | None) -> Statement:
        """Compile a part; ``layout`` is "wide", "long", "summary" or "rows:" and a statistic.

        ``rates`` is the stored series of ECB exchange rates, for conversions.
        """
        levels = FormulaCompiler(part.frequency, self._layer.indicators)
        measures = [(m, *levels.compile(m.node)) for m in part.measures]
        inputs = list_inputs(part)
        # Filled in the order of the placeholders: each step appends its values when it is compiled, so the steps must
        # be compiled in the order of the text.
        parameters: list[Any] = []
        steps = [
            f"obs as ({self._observed.compile(part, inputs, layout, parameters)})",
            f"rows as ({self._resample(part)})",
            f"dates as ({self._compile_spine(part, layout, parameters)})",
            f"who(entity, name, fye) as (values {self._bind_entities(part, parameters)})",
            f"l0 as ({self._pivot(inputs)})",
        ]
        # A window function cannot read another one of the same SELECT, so each depth of looking back is a level of its
        # own.
        top = max([0, *levels.windows, *(level for _, _, level in measures)])
        for level in range(1, top + 1):
            added = [f"{sql} as {quote(name)}" for name, sql in levels.windows.get(level, {}).items()]
            steps.append(f"l{level} as (select *{''.join(', ' + item for item in added)} from l{level - 1})")
        if any(m.conversion.target for m in part.measures) and rates is not None:
            steps += self._join_rates(rates, f"l{top}", part.measures, parameters)
            top_name = "converted"
        else:
            top_name = f"l{top}"
        steps.append(f"done as ({self._compile_measures(measures, inputs, top_name, layout, parameters)})")
        final = self._compile_final(part, layout, parameters)
        return Statement(f"with {', '.join(steps)} {final}", parameters)

    def _compile_final(self, part: Part, layout: str, parameters: list[Any]) -> str:
        """Return the final SELECT of the layout."""
        if layout == "long":
            return self._compile_long(part)
        if layout == "summary":
            return statistics.compile_summary(part, self._query, parameters)
        if layout.startswith("rows:"):
            return statistics.compile_extreme_rows(
                part, self._query, Statistic(layout.removeprefix("rows:")), parameters
            )
        return statistics.compile_wide_with_combination(part, self._query, self._compile_wide(part, parameters))

    def _resample(self, part: Part) -> str:
        """Return SQL that resamples obs to the part's frequency.

        The result is the last value of each period, or the sum or mean of a complete one.
        """
        bucket = BUCKETS.get(part.frequency)
        # Nothing is finer than the part: the rows are taken as they are.
        if not any(where[1].frequency != part.frequency for where in part.facts.values()) or bucket is None:
            return "select * from obs"
        specs = {ident: where[0].indicator for (_, ident), where in part.facts.items()}
        # Cumulative inputs and sums need every value of a period; the last value alone would do for the others.
        whole = {ident: spec for ident, spec in specs.items() if spec.aggregate != "last" or spec.cumulative}
        if part.regular:
            step = MONTHS[part.frequency]
            cases = []
            for ident, spec in whole.items():
                density = next(where[1].frequency for (_, leaf), where in part.facts.items() if leaf == ident)
                count = step // MONTHS[density]
                if spec.aggregate != "last":
                    # A sum over two of three months would look like a fall, so an incomplete period is null.
                    total = f"case when count(number) = {count} then {spec.aggregate}(number) end"
                    cases.append(f"when {quote_literal(ident)} then {total}")
            end = f"last_day(date_trunc('{bucket}', date) + interval '{step - 1} months')"
            last = f"max(number) filter (where date = {end})"
            number = f"case indicator {' '.join(cases)} else {last} end" if cases else last
            return (
                f"select entity, indicator, {end}::date as date, {number} as number,"
                f" max(text) filter (where date = {end}) as text from obs group by entity, indicator, {end}"
            )
        # The last value of each period, dated with the last day that has one.
        return (
            f"select entity, indicator, max(max(date)) over (partition by date_trunc('{bucket}', date)) as date,"
            f" arg_max(number, date) as number, arg_max(text, date) as text from obs"
            f" group by entity, indicator, date_trunc('{bucket}', date)"
        )

    def _compile_spine(self, part: Part, layout: str, parameters: list[Any]) -> str:
        if not part.regular or part.frequency not in MONTHS:
            return "select distinct date from rows"
        step, bucket = MONTHS[part.frequency], BUCKETS[part.frequency]
        # The spine begins where the rows are read from, not at the query's start: formulas look back from it.
        parameters += [self._observed.find_first_day(part, layout), self._query.end]
        # The spine of an open period reaches from the first to the last value.
        return (
            f"select distinct last_day(s.period + interval '{step - 1} months')::date as date from"
            f" (select date_trunc('{bucket}', coalesce(cast(? as date), min(date))::timestamp) as first,"
            " coalesce(cast(? as date), max(date))::timestamp as last from rows) e"
            f" cross join unnest(generate_series(e.first, e.last, interval '{step} months')) as s(period)"
        )

    def _bind_entities(self, part: Part, parameters: list[Any]) -> str:
        for entity in part.entities:
            parameters += [entity.id, entity.name_zh or entity.name, self._layer.get_calendar(entity).fiscal_year_end]
        return ", ".join("(?, ?, cast(? as int))" for _ in part.entities)

    def _pivot(self, inputs: Sequence[str]) -> str:
        columns = []
        for ident in inputs:
            field_name = "text" if self._layer.indicators[ident].text else "number"
            columns.append(f"max(r.{field_name}) filter (where r.indicator = {quote_literal(ident)}) as {quote(ident)}")
        return (
            # max() picks the one value of a cell: a row has one observation per entity, date and indicator.
            "select w.entity, any_value(w.name) as name, d.date, any_value((month(d.date) - w.fye + 11) % 12 + 1)"
            f" as fm, {', '.join(columns)} from who w cross join dates d left join rows r"
            " on r.entity = w.entity and r.date = d.date group by w.entity, d.date"
        )

    def _join_rates(
        self, rates: StoredIndicator, below: str, measures: Sequence[Measure], parameters: list[Any]
    ) -> list[str]:
        """Return SQL steps that join each currency's rate against the euro on each date, at most a week old."""
        wanted = sorted(
            {c for m in measures if m.conversion.target for c in (m.conversion.source, m.conversion.target)}
        )
        steps, joins, columns = [], [], []
        days = ", ".join(f"({number})" for number in range(RATE_DAYS + 1))
        for currency in wanted:
            # Rates are stored per euro, so the euro's own is one.
            if currency == "EUR":
                columns.append('1.0::double as "fx_EUR"')
                continue
            name, shown = quote(f"rate_{currency}"), quote(f"fx_{currency}")
            parameters.append(currency)
            # A rate holds until the next one, at most a week: a row for each of these days, so that a join by equality
            # finds the last rate up to a date on every engine.
            steps.append(
                f"{name} as (select (r.day + k.days)::date as day, r.rate from (select date::date as day,"
                f" value as rate, lead(date::date) over (order by date::date) as next from {rates.source}"
                f" where indicator = 'eur_rate' and entity = ?) r cross join (values {days}) k(days)"
                " where r.next is null or r.day + k.days < r.next)"
            )
            joins.append(f"left join {name} on {name}.day = {below}.date")
            columns.append(f"{name}.rate as {shown}")
        steps.append(f"converted as (select {below}.*, {', '.join(columns)} from {below} {' '.join(joins)})")
        return steps

    def _compile_measures(
        self,
        measures: Sequence[tuple[Measure, str, int]],
        inputs: Sequence[str],
        below: str,
        layout: str,
        parameters: list[Any],
    ) -> str:
        columns = []
        for measure, sql, _ in measures:
            change = measure.conversion
            if change.target:
                # Per euro: the target's rate over the source's is the target's price of one unit of the source.
                sql = f"({sql}) * {quote('fx_' + change.target)} / {quote('fx_' + change.source)}"
            if change.factor != 1.0:
                sql = f"({sql}) * {change.factor!r}::double"
            columns.append(f"{sql} as {quote(name_column(measure))}")
        columns += [f"{quote(ident)} as {quote('in.' + ident)}" for ident in inputs]
        conditions = []
        # A summary needs the value before its start as the base; its own SQL marks the rows inside.
        if self._query.start is not None and layout != "summary":
            conditions.append(self._compile_start(inputs, below, parameters))
        if self._query.end is not None:
            conditions.append("date <= ?")
            parameters.append(self._query.end)
        if self._query.periods:
            conditions.append(f"({' or '.join('date between ? and ?' for _ in self._query.periods)})")
            parameters += [day for period in self._query.periods for day in period]
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"select entity, name, date, {', '.join(columns)} from {below}{where}"

    def _compile_start(self, inputs: Sequence[str], below: str, parameters: list[Any]) -> str:
        """Return the condition for rows from the start on, or from the last row of each series before it."""
        parameters.append(self._query.start)
        if not self._query.previous:
            return "date >= ?"
        # Of several columns each has its own last value; without any before the start the rows begin there.
        known = [
            f"(select max(p.date) from {below} p where p.entity = {below}.entity and p.date < ?"
            f" and p.{quote(ident)} is not null)"
            for ident in inputs
        ]
        parameters += [self._query.start] * len(known)
        return f"(date >= ? or date in ({', '.join(known)}))"

    def _compile_wide(self, part: Part, parameters: list[Any]) -> str:
        columns = []
        for entity in part.entities:
            for measure in part.measures:
                if (entity.id, measure.spec.id) in part.cells:
                    columns.append((entity.id, name_column(measure), f"{entity.id}.{measure.spec.id}"))
            for ident in list_shown_inputs(part, entity.id):
                columns.append((entity.id, f"in.{ident}", f"{entity.id}.{ident}"))
        selected = []
        for entity_id, source, name in columns:
            selected.append(f"max({quote(source)}) filter (where entity = ?) as {quote(name)}")
            parameters.append(entity_id)
        return f"select date::timestamp as date, {', '.join(selected)} from done group by date"

    def _compile_long(self, part: Part) -> str:
        """Return SQL for one row per entity and date, filtered and ordered."""
        names = {m.spec.id: quote(name_column(m)) for m in part.measures}
        shown = [f"{sql} as {quote(ident)}" for ident, sql in names.items()]
        extra = dict.fromkeys(ident for entity in part.entities[:1] for ident in list_shown_inputs(part, entity.id))
        shown += [f"{quote('in.' + ident)} as {quote(ident)}" for ident in extra]
        conditions = [
            statistics.compile_condition(names[item.indicator], item)
            for item in self._query.filters
            if item.indicator in names
        ]
        where = f" where {' and '.join(conditions)}" if conditions else ""
        order = "entity, date"
        if self._query.order in names:
            way = "desc" if self._query.descending else "asc"
            # A row without the value has no rank.
            where += f"{' and' if where else ' where'} {names[self._query.order]} is not null"
            order = f"{names[self._query.order]} {way}, entity, date"
        limit = f" limit {int(self._query.limit)}" if self._query.limit > 0 else ""
        rows = f"select entity, name, date::timestamp as date, {', '.join(shown)} from done{where}"
        if self._query.tail > 0 and not limit:
            return f"select * from ({rows} order by date desc, entity limit {int(self._query.tail)}) order by {order}"
        return f"{rows} order by {order}{limit}"


def list_inputs(part: Part) -> list[str]:
    """Return the stored indicators that a part's measures are computed from."""
    return list(dict.fromkeys(leaf for m in part.measures for leaf in formulas.list_leaves(m.node)))


def name_column(measure: Measure) -> str:
    return f"m.{measure.spec.id}"


def list_shown_inputs(part: Part, entity: str) -> list[str]:
    """Return the inputs of derived measures that are not measures themselves."""
    # They are shown beside the result, so that a reader can check it.
    own = {measure.spec.id for measure in part.measures}
    inputs = [leaf for m in part.measures if m.spec.formula and (entity, m.spec.id) in part.cells for leaf in m.inputs]
    return [leaf for leaf in dict.fromkeys(inputs) if leaf not in own]

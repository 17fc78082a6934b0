"""Statistics of a period, extreme and last rows, and two series against each other: the last step of a statement."""

from __future__ import annotations

from datetime import date
from typing import Any

from services.datafetch.model import ROWS, Combination, Query, Statistic
from services.datafetch.plan import Part
from services.datafetch.semantic.files import quoted

TRADING_DAYS = 252
YEAR_DAYS = 365.25
LAST_VALUE = "arg_max(v, date) filter (where inside)"
ORDERS = {Statistic.MAX: "v desc, date", Statistic.MIN: "v, date", Statistic.LAST: "date desc"}


def base(start: date | None) -> str:
    """The value that a period is measured from: the last one before it when it begins with a month."""
    first = "arg_min(v, date) filter (where inside)"
    return f"coalesce(arg_max(v, date) filter (where not inside), {first})" if start and start.day == 1 else first


def aggregate(statistic: Statistic, start: date | None) -> str:
    """The statistic of rows (date, v, inside, p the value before, peak the highest so far inside)."""
    begin = base(start)
    days = begin.replace("arg_max(v, date)", "max(date)").replace("arg_min(v, date)", "min(date)")
    return {
        Statistic.RETURN: f"100 * ({LAST_VALUE} / nullif({begin}, 0) - 1)",
        Statistic.CHANGE: f"{LAST_VALUE} - {begin}",
        Statistic.CAGR: f"100 * (pow({LAST_VALUE} / nullif({begin}, 0), {YEAR_DAYS} /"
        f" nullif(max(date) filter (where inside) - {days}, 0)) - 1)",
        Statistic.VOLATILITY: f"100 * sqrt({TRADING_DAYS}) * stddev_samp(v / nullif(p, 0) - 1) filter (where inside)",
        Statistic.DRAWDOWN: "100 * min(v / nullif(peak, 0) - 1) filter (where inside)",
        Statistic.MEAN: "avg(v) filter (where inside)",
        Statistic.SUM: "sum(v) filter (where inside)",
    }[statistic]


def cells(part: Part) -> list[tuple[str, str]]:
    """Entity and indicator of each cell, in the order of the part."""
    return [
        (entity.id, measure.spec.id)
        for entity in part.entities
        for measure in part.measures
        if (entity.id, measure.spec.id) in part.cells
    ]


def summed(part: Part, query: Query, parameters: list[Any]) -> str:
    """One row: the first and last day that were read, then a column per cell and statistic."""
    wanted = [item for item in query.statistics if item not in ROWS]
    inside = "true" if query.start is None else "date >= ?"
    steps, columns = [], []
    for number, measure in enumerate(part.measures):
        if query.start is not None:
            parameters.append(query.start)
        value = quoted(f"m.{measure.spec.id}")
        steps.append(
            f"v{number} as (select entity, date, v, inside, lag(v) over (partition by entity order by date) as p,"
            " max(v) over (partition by entity, inside order by date) as peak"
            f" from (select entity, date, {value} as v, {inside} as inside from done where {value} is not null))"
        )
    numbers = {measure.spec.id: number for number, measure in enumerate(part.measures)}
    for entity, indicator in cells(part):
        for statistic in wanted:
            body = aggregate(statistic, query.start)
            name = quoted(f"{entity}.{statistic}({indicator})")
            columns.append(f"(select {body} from v{numbers[indicator]} where entity = ?) as {name}")
            parameters.append(entity)
    span = "(select {0}(date)::timestamp from v0 where inside) as {1}"
    days = f"{span.format('min', quoted('from'))}, {span.format('max', quoted('to'))}"
    return f", {', '.join(steps)} select {days}, {', '.join(columns)}"


def picked(part: Part, statistic: Statistic, parameters: list[Any]) -> str:
    """The row in which the highest, lowest or last value of a cell stands."""
    order = ORDERS[statistic]
    steps, columns = [], []
    for number, (entity, indicator) in enumerate(cells(part)):
        value = quoted(f"m.{indicator}")
        steps.append(
            f"k{number} as (select date, {value} as v from done where entity = ? and {value} is not null"
            f" order by {order} limit 1)"
        )
        parameters.append(entity)
        columns.append(f"max(v) filter (where n = {number}) as {quoted(f'{entity}.{indicator}')}")
    union = " union all ".join(f"select {number} as n, * from k{number}" for number in range(len(steps)))
    chosen = f"select date::timestamp as date, {', '.join(columns)} from ({union}) group by date order by date"
    return f", {', '.join(steps)} {chosen}"


def combined(part: Part, query: Query, wide: str) -> str:
    """The wide sheet with its first two cells against each other."""
    name, expression = combination(part, query)
    if not name:
        return wide
    return f", whole as ({wide}) select *, {expression} as {quoted(name)} from whole order by date"


def combination(part: Part, query: Query) -> tuple[str, str]:
    """Name and SQL of the combined column; empty when there are not two."""
    found = cells(part)
    if query.combination == Combination.NONE or len(found) != 2:
        return "", ""
    one, other = (f"{entity}.{indicator}" for entity, indicator in found)
    if query.combination == Combination.SPREAD:
        return f"{one} - {other}", f"{quoted(one)} - {quoted(other)}"
    return f"{one} / {other}", f"{quoted(one)} / nullif({quoted(other)}, 0)"


def unit_of(statistic: Statistic, unit: str) -> str:
    """The unit of a statistic of values in ``unit``."""
    if statistic in (Statistic.RETURN, Statistic.CAGR, Statistic.VOLATILITY, Statistic.DRAWDOWN):
        return "%"
    return "percentage points" if statistic == Statistic.CHANGE and unit.startswith("%") else unit


def combined_unit(query: Query, entities: tuple[str, str], units: tuple[str, str]) -> str:
    """The unit of two series against each other."""
    if query.combination == Combination.CROSS:
        return f"{entities[0]} per {entities[1]}"
    if query.combination == Combination.RATIO:
        return "ratio"
    return "percentage points" if units[0].startswith("%") else units[0]

"""Reasons for empty cells: a missing item for each gap in a series, and for each series without values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from fathom.services.datafetch.query.model import Frequency, Missing, Query
from fathom.services.datafetch.query.periods import LATE_DAYS
from fathom.services.datafetch.query.planner import Measure, Part
from fathom.services.datafetch.query.result import find_empty, list_column_names
from fathom.services.datafetch.warehouse.database import REGULAR

# Days within which a company's fiscal year or quarter ends that is no calendar one.
FISCAL_DAYS: Mapping[Frequency, int] = {Frequency.QUARTERLY: 92, Frequency.ANNUAL: 366}


def format_period(day: date, frequency: Frequency) -> str:
    """Format the period that ends on a day: 2021, 2021Q3, 2021-07, 2021-07-27."""
    if frequency == Frequency.ANNUAL and (day.month, day.day) == (12, 31):
        return str(day.year)
    if frequency == Frequency.QUARTERLY:
        return f"{day.year}Q{(day.month + 2) // 3}"
    return f"{day:%Y-%m}" if frequency == Frequency.MONTHLY else day.isoformat()


def find_gaps(table: Any, part: Part, query: Query, as_of: date | None, layout: str) -> list[Missing]:
    """Return a missing item for each gap in a series, and for each series without values."""
    missing: list[Missing] = []
    days = [day.date() for day in table.column("date").to_pylist()] if "date" in table.column_names else []
    for entity in part.entities:
        for measure in part.measures:
            names = [
                name
                for name, _ in list_column_names(f"{entity.id}.", measure, query, layout)
                if name in table.column_names
            ]
            # The first column stands for all statistics of a series: they are empty together.
            for name in names[:1]:
                empty = find_empty(table.column(name)).to_pylist()
                if layout == "wide":
                    gaps = [day for day, none in zip(days, empty, strict=True) if none]
                    missing += explain_gaps(table, part, entity.id, entity.name, measure, days, gaps, query, as_of)
                elif all(empty):
                    missing += explain_gaps(table, part, entity.id, entity.name, measure, [], [], query, as_of)
                else:
                    missing += explain_gaps(
                        table, part, entity.id, entity.name, measure, days or [date.min], [], query, as_of
                    )
    return missing


def explain_gaps(
    table: Any,
    part: Part,
    ident: str,
    name: str,
    measure: Measure,
    days: list[date],
    empty: list[date],
    query: Query,
    as_of: date | None,
) -> list[Missing]:
    """Return missing items with the reasons why cells of one column are empty."""
    facts = [part.facts[ident, leaf][1] for leaf in (measure.inputs or (measure.spec.id,))]
    # A derived value exists only where all of its inputs do.
    first, last = max(fact.first for fact in facts), min(fact.last for fact in facts)
    spec, period = measure.spec, f"{query.start or ''}..{query.end or ''}"
    if len(empty) == len(days):
        # With as_of an empty cell may have a value by now that was not published then.
        future = as_of is not None and (query.start or first) > as_of
        if as_of is not None and not future and days and last > as_of:
            future = True
        reason = "NOT_YET_PUBLISHED" if future else "NO_DATA_IN_PERIOD"
        what = f"{spec.name} of {name}"
        detail = f"{what} was not published by {as_of}" if future else f"{what} has values from {first} to {last} only"
        if not future and days and first <= (query.end or last) and (query.start or first) <= last:
            detail = f"{list_empty_inputs(table, ident, measure) or 'the source'} holds no {what} here"
        shown = ", ".join(format_period(day, part.frequency) for day in days[:6]) if days else period
        nearest = find_nearest(query, first, last) if reason == "NO_DATA_IN_PERIOD" else ()
        return [Missing(ident, reason, detail, spec.id, shown if query.start or query.end else "", nearest)]
    if part.frequency in REGULAR and part.regular and (query.start or query.end):
        why = list_empty_inputs(table, ident, measure)
        found = []
        for run in group_runs(days, set(empty)):
            shown = format_period(run[0], part.frequency) + (
                f"..{format_period(run[-1], part.frequency)}" if len(run) > 1 else ""
            )
            after = run[0] > last
            reason = "NOT_YET_PUBLISHED" if as_of is not None and run[-1] <= as_of < last else "NO_DATA_IN_PERIOD"
            detail = f"{spec.name} of {name} " + (
                f"has values up to {format_period(last, part.frequency)} only"
                if after
                else f"is empty here: {why or 'the source'} holds no value"
            )
            nearest = (last.isoformat(),) if after and reason == "NO_DATA_IN_PERIOD" else ()
            found.append(Missing(ident, reason, detail, spec.id, shown, nearest))
        # The newest n values reach back as far as it takes, so only fewer than n are a gap.
        is_short = 0 < len(days) - len(empty) < query.tail and not any(day > last for day in empty)
        return found + (report_end(ident, name, measure, last, query, as_of) if is_short else [])
    found = []
    late = FISCAL_DAYS.get(part.frequency, LATE_DAYS)
    if query.start and (first - query.start).days > late:
        detail = f"{spec.name} of {name} begins on {first}"
        found.append(Missing(ident, "NO_DATA_IN_PERIOD", detail, spec.id, f"{query.start}..{first}", (str(first),)))
    return found + report_end(ident, name, measure, last, query, as_of, late)


def report_end(
    ident: str, name: str, measure: Measure, last: date, query: Query, as_of: date | None, late: int = LATE_DAYS
) -> list[Missing]:
    """Return a missing item for a series that ends more than ``late`` days before the end of the query."""
    if not query.end or (query.end - last).days <= late or (as_of is not None and last >= as_of):
        return []
    detail = f"{measure.spec.name} of {name} ends on {last}"
    return [Missing(ident, "NO_DATA_IN_PERIOD", detail, measure.spec.id, f"{last}..{query.end}", (str(last),))]


def find_nearest(query: Query, first: date, last: date) -> tuple[str, ...]:
    """Return the end of a series that is nearest to the query's period; () where the period is within the series."""
    if query.start and query.start > last:
        return (last.isoformat(),)
    return (first.isoformat(),) if query.end and query.end < first else ()


def group_runs(days: Sequence[date], empty: set[date]) -> list[list[date]]:
    """Return consecutive empty periods; a run of up to three periods is returned as single ones."""
    found: list[list[date]] = []
    last = False
    for day in days:
        if day in empty:
            if last:
                found[-1].append(day)
            else:
                found.append([day])
        last = day in empty
    # Single periods are named, long runs as a range, so that the list stays readable.
    return [part for run in found for part in ([[day] for day in run] if len(run) <= 3 else [run])]


def list_empty_inputs(table: Any, ident: str, measure: Measure) -> str:
    """Return the inputs of a derived column that have empty cells, separated by commas."""
    names = [leaf for leaf in measure.inputs if f"{ident}.{leaf}" in table.column_names]
    return ", ".join(leaf for leaf in names if True in find_empty(table.column(f"{ident}.{leaf}")).to_pylist())

"""Conversion of Arrow tables to sheets, with provenance per column and a reason for each empty cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from fathom import frames
from fathom.ids import sha256
from services.datafetch import summary
from services.datafetch.compiler import shown_inputs
from services.datafetch.formulas import Leaf
from services.datafetch.model import ROWS, Column, Frequency, Missing, Query, Sheet, Statistic, Transform
from services.datafetch.plan import Measure, Part
from services.datafetch.semantic.layer import Layer
from services.datafetch.units import Conversion
from services.datafetch.warehouse import REGULAR

LATE_DAYS = 7
"""Days before the end of the period from which the early end of a series is reported."""


def described(table: Any, name: str) -> Column:
    """Return a column without provenance: a key, or a column of a caller's own statement."""
    return Column(name, str(table.schema.field(name).type), nulls=table.column(name).null_count)


def make_sheet(table: Any, title: str, columns: Sequence[Column]) -> Sheet:
    """Return a sheet whose id is the hash of its content."""
    arrow = frames.write_table(table.replace_schema_metadata(None))
    ident = f"t{sha256(arrow)[:24]}"
    return Sheet(ident, title, tuple(columns), table.num_rows, frames.digest(frames.from_arrow(arrow), ident), arrow)


def provenance(table: Any, part: Part, layer: Layer, query: Query, layout: str) -> list[Column]:
    """Return the columns of a part's table with units, sources and formulas."""
    found: dict[str, Column] = {}
    for entity in part.entities:
        prefix = "" if layout == "long" else f"{entity.id}."
        owner = "" if layout == "long" else entity.id
        measures = [measure for measure in part.measures if (entity.id, measure.spec.id) in part.cells]
        for measure in measures:
            for name, statistic in names_of(prefix, measure, query, layout):
                if name in table.column_names and name not in found:
                    column = of_measure(table, name, owner, measure, part, entity.id)
                    found[name] = summarised(column, measure, statistic, part.frequency) if statistic else column
                    if statistic and query.outer:
                        found[name] = of_groups(found[name], query)
        for ident in shown_inputs(part, entity.id):
            name = f"{prefix}{ident}"
            if name in table.column_names and name not in found:
                stored = Measure(layer.indicators[ident], Leaf(ident), (), Conversion(), Transform.NONE)
                found[name] = of_measure(table, name, owner, stored, part, entity.id)
    together, _ = summary.combination(part, query)
    if together:
        found |= of_both(table, part, query, together)
    return [found.get(name) or described(table, name) for name in table.column_names]


def names_of(prefix: str, measure: Measure, query: Query, layout: str) -> list[tuple[str, Statistic | None]]:
    """Return the columns of a measure in a layout, with their statistics."""
    if layout != "summary":
        return [(f"{prefix}{measure.spec.id}", None)]
    if query.outer in (Statistic.MEAN, Statistic.COUNT):
        inner = query.statistics[0]
        return [(f"{prefix}{query.outer}({inner}({measure.spec.id}))", inner)]
    wanted = [item for item in query.statistics if query.every or query.kind or item not in ROWS]
    return [(f"{prefix}{item}({measure.spec.id})", item) for item in wanted]


def summarised(column: Column, measure: Measure, statistic: Statistic, density: Frequency) -> Column:
    """Return the column of a statistic, with its unit and formula."""
    unit = summary.unit_of(statistic, column.unit, density)
    inputs = column.inputs or (measure.spec.id,)
    return replace(column, unit=unit, formula=f"{statistic}({column.formula or measure.spec.id})", inputs=inputs)


def of_groups(column: Column, query: Query) -> Column:
    """Return the column of a statistic over the periods' statistics."""
    unit = summary.unit_of(Statistic.COUNT, "", query.every) if query.outer == Statistic.COUNT else column.unit
    return replace(column, unit=unit, formula=f"{query.outer}({column.formula} of each period, {query.every})")


def of_both(table: Any, part: Part, query: Query, together: str) -> dict[str, Column]:
    """Return the columns of the combination of two series and of its statistics."""
    measures = {measure.spec.id: measure for measure in part.measures}
    pair = [
        of_measure(table, f"{entity}.{indicator}", entity, measures[indicator], part, entity)
        for entity, indicator in summary.cells(part)
    ]
    one, other = pair
    whole = Column(
        together, "double", summary.combined_unit(query, (one.entity, other.entity), (one.unit, other.unit)),
        str(query.combination), one.entity, ", ".join(dict.fromkeys((one.source, other.source))),
        min(one.as_of, other.as_of), 0, together, (one.name, other.name),
        ", ".join(dict.fromkeys((one.vendor, other.vendor))),
    )  # fmt: skip
    names = {f"{item}({together})": item for item in query.statistics if item not in ROWS or query.every}
    found = {
        name: replace(whole, name=name, formula=name, unit=summary.unit_of(item, whole.unit, part.frequency))
        for name, item in names.items()
    } | {together: whole}
    return {
        name: replace(column, nulls=table.column(name).null_count)
        for name, column in found.items()
        if name in table.column_names
    }


def of_measure(table: Any, name: str, entity: str, measure: Measure, part: Part, member: str) -> Column:
    """Return the column of a measure; ``member`` is the entity whose sources are named."""
    bare = described(table, name) if name in table.column_names else Column(name, "double")
    leaves = measure.inputs or (measure.spec.id,)
    facts = [part.facts[member, leaf][1] for leaf in leaves if (member, leaf) in part.facts]
    unit = measure.conversion.unit or (facts[0].unit if facts and not measure.formula else measure.spec.unit)
    if measure.conversion.target and facts and facts[0].unit.startswith(f"{measure.conversion.source} "):
        unit = facts[0].unit.replace(measure.conversion.source, measure.conversion.target, 1)
    if measure.transform in ("yoy", "qoq", "mom"):
        unit = "fraction"
    return Column(
        name,
        bare.type,
        unit,
        measure.spec.id,
        entity,
        ", ".join(dict.fromkeys(fact.source for fact in facts)),
        max((fact.last for fact in facts), default=date.min).isoformat() if facts else "",
        bare.nulls,
        measure.formula,
        measure.inputs,
        ", ".join(dict.fromkeys(fact.vendor for fact in facts if fact.vendor)),
    )


def label(day: date, frequency: Frequency) -> str:
    """Format the period that ends on a day: 2021, 2021Q3, 2021-07, 2021-07-27."""
    if frequency == Frequency.ANNUAL and (day.month, day.day) == (12, 31):
        return str(day.year)
    if frequency == Frequency.QUARTERLY:
        return f"{day.year}Q{(day.month + 2) // 3}"
    return f"{day:%Y-%m}" if frequency == Frequency.MONTHLY else day.isoformat()


def empty_cells(table: Any, part: Part, query: Query, as_of: date | None, layout: str) -> list[Missing]:
    """Return a missing item for each gap in a series, and for each series without values."""
    missing: list[Missing] = []
    days = [day.date() for day in table.column("date").to_pylist()] if "date" in table.column_names else []
    for entity in part.entities:
        for measure in part.measures:
            names = [
                name for name, _ in names_of(f"{entity.id}.", measure, query, layout) if name in table.column_names
            ]
            for name in names[:1]:
                values = table.column(name).to_pylist()
                empty = [value is None or value != value for value in values]
                if layout == "wide":
                    gaps = [day for day, none in zip(days, empty, strict=True) if none]
                    missing += self_explained(table, part, entity.id, entity.name, measure, days, gaps, query, as_of)
                elif all(empty):
                    missing += self_explained(table, part, entity.id, entity.name, measure, [], [], query, as_of)
                else:
                    missing += self_explained(
                        table, part, entity.id, entity.name, measure, days or [date.min], [], query, as_of
                    )
    return missing


def self_explained(
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
    first, last = max(fact.first for fact in facts), min(fact.last for fact in facts)
    spec, period = measure.spec, f"{query.start or ''}..{query.end or ''}"
    if len(empty) == len(days):
        future = as_of is not None and (query.start or first) > as_of
        if as_of is not None and not future and days and last > as_of:
            future = True
        reason = "NOT_YET_PUBLISHED" if future else "NO_DATA_IN_PERIOD"
        what = f"{spec.name} of {name}"
        detail = f"{what} was not published by {as_of}" if future else f"{what} has values from {first} to {last} only"
        if not future and days and first <= (query.end or last) and (query.start or first) <= last:
            detail = f"{lacking(table, ident, measure) or 'the source'} holds no {what} here"
        shown = ", ".join(label(day, part.frequency) for day in days[:6]) if days else period
        return [Missing(ident, reason, detail, spec.id, shown if query.start or query.end else "")]
    if part.frequency in REGULAR and part.regular and (query.start or query.end):
        why = lacking(table, ident, measure)
        found = []
        for run in runs(days, set(empty)):
            shown = label(run[0], part.frequency) + (f"..{label(run[-1], part.frequency)}" if len(run) > 1 else "")
            after = run[0] > last
            reason = "NOT_YET_PUBLISHED" if as_of is not None and run[-1] <= as_of < last else "NO_DATA_IN_PERIOD"
            detail = f"{spec.name} of {name} " + (
                f"has values up to {label(last, part.frequency)} only"
                if after
                else f"is empty here: {why or 'the source'} holds no value"
            )
            found.append(Missing(ident, reason, detail, spec.id, shown))
        return found
    if query.end and (query.end - last).days > LATE_DAYS and (as_of is None or last < as_of):
        detail = f"{spec.name} of {name} ends on {last}"
        return [Missing(ident, "NO_DATA_IN_PERIOD", detail, spec.id, f"{last}..{query.end}")]
    return []


def runs(days: Sequence[date], empty: set[date]) -> list[list[date]]:
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
    return [part for run in found for part in ([[day] for day in run] if len(run) <= 3 else [run])]


def lacking(table: Any, ident: str, measure: Measure) -> str:
    """Return the inputs of a derived column that have empty cells, separated by commas."""
    names = [leaf for leaf in measure.inputs if f"{ident}.{leaf}" in table.column_names]
    return ", ".join(leaf for leaf in names if table.column(f"{ident}.{leaf}").null_count)

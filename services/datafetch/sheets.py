"""Arrow tables → sheets: provenance per column, and for every empty cell the reason why it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from fathom import frames
from fathom.ids import sha256
from services.datafetch.compiler import shown_inputs
from services.datafetch.model import Column, Frequency, Missing, Query, Sheet
from services.datafetch.plan import Measure, Part
from services.datafetch.semantic.layer import Layer
from services.datafetch.warehouse import REGULAR


def described(table: Any, name: str) -> Column:
    """A column without provenance: a key, or what a caller's own statement made."""
    return Column(name, str(table.schema.field(name).type), nulls=table.column(name).null_count)


def make_sheet(table: Any, title: str, columns: Sequence[Column]) -> Sheet:
    """A sheet whose id is the hash of its content."""
    arrow = frames.write_table(table.replace_schema_metadata(None))
    ident = f"t{sha256(arrow)[:24]}"
    return Sheet(ident, title, tuple(columns), table.num_rows, frames.digest(frames.from_arrow(arrow), ident), arrow)


def provenance(table: Any, part: Part, layer: Layer, layout: str) -> list[Column]:
    """The columns of a part's table with units, sources and formulas."""
    found: dict[str, Column] = {}
    for entity in part.entities:
        for measure in part.measures:
            if (entity.id, measure.spec.id) in part.cells:
                name = f"{entity.id}.{measure.spec.id}" if layout == "wide" else measure.spec.id
                found.setdefault(
                    name, of_measure(table, name, entity.id if layout == "wide" else "", measure, part, entity.id)
                )
        for ident in shown_inputs(part, entity.id):
            name = f"{entity.id}.{ident}" if layout == "wide" else ident
            plain = Measure(
                layer.indicators[ident],
                part.measures[0].node,
                (),
                part.measures[0].conversion.__class__(),
                Query().transform,
            )
            found.setdefault(
                name, of_measure(table, name, entity.id if layout == "wide" else "", plain, part, entity.id, (ident,))
            )
    return [found.get(name) or described(table, name) for name in table.column_names]


def of_measure(
    table: Any, name: str, entity: str, measure: Measure, part: Part, member: str, reads: tuple[str, ...] = ()
) -> Column:
    """One column; ``member`` is the entity whose sources are named."""
    bare = described(table, name)
    leaves = reads or measure.inputs or (measure.spec.id,)
    facts = [part.facts[member, leaf][1] for leaf in leaves if (member, leaf) in part.facts]
    unit = measure.conversion.unit or (facts[0].unit if facts and not measure.formula else measure.spec.unit)
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
    """A period as people write it: 2021, 2021Q3, 2021-07, 2021-07-27."""
    if frequency == Frequency.ANNUAL and (day.month, day.day) == (12, 31):
        return str(day.year)
    if frequency == Frequency.QUARTERLY:
        return f"{day.year}Q{(day.month + 2) // 3}"
    return f"{day:%Y-%m}" if frequency == Frequency.MONTHLY else day.isoformat()


def empty_cells(table: Any, part: Part, query: Query, as_of: date | None) -> list[Missing]:
    """A missing item for each period of a spine without a value, and for each series without any."""
    missing: list[Missing] = []
    if not {"date"} <= set(table.column_names):
        return missing
    days = [day.date() for day in table.column("date").to_pylist()]
    for entity in part.entities:
        for measure in part.measures:
            name = f"{entity.id}.{measure.spec.id}"
            if name in table.column_names:
                values = table.column(name).to_pylist()
                empty = [day for day, value in zip(days, values, strict=True) if value is None or value != value]
                missing += self_explained(table, part, entity.id, entity.name, measure, days, empty, query, as_of)
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
    """Why cells of one column are empty."""
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
    if query.end and query.end > last and query.end.year > last.year:
        return [
            Missing(
                ident, "NO_DATA_IN_PERIOD", f"{spec.name} of {name} ends on {last}", spec.id, f"{last}..{query.end}"
            )
        ]
    return []


def runs(days: Sequence[date], empty: set[date]) -> list[list[date]]:
    """Empty periods that follow each other; up to three of them are said one by one."""
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
    """The inputs of a derived column that are empty where it is."""
    names = [leaf for leaf in measure.inputs if f"{ident}.{leaf}" in table.column_names]
    return ", ".join(leaf for leaf in names if table.column(f"{ident}.{leaf}").null_count)

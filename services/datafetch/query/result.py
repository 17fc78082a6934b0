"""Conversion of Arrow tables to sheets: unit, source, formula and last day of each column."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from fathom.core.ids import sha256
from fathom.domain import frames
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import EntitySpec, IndicatorSpec
from fathom.services.datafetch.query.formulas import Leaf
from fathom.services.datafetch.query.model import ROWS, Column, Frequency, Query, Sheet, Statistic, Transform
from fathom.services.datafetch.query.planner import Measure, Part
from fathom.services.datafetch.query.sql import statistics
from fathom.services.datafetch.query.sql.compiler import list_shown_inputs
from fathom.services.datafetch.query.units import PER_EURO, Conversion
from fathom.services.datafetch.warehouse.database import SeriesFacts

# A sheet of hundreds of companies must stay small.
MAX_NAMES = 8
PERIOD_NAMES = {
    Frequency.WEEKLY: "week",
    Frequency.MONTHLY: "month",
    Frequency.QUARTERLY: "quarter",
    Frequency.ANNUAL: "year",
}

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip


def find_empty(column: Any) -> Any:
    """Return which cells of a column have no value, as an Arrow array of booleans."""
    import pyarrow.compute as compute

    # NaN as well: sources use it for a missing value beside null.
    return compute.is_null(column, nan_is_null=True)


def describe_column(table: Any, name: str) -> Column:
    """Return a column without provenance: a key, or a column of a caller's own statement."""
    return Column(name, str(table.schema.field(name).type), nulls=table.column(name).null_count)


def make_sheet(table: Any, title: str, columns: Sequence[Column]) -> Sheet:
    """Return a sheet whose id is the hash of its content."""
    # Metadata (pandas writes its own, by version) must not change the id of equal data.
    arrow = frames.write_table(table.replace_schema_metadata(None))
    ident = f"t{sha256(arrow)[:24]}"
    return Sheet(ident, title, tuple(columns), table.num_rows, frames.digest(frames.from_arrow(arrow), ident), arrow)


def describe_columns(table: Any, part: Part, layer: Layer, query: Query, layout: str) -> list[Column]:
    """Return the columns of a part's table with units, sources and formulas."""
    found: dict[str, Column] = {}
    for entity in part.entities:
        prefix = "" if layout == "long" else f"{entity.id}."
        owner = "" if layout == "long" else entity.id
        measures = [measure for measure in part.measures if (entity.id, measure.spec.id) in part.cells]
        for measure in measures:
            for name, statistic in list_column_names(prefix, measure, query, layout):
                if name in table.column_names and name not in found:
                    column = describe_measure(table, name, owner, measure, part, entity.id)
                    found[name] = (
                        describe_statistic(column, measure, statistic, part.frequency) if statistic else column
                    )
                    if statistic and query.outer:
                        found[name] = describe_group_statistic(found[name], query)
        for ident in list_shown_inputs(part, entity.id):
            name = f"{prefix}{ident}"
            if name in table.column_names and name not in found:
                stored = Measure(layer.indicators[ident], Leaf(ident), (), Conversion(), Transform.NONE)
                found[name] = describe_measure(table, name, owner, stored, part, entity.id)
    together, _ = statistics.name_combination(part, query)
    if together:
        found |= describe_combination(table, part, query, together)
    return [found.get(name) or describe_column(table, name) for name in table.column_names]


def list_column_names(prefix: str, measure: Measure, query: Query, layout: str) -> list[tuple[str, Statistic | None]]:
    """Return the columns of a measure in a layout, with their statistics."""
    if layout != "summary":
        return [(f"{prefix}{measure.spec.id}", None)]
    if query.outer in (Statistic.MEAN, Statistic.COUNT):
        inner = query.statistics[0]
        return [(f"{prefix}{query.outer}({inner}({measure.spec.id}))", inner)]
    wanted = [item for item in query.statistics if query.every or query.kind or item not in ROWS]
    return [(f"{prefix}{item}({measure.spec.id})", item) for item in wanted]


def describe_statistic(column: Column, measure: Measure, statistic: Statistic, density: Frequency) -> Column:
    """Return the column of a statistic, with its unit and formula."""
    unit = statistics.find_unit(statistic, column.unit, density)
    inputs = column.inputs or (measure.spec.id,)
    return replace(column, unit=unit, formula=f"{statistic}({column.formula or measure.spec.id})", inputs=inputs)


def describe_group_statistic(column: Column, query: Query) -> Column:
    """Return the column of a statistic over the periods' statistics."""
    unit = statistics.find_unit(Statistic.COUNT, "", query.every) if query.outer == Statistic.COUNT else column.unit
    return replace(column, unit=unit, formula=f"{query.outer}({column.formula} of each period, {query.every})")


def describe_combination(table: Any, part: Part, query: Query, together: str) -> dict[str, Column]:
    """Return the columns of the combination of two series and of its statistics."""
    measures = {measure.spec.id: measure for measure in part.measures}
    pair = [
        describe_measure(table, f"{entity}.{indicator}", entity, measures[indicator], part, entity)
        for entity, indicator in statistics.list_cells(part)
    ]
    one, other = pair
    whole = Column(
        together, "double", statistics.find_combined_unit(query, (one.entity, other.entity), (one.unit, other.unit)),
        str(query.combination), one.entity, ", ".join(dict.fromkeys((one.source, other.source))),
        min(one.as_of, other.as_of), 0, together, (one.name, other.name),
        ", ".join(dict.fromkeys((one.vendor, other.vendor))),
    )  # fmt: skip
    names = {f"{item}({together})": item for item in query.statistics if item not in ROWS or query.every}
    found = {
        name: replace(whole, name=name, formula=name, unit=statistics.find_unit(item, whole.unit, part.frequency))
        for name, item in names.items()
    } | {together: whole}
    return {
        name: replace(column, nulls=table.column(name).null_count)
        for name, column in found.items()
        if name in table.column_names
    }


def describe_measure(table: Any, name: str, entity: str, measure: Measure, part: Part, member: str) -> Column:
    """Return the column of a measure; ``member`` is the entity whose sources are named."""
    # The parts of a combination are described even when the sheet shows only their difference.
    bare = describe_column(table, name) if name in table.column_names else Column(name, "double")
    leaves = measure.inputs or (measure.spec.id,)
    facts = [part.facts[member, leaf][1] for leaf in leaves if (member, leaf) in part.facts]
    unit = measure.conversion.unit or (facts[0].unit if facts and not measure.formula else measure.spec.unit)
    if measure.conversion.target and facts and facts[0].unit.startswith(f"{measure.conversion.source} "):
        # Only the currency changes: "USD per barrel" becomes "EUR per barrel".
        unit = facts[0].unit.replace(measure.conversion.source, measure.conversion.target, 1)
    crossed = is_cross_rate(measure)
    if crossed:
        unit = f"{member} {unit}"
    if measure.transform == Transform.CHANGE:
        unit = statistics.find_unit(Statistic.CHANGE, unit, part.frequency)
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
        # A transformed value, such as a rate of change, stands for something else than its inputs.
        basis="quotient of two reference rates of the day"
        if crossed
        else ""
        if measure.spec.formula or measure.transform
        else ", ".join(dict.fromkeys(fact.basis for fact in facts if fact.basis)),
        resampling=describe_resampling(measure, part, facts),
        entity_names=next((list_names(one, one.aliases) for one in part.entities if one.id == entity), ()),
        indicator_names=list_names(measure.spec, measure.spec.synonyms),
        adverse=measure.spec.adverse,
    )


def is_cross_rate(measure: Measure) -> bool:
    """Return whether a measure is the rate of one currency for another one than the euro."""
    return bool(measure.conversion.target) and measure.spec.unit == PER_EURO


def list_names(spec: EntitySpec | IndicatorSpec, others: Sequence[str]) -> tuple[str, ...]:
    """Return at most ``MAX_NAMES`` names of an entity or indicator, its own ones first."""
    return tuple(dict.fromkeys(name for name in (spec.name, spec.name_zh, *others) if name))[:MAX_NAMES]


def describe_resampling(measure: Measure, part: Part, facts: Sequence[SeriesFacts]) -> str:
    """Return how values finer than the part's frequency became one, e.g. "last value of each month"; "" for none."""
    finer = [fact for fact in facts if fact.frequency != part.frequency]
    if not finer or part.frequency not in PERIOD_NAMES:
        return ""
    rule = measure.spec.aggregate if part.regular else "last"
    return f"{rule if rule != 'last' else 'last value'} of each {PERIOD_NAMES[part.frequency]}"


def select_columns(table: Any, query: Query) -> Any:
    """Return the key columns of a one-row summary and the first ``limit`` values that pass the filters, sorted.

    Return None when no value passes.
    """
    keys = [name for name in table.column_names if name in ("from", "to")]
    values = {name: table.column(name)[0].as_py() for name in table.column_names if name not in keys}
    # NaN is the one value that differs from itself.
    there = [name for name, value in values.items() if value is not None and value == value]
    there = [name for name in there if all(COMPARE[item.operator](values[name], item.value) for item in query.filters)]
    if not there:
        return None
    # Equal values are ordered by name, so that the answer does not depend on the order of columns.
    order = sorted(there, key=lambda name: (-values[name] if query.descending else values[name], name))
    return table.select([*keys, *order[: query.limit or len(order)]])

"""Meanings of columns as messages."""

from __future__ import annotations

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.datafetch.programs.own import OwnMeaning
from fathom.services.datafetch.semantics.applying import name_periods, name_series
from fathom.services.datafetch.semantics.meaning import Aggregation, ColumnMeaning, Role, TableMeaning
from fathom.services.datafetch.semantics.proposing import name_measure

# As many as a table may have.
MOST_COLUMNS = 1_000
UNSPECIFIED = "UNSPECIFIED"


def meaning_to_proto(meaning: TableMeaning) -> pb.TableMeaning:
    """Return a meaning as a message."""
    return pb.TableMeaning(
        columns=[
            pb.ColumnMeaning(
                column=one.column,
                role=f"COLUMN_ROLE_{one.role.upper()}",
                names=one.names,
                unit=one.unit,
                aggregation=f"AGGREGATION_{one.aggregation.upper() or UNSPECIFIED}",
                year=one.year,
                indicator=one.indicator,
                period=one.period,
            )
            for one in meaning.columns
        ]
    )


def meaning_from_proto(message: pb.TableMeaning) -> TableMeaning:
    """Return a meaning; raises ``InvalidField`` for a role that is not said, and for too many columns."""
    if len(message.columns) > MOST_COLUMNS:
        raise InvalidField("meaning.columns", f"must be at most {MOST_COLUMNS:,}")
    found = []
    for place, one in enumerate(message.columns):
        if one.role not in pb.ColumnRole.values() or not one.role:
            raise InvalidField(f"meaning.columns[{place}].role", "must be date, label, value or ignored")
        if one.aggregation not in pb.Aggregation.values():
            raise InvalidField(f"meaning.columns[{place}].aggregation", "must be last, sum, mean or none")
        role = Role(pb.ColumnRole.Name(one.role).removeprefix("COLUMN_ROLE_").lower())
        way = pb.Aggregation.Name(one.aggregation).removeprefix("AGGREGATION_")
        aggregation = Aggregation("" if way == UNSPECIFIED else way.lower())
        names = tuple(one.names)
        found.append(ColumnMeaning(one.column, role, names, one.unit, aggregation, one.year, one.indicator, one.period))
    return TableMeaning(tuple(found))


def list_own_meanings(sheet: pb.Sheet, meaning: TableMeaning) -> dict[str, OwnMeaning]:
    """Return what the columns of a sheet mean that was made with a meaning, by their names."""
    kind = meaning.label.name if meaning.label else ""
    ways = {one.name: one.aggregation for one in meaning.values}
    lengths = {measure: name_periods(months) for measure, months in meaning.list_lengths().items()}
    found = {}
    for column in sheet.columns:
        if not column.indicator_names:
            continue
        measure = column.indicator_names[0]
        names = {name_series(column.entity, measure, per): months for months, per in lengths.get(measure, {}).items()}
        found[column.name] = OwnMeaning(
            column.unit,
            tuple(column.indicator_names),
            column.entity,
            kind,
            ways.get(measure) is Aggregation.SUM,
            names.get(column.name, 0),
            ways.get(measure) is Aggregation.LAST,
            is_of_file=measure == name_measure(sheet.title),
        )
    return found

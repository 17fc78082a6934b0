"""Conversion between protobuf messages and the model, without logic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

from fathom.api.common.v1.common_pb2 import MissingItem
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.schema import EntitySpec, IndicatorSpec
from fathom.services.datafetch.parser.mention import Mention
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import Gap
from fathom.services.datafetch.programs.wording import describe_steps
from fathom.services.datafetch.query.model import (
    Basis,
    Column,
    Filter,
    Frequency,
    Match,
    Missing,
    Query,
    Sheet,
    Transform,
)
from fathom.services.datafetch.query.periods import Period, label, split

# By name: the model's order of frequencies must not depend on the contract's numbers.
FREQUENCIES = {f"FREQUENCY_{item.name}" if item else "FREQUENCY_UNSPECIFIED": item for item in Frequency}
TRANSFORMS = {f"TRANSFORM_{item.name}" if item else "TRANSFORM_UNSPECIFIED": item for item in Transform}
OPERATORS = ("<", "<=", "=", "!=", ">=", ">")
VINTAGES = ("", "latest", "first")
# In place of an indicator: rows in the order of time.
BY_DATE = "date"


def parse_day(text: str, field: str) -> date | None:
    """Parse an ISO date; None for "". Raises ``InvalidField(field)``."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise InvalidField(field, f"{text!r} is no ISO date") from error


def query_from_proto(typed: pb.TypedQuery) -> Query:
    # Without any name there is nothing to compute, and an empty answer would look like missing data.
    if not typed.entities and not typed.indicators and not typed.entity_kind:
        raise InvalidField("typed", "name at least one entity or indicator")
    if typed.limit < 0:
        raise InvalidField("typed.limit", "must not be negative")
    if typed.vintage not in VINTAGES:
        raise InvalidField("typed.vintage", "must be latest or first")
    if typed.descending and not typed.order_by:
        raise InvalidField("typed.descending", "needs order_by, the indicator that rows are ordered by")
    if typed.entities and typed.entity_kind:
        raise InvalidField("typed.entity_kind", "names all entities of a kind; leave out entities, or the kind")
    if typed.include_previous and not typed.start_date:
        raise InvalidField("typed.include_previous", "needs a start_date, before which the row lies")
    # Whoever asks for five rows of a series means the newest ones.
    is_first = bool(typed.order_by) and not (typed.order_by == BY_DATE and typed.descending)
    return Query(
        tuple(typed.entities),
        tuple(typed.indicators),
        parse_day(typed.start_date, "typed.start_date"),
        parse_day(typed.end_date, "typed.end_date"),
        FREQUENCIES[get_enum_name(pb.Frequency, typed.frequency, "typed.frequency")],
        typed.limit if is_first else 0,
        TRANSFORMS[get_enum_name(pb.Transform, typed.transform, "typed.transform")],
        tuple(filter_from_proto(item) for item in typed.filters),
        typed.order_by if typed.order_by != BY_DATE else "",
        typed.descending and typed.order_by != BY_DATE,
        typed.unit,
        typed.currency,
        typed.entity_kind,
        Basis.FISCAL if typed.fiscal else Basis.CALENDAR,
        typed.vintage or "latest",
        tail=0 if is_first else typed.limit,
        previous=typed.include_previous,
    )


def get_enum_name(enum: Any, value: int, field: str) -> str:
    """Return the name of an enum value; raises ``InvalidField(field)`` for a number that the contract lacks."""
    try:
        # proto3 enums are open: a newer client may send a number that this version does not know.
        return str(enum.Name(value))
    except ValueError as error:
        raise InvalidField(field, f"{value} is unknown") from error


def filter_from_proto(item: pb.ValueFilter) -> Filter:
    if item.operator not in OPERATORS:
        raise InvalidField("typed.filters.operator", f"must be one of {' '.join(OPERATORS)}")
    return Filter(item.indicator, item.operator, item.value)


def query_to_proto(query: Query) -> pb.TypedQuery:
    names = {item: name for name, item in FREQUENCIES.items()}
    transforms = {item: name for name, item in TRANSFORMS.items()}
    # A query in the stored frequency is shown by years: its own labels would be as many as its rows.
    periods = split(Period(query.start, query.end), query.frequency or Frequency.ANNUAL)
    return pb.TypedQuery(
        entities=query.entities,
        indicators=query.indicators,
        start_date=query.start.isoformat() if query.start else "",
        end_date=query.end.isoformat() if query.end else "",
        frequency=names[query.frequency],
        limit=query.limit or query.tail,
        transform=transforms[query.transform],
        filters=[pb.ValueFilter(indicator=f.indicator, operator=f.operator, value=f.value) for f in query.filters],
        order_by=query.order or (BY_DATE if query.limit else ""),
        descending=query.descending,
        unit=query.unit,
        currency=query.currency,
        entity_kind=query.kind,
        fiscal=query.basis == Basis.FISCAL,
        vintage=query.vintage,
        periods=[label(part) for part in periods] if query.start and query.end else [],
        include_previous=query.previous,
    )


def match_to_proto(item: Match) -> pb.NameMatch:
    return pb.NameMatch(surface=item.surface, id=item.id, score=item.score, how=item.how, others=item.others)


def mention_to_proto(item: Mention, question: str) -> pb.Mention:
    return pb.Mention(
        kind=f"MENTION_KIND_{item.kind}",
        start=item.start,
        end=item.end,
        text=question[item.start : item.end],
        value=item.value,
        confidence=item.confidence,
    )


def missing_to_proto(item: Missing) -> MissingItem:
    return MissingItem(
        subject=item.subject,
        aspect=item.aspect,
        period=item.period,
        reason=f"MISSING_REASON_{item.reason}",
        nearest=item.nearest,
        detail=item.detail,
    )


def sheet_to_proto(sheet: Sheet) -> pb.Sheet:
    columns = [
        pb.Column(
            name=column.name,
            type=column.type,
            unit=column.unit,
            indicator=column.indicator,
            entity=column.entity,
            source=column.source,
            nulls=column.nulls,
            as_of=column.as_of,
            formula=column.formula,
            vendor=column.vendor,
            inputs=column.inputs,
            basis=column.basis,
            resampling=column.resampling,
            entity_names=column.entity_names,
            indicator_names=column.indicator_names,
            adverse=column.adverse,
        )
        for column in sheet.columns
    ]
    return pb.Sheet(id=sheet.id, title=sheet.title, columns=columns, rows=sheet.rows, digest=sheet.digest)


def column_from_proto(column: pb.Column) -> Column:
    return Column(
        column.name,
        column.type,
        column.unit,
        column.indicator,
        column.entity,
        column.source,
        column.as_of,
        column.nulls,
        column.formula,
        tuple(column.inputs),
        column.vendor,
        basis=column.basis,
        resampling=column.resampling,
        entity_names=tuple(column.entity_names),
        indicator_names=tuple(column.indicator_names),
        adverse=column.adverse,
    )


def entity_to_proto(spec: EntitySpec) -> pb.Entity:
    return pb.Entity(id=spec.id, name=spec.name, name_zh=spec.name_zh, kind=spec.kind, aliases=spec.aliases)


def indicator_to_proto(spec: IndicatorSpec) -> pb.Indicator:
    return pb.Indicator(
        id=spec.id,
        name=spec.name,
        name_zh=spec.name_zh,
        unit=spec.unit,
        frequency=f"FREQUENCY_{spec.frequency.upper() or 'UNSPECIFIED'}",
        formula=spec.formula,
        synonyms=spec.synonyms,
    )


def program_to_proto(program: ProgramReading, own: Collection[str] = (), unused: Sequence[Gap] = ()) -> pb.Program:
    """Return a program; series of the sheets in ``own`` are given by sheet and column."""
    labels = describe_steps(program.steps, {one.name: one.words for one in program.series}, program.last)
    return pb.Program(
        text=program.text,
        kind=program.kind,
        confidence=program.confidence,
        link_confidence=program.link_confidence,
        steps=program.steps,
        series=[
            pb.ProgramSeries(
                name=one.name, sheet_id=one.entity, column=one.indicator, words=one.words, is_rows=one.is_rows
            )
            if one.entity in own
            else pb.ProgramSeries(name=one.name, entity=one.entity, indicator=one.indicator, words=one.words)
            for one in program.series
        ],
        missing=[gap_to_proto(one) for one in program.missing],
        words=program.words,
        assumptions=[pb.ProgramAssumption(words=one.words, columns=one.columns) for one in program.assumptions],
        labels=[pb.ProgramLabel(english=english, chinese=chinese) for english, chinese in labels],
        unused=[gap_to_proto(one) for one in unused],
    )


def gap_to_proto(gap: Gap) -> pb.ProgramGap:
    return pb.ProgramGap(words=gap.words, reason=gap.reason, detail=gap.detail)

"""Index of tables that a cell computed: their rows belong to the name or the period that their first columns give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from fathom.domain import frames
from fathom.services.planner.answering.verification.dates import find_moments

if TYPE_CHECKING:
    from fathom.services.planner.answering.verification.evidence import Series, Source

# Tables of results have few rows; one with more names is data, whose rows are not told apart.
MAX_LABELS = 200
FIRST_YEAR, LAST_YEAR = 1800, 2200


def index_row_days(table: Any) -> list[date] | None:
    """Return the first day of each row's period, from a column of years or of texts such as 2020Q1; None without one.

    A missing period is ``date.min``.
    """
    pa = frames.arrow()
    for field in table.schema:
        values = table.column(field.name).to_pylist()
        known = [value for value in values if value is not None]
        if not known:
            continue
        if pa.types.is_integer(field.type) and all(FIRST_YEAR <= value <= LAST_YEAR for value in known):
            return [date(value, 1, 1) if value is not None else date.min for value in values]
        if pa.types.is_string(field.type):
            days = [read_period(value) for value in values]
            if all(day is not None for day in days):
                return [day or date.min for day in days]
    return None


def read_period(text: str | None) -> date | None:
    """Return the first day of a text that is nothing but a period; None for any other text."""
    moments = find_moments(text or "")
    if len(moments) != 1 or moments[0].text.strip() != (text or "").strip():
        return None
    return moments[0].first


def list_row_names(table: Any) -> list[str] | None:
    """Return the name of each row, from the first column of texts that are no periods; None without one."""
    pa = frames.arrow()
    for field in table.schema:
        if not pa.types.is_string(field.type):
            continue
        names = [" ".join((value or "").split()) for value in table.column(field.name).to_pylist()]
        if len(set(names)) <= MAX_LABELS and any(char.isalpha() for name in names for char in name):
            return None if all(read_period(name) for name in names) else names
    return None


def split_rows(series: Sequence[Series], names: Sequence[str], kept: Mapping[str, Any]) -> list[Series]:
    """Return the series by the name of their rows; ``kept`` has the mask of each series' rows by its name.

    A column of one entity stays whole.
    """
    out: list[Series] = []
    for whole in series:
        if whole.entity:
            out.append(whole)
            continue
        rows = [name for name, keep in zip(names, kept[whole.name], strict=True) if keep]
        for label in dict.fromkeys(rows):
            chosen = [place for place, name in enumerate(rows) if name == label]
            days = tuple(whole.days[place] for place in chosen) if whole.days is not None else None
            out.append(replace(whole, entity=label, values=whole.values[chosen], days=days))
    return out


def join_sources(sources: Sequence[Source], origins: Mapping[int, int]) -> tuple[Source, ...]:
    """Return the sources in which a row's name is the entity that another source calls so, and cells have their tables.

    ``origins`` gives the cell of each computed sheet by their numbers: whoever cites the cell cites its tables.
    """
    names = {
        name.casefold(): entity
        for source in sources
        if source.number not in origins
        for entity, known in source.aliases.items()
        for name in known
    }
    linked = {source.number: link_names(source, names) if source.number in origins else source for source in sources}
    for number, cell in origins.items():
        if number in linked and cell in linked:
            table, code = linked[number], linked[cell]
            linked[cell] = replace(
                code,
                lines=(*code.lines, *table.lines),
                series=(*code.series, *table.series),
                moments=(*code.moments, *table.moments),
                partial=code.partial or table.partial,
            )
    return tuple(linked[source.number] for source in sources)


def link_names(source: Source, names: Mapping[str, str]) -> Source:
    """Return a computed table whose rows belong to entities of other sources, where they have one of their names."""
    series = tuple(replace(one, entity=find_entity_of(one.entity, names)) for one in source.series)
    aliases = {name: known for name, known in source.aliases.items() if find_entity_of(name, names) == name}
    return replace(source, series=series, aliases=aliases)


def find_entity_of(label: str, names: Mapping[str, str]) -> str:
    """Return the entity that a row's label names, also as the column ``AAPL.close_adj``; else the label itself."""
    low = label.casefold()
    return names.get(low) or names.get(low.partition(".")[0]) or label

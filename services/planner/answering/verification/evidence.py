"""Indexing of material for verification: numbers, dates and table columns by source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date
from typing import Any

from fathom.core.errors import FathomError
from fathom.domain import frames
from fathom.services.planner.answering.verification.computed import (
    index_row_days,
    join_sources,
    list_row_names,
    split_rows,
)
from fathom.services.planner.answering.verification.dates import Moment, find_moments, find_ranges
from fathom.services.planner.answering.verification.numbers import SCALES, Number, find_numbers
from fathom.services.planner.answering.verification.units import PER, find_column_denominator
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref

# Limits in characters and cells: verification must take milliseconds, whatever a tool has returned.
MAX_TEXT = 200_000
MAX_LINE = 2_000
MAX_CELLS = 5_000_000
# Larger scales first: "trillion" contains no other, but 万亿 contains both 万 and 亿.
UNIT_SCALES = (
    (re.compile(r"\btrillion|\btril\b|万亿", re.IGNORECASE), 1e12),
    (re.compile(r"\bbillion|\bbil\b|\bbn\b", re.IGNORECASE), 1e9),
    (re.compile(r"\bmillion|\bmil\b|\bmn\b|百万", re.IGNORECASE), 1e6),
    (re.compile(r"\bthousand|\bthous\b|千", re.IGNORECASE), 1e3),
    (re.compile(r"亿"), SCALES["亿"]),
    (re.compile(r"万"), SCALES["万"]),
)
SENTENCE = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z0-9])|(?<=[。！？；])|\n+")


@dataclass(frozen=True)
class Line:
    """A printed line or a sentence with its numbers and dates."""

    text: str
    numbers: tuple[Number, ...]
    moments: tuple[Moment, ...]


@dataclass(frozen=True)
class Series:
    """A numeric column: ``values`` is a float64 array [n] without nulls, ``days`` its n dates, or None."""

    name: str
    entity: str
    unit: str
    scale: float
    values: Any
    days: tuple[date, ...] | None
    is_adverse: bool = False
    """True where a rise is bad, as of unemployment."""
    per: str = ""
    """Denominator of a value, as ``denominators`` names it."""


@dataclass(frozen=True)
class Source:
    """Indexed content of one material. ``about`` holds its title, columns and units."""

    number: int
    kind: MaterialKind
    about: Line
    lines: tuple[Line, ...] = ()
    series: tuple[Series, ...] = ()
    moments: tuple[Moment, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names by entity id."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Quantity that the columns measure, by their names, as the title says it."""
    rows: int = 0
    partial: bool = False
    """True when only the digest of a sheet could be read."""

    @property
    def text(self) -> str:
        return "\n".join((self.about.text, *(line.text for line in self.lines)))


def index_line(text: str) -> Line:
    """Index the first ``4 * MAX_LINE`` characters of a text; numbers that are parts of a date are excluded."""
    text = text[: 4 * MAX_LINE]
    moments = find_moments(text)
    numbers = [number for number in find_numbers(text) if not is_inside(number, moments)]
    return Line(text, tuple(numbers), tuple(find_ranges(text, moments)))


def is_inside(number: Number, moments: Sequence[Moment]) -> bool:
    """Return whether a number is part of a date; a bare year counts as a number as well."""
    return any(m.start <= number.start and number.end <= m.stop and len(m.text) > 4 for m in moments)


def index_lines(text: str) -> tuple[Line, ...]:
    """Split a text of at most ``MAX_TEXT`` characters into indexed sentences and lines."""
    return tuple(index_line(part) for long in SENTENCE.split(text[:MAX_TEXT]) for part in split_long_line(long))


def split_long_line(text: str) -> Iterator[str]:
    """Yield a long line in parts of at most ``MAX_LINE`` characters, cut after a space or comma."""
    while len(text) > MAX_LINE:
        cut = max(text.rfind(" ", 1, MAX_LINE), text.rfind(",", 1, MAX_LINE)) + 1 or MAX_LINE
        yield text[:cut].strip()
        text = text[cut:]
    if text.strip():
        yield text.strip()


class Evidence:
    """Index of material, built once per item; sheets are loaded with all rows."""

    def __init__(self, store: ObjectStore | None) -> None:
        """Create the index; without a ``store``, sheets are known by their digest only."""
        self._store = store
        self._known: dict[int, Source] = {}

    async def gather(self, material: Sequence[Material]) -> tuple[Source, ...]:
        """Return the sources in the order of the material; a sheet that cannot be read falls back to its digest."""
        for item in material:
            if item.number not in self._known:
                self._known[item.number] = await self._index(item)
        found = [self._known[item.number] for item in material]
        origins = {item.number: item.computed_by for item in material if is_computed(item)}
        return join_sources(found, origins) if origins else tuple(found)

    async def _index(self, material: Material) -> Source:
        if material.kind is MaterialKind.SHEET:
            return await self._index_sheet(material)
        if material.kind is MaterialKind.CODE:
            return index_code(material)
        if material.kind is MaterialKind.PASSAGE:
            return index_passage(material)
        item = material.item
        said = item if isinstance(item, Mapping) else {name: getattr(item, name) for name in MISSING_FIELDS}
        text = " ".join(str(said.get(name, "")) for name in MISSING_FIELDS)
        about = index_line(text)
        return Source(material.number, MaterialKind.MISSING, about, moments=about.moments)

    async def _index_sheet(self, material: Material) -> Source:
        sheet = material.item
        try:
            # A table of this size takes seconds to search. Known by its digest alone, it lets numbers pass that are not
            # found.
            if self._store is None or sheet.rows * len(sheet.columns) > MAX_CELLS:
                return index_sheet(material, None)
            stored = await read_ref(self._store, sheet.data)
            return index_sheet(material, frames.decode_table(stored, sheet.data.content_type, sheet.id))
        except FathomError:
            # The check is a service to the reader, not a condition of the answer.
            return index_sheet(material, None)


MISSING_FIELDS = ("subject", "aspect", "period", "detail")


def is_computed(material: Material) -> bool:
    """Return whether a sheet is a table of results, of this run or of an earlier turn."""
    return bool(material.computed_by or material.computed_from)


def index_sheet(material: Material, table: Any) -> Source:
    """Index a sheet with its Arrow table, or with its digest when ``table`` is None."""
    sheet = material.item
    columns = [f"{column.name} {column.unit} {column.source} {column.as_of}" for column in sheet.columns]
    about = index_line("; ".join([material.variable, sheet.title, *columns]))
    names = find_aliases(sheet)
    if table is None:
        lines = index_lines(sheet.digest)
        moments = (*about.moments, *(moment for line in lines for moment in line.moments))
        return Source(
            material.number, MaterialKind.SHEET, about, lines, (), moments, names, rows=sheet.rows, partial=True
        )
    days, series, lines = index_table(sheet, table, is_computed(material))
    if is_computed(material):
        labels = {one.entity for one in series if one.entity} - set(names)
        names = {**names, **{label: (label,) for label in labels}}
    moments = (*about.moments, *(Moment(0, 0, day.isoformat(), day, day) for day in sorted(set(days))))
    measured = find_labels(sheet)
    return Source(material.number, MaterialKind.SHEET, about, lines, series, moments, names, measured, table.num_rows)


def index_table(
    sheet: Any, table: Any, by_rows: bool = False
) -> tuple[list[date], tuple[Series, ...], tuple[Line, ...]]:
    """Return all dates, the numeric columns, and the texts of string columns.

    With ``by_rows``, rows belong to the name or period in their first columns.
    """
    pa = frames.arrow()
    days: list[date] | None = None
    others: list[date] = []
    lines: list[Line] = []
    for field_ in table.schema:
        if pa.types.is_temporal(field_.type):
            found = [to_day(value) for value in table.column(field_.name).to_pylist()]
            if days is None:
                days = found
            else:
                others += found
        elif pa.types.is_string(field_.type) or pa.types.is_large_string(field_.type):
            texts = dict.fromkeys(str(value) for value in table.column(field_.name).to_pylist()[:5_000] if value)
            lines.extend(index_line(text) for text in texts)
    if by_rows and days is None:
        days = index_row_days(table)
    facts = {column.name: column for column in sheet.columns}
    series, masks = [], {}
    for field_ in table.schema:
        if not (
            pa.types.is_integer(field_.type) or pa.types.is_floating(field_.type) or pa.types.is_decimal(field_.type)
        ):
            continue
        values = table.column(field_.name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        # NaN is not equal to itself; nulls become NaN.
        kept = masks[field_.name] = values == values
        fact = facts.get(field_.name)
        unit = name_unit(fact) if fact else ""
        own = tuple(day for day, keep in zip(days, kept, strict=True) if keep) if days is not None else None
        owner, is_adverse = (fact.entity, fact.adverse) if fact else ("", False)
        per = find_column_denominator(unit, " ".join(fact.indicator_names) if fact else "")
        series.append(Series(field_.name, owner, unit, find_unit_scale(unit), values[kept], own, is_adverse, per))
    # A row with a peak and a trough belongs to both days.
    if others:
        series = [replace(one, days=None) for one in series]
    row_names = list_row_names(table) if by_rows else None
    if row_names is not None:
        series = split_rows(series, row_names, masks)
    return [day for day in (*(days or ()), *others) if day != date.min], tuple(series), tuple(lines)


def to_day(value: Any) -> date:
    """Return the day of a date or datetime; ``date.min`` for null or any other value."""
    if value is None:
        return date.min
    return value.date() if hasattr(value, "date") else value if isinstance(value, date) else date.min


def name_unit(column: Any) -> str:
    """Return the unit of a column; one that begins with "per" counts the column's entity, as the yen per euro."""
    return f"{column.entity} {column.unit}" if PER.match(column.unit) else column.unit


def find_unit_scale(unit: str) -> float:
    """Return the factor that a unit implies, e.g. 1e9 for "Bil. of $"; 1 by default."""
    return next((scale for pattern, scale in UNIT_SCALES if pattern.search(unit)), 1.0)


def find_aliases(sheet: Any) -> dict[str, tuple[str, ...]]:
    """Return the names of a sheet's entities by id, in all languages that the catalogue has."""
    listed = {column.entity: tuple(column.entity_names) for column in sheet.columns if column.entity}
    ids = list(dict.fromkeys(column.entity for column in sheet.columns if column.entity))
    named, colon, _ = sheet.title.partition(":")
    names = [name.strip() for name in re.split(r"[,，、;；]", named)] if colon else []
    # A title lists names in the order of the columns, as "Apple, Microsoft: adjusted close, …".
    if len(names) != len(ids):
        return {entity: tuple(dict.fromkeys((entity, *listed[entity]))) for entity in ids}
    named_by = zip(ids, names, strict=True)
    return {entity: tuple(dict.fromkeys((entity, name, *listed[entity]))) for entity, name in named_by}


def find_labels(sheet: Any) -> dict[str, str]:
    """Return what the columns measure by their names, from a title such as "United States: unemployment rate, …"."""
    inputs = {indicator for column in sheet.columns for indicator in column.inputs}
    shown = dict.fromkeys(c.indicator for c in sheet.columns if c.indicator and c.indicator not in inputs)
    titles = [label.strip() for label in re.split(r"[,，、;；]", sheet.title.partition(":")[2]) if label.strip()]
    by_indicator = dict(zip(shown, titles, strict=False))
    return {
        c.name: " ".join([by_indicator.get(c.indicator, ""), *c.indicator_names])
        for c in sheet.columns
        if c.indicator in shown
    }


def index_passage(material: Material) -> Source:
    """Index a document: its sentences, title and date of publication."""
    document = material.item
    published = document.publish_time.ToDatetime(UTC).date() if document.publish_time.seconds else None
    about = index_line(f"{document.title} {published or ''} {document.source} {' '.join(document.entities)}")
    lines = index_lines(document.text)
    moments = (*about.moments, *(moment for line in lines for moment in line.moments))
    return Source(material.number, MaterialKind.PASSAGE, about, lines, moments=moments)


def index_code(material: Material) -> Source:
    """Index an executed cell: its output, and the dates (but not the numbers) of its code."""
    record = material.item
    printed = [*record.stdout[:MAX_TEXT].splitlines(), *record.result[:MAX_TEXT].splitlines()]
    lines = tuple(index_line(part) for text in printed for part in split_long_line(decode_json_line(text)))
    # A cell that computes for 2020 supports a date of 2020, but a number typed into code supports nothing.
    dated = find_moments(record.code[:MAX_TEXT])
    moments = (*(moment for line in lines for moment in line.moments), *dated)
    return Source(material.number, MaterialKind.CODE, Line("", (), ()), lines, moments=moments)


def decode_json_line(text: str) -> str:
    """Decode the escapes of a JSON line; return any other text unchanged."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        # Cells print JSON with \u escapes, in which no name or unit would be found.
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text

"""What the material holds, in a form that a number or a date can be looked up in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date
from typing import Any

from fathom import frames
from fathom.errors import FathomError
from fathom.store import ObjectStore
from fathom.store.refs import read_ref
from services.planner.answering.dates import Moment, moments_in, ranges
from services.planner.answering.numbers import SCALES, Number, numbers_in
from services.planner.model import Kind, Material

MAX_TEXT = 200_000
MAX_LINE = 2_000
MAX_CELLS = 5_000_000
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
    """A printed line or a sentence, with what stands in it."""

    text: str
    numbers: tuple[Number, ...]
    moments: tuple[Moment, ...]


@dataclass(frozen=True)
class Series:
    """A numeric column: ``values`` is a float64 array without nulls, ``days`` its dates or None."""

    name: str
    entity: str
    unit: str
    scale: float
    values: Any
    days: tuple[date, ...] | None


@dataclass(frozen=True)
class Source:
    """One material. ``about`` names it: title, columns, units."""

    number: int
    kind: Kind
    about: Line
    lines: tuple[Line, ...] = ()
    series: tuple[Series, ...] = ()
    moments: tuple[Moment, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Entity id: its names."""
    rows: int = 0
    partial: bool = False
    """True when only the digest of a sheet could be read."""

    @property
    def text(self) -> str:
        return "\n".join((self.about.text, *(line.text for line in self.lines)))


def line_of(text: str) -> Line:
    """The line with its numbers and dates, of its first 8,000 characters; the parts of a date are no numbers."""
    text = text[: 4 * MAX_LINE]
    moments = moments_in(text)
    numbers = [number for number in numbers_in(text) if not inside(number, moments)]
    return Line(text, tuple(numbers), tuple(ranges(text, moments)))


def inside(number: Number, moments: Sequence[Moment]) -> bool:
    """Whether a number is a part of a date; a bare year may be either."""
    return any(m.start <= number.start and number.end <= m.stop and len(m.text) > 4 for m in moments)


def lines_of(text: str) -> tuple[Line, ...]:
    """The sentences and lines of a text of any length up to a bound."""
    return tuple(line_of(part) for long in SENTENCE.split(text[:MAX_TEXT]) for part in short_parts(long))


def short_parts(text: str) -> Iterator[str]:
    """A line in parts of a bounded length that end at a space or comma: a long list is read part by part."""
    while len(text) > MAX_LINE:
        cut = max(text.rfind(" ", 1, MAX_LINE), text.rfind(",", 1, MAX_LINE)) + 1 or MAX_LINE
        yield text[:cut].strip()
        text = text[cut:]
    if text.strip():
        yield text.strip()


class Evidence:
    """Reads material once; sheets by reference, with all their rows."""

    def __init__(self, store: ObjectStore | None) -> None:
        """Without a ``store`` a sheet is what its digest shows."""
        self._store = store
        self._known: dict[int, Source] = {}

    async def gather(self, material: Sequence[Material]) -> tuple[Source, ...]:
        """The sources in order; a table that cannot be read falls back to its digest."""
        for item in material:
            if item.number not in self._known:
                self._known[item.number] = await self._source(item)
        return tuple(self._known[item.number] for item in material)

    async def _source(self, material: Material) -> Source:
        if material.kind is Kind.SHEET:
            return await self._sheet(material)
        if material.kind is Kind.CODE:
            return code_source(material)
        if material.kind is Kind.PASSAGE:
            return passage_source(material)
        item = material.item
        said = item if isinstance(item, Mapping) else {name: getattr(item, name) for name in MISSING_FIELDS}
        text = " ".join(str(said.get(name, "")) for name in MISSING_FIELDS)
        about = line_of(text)
        return Source(material.number, Kind.MISSING, about, moments=about.moments)

    async def _sheet(self, material: Material) -> Source:
        sheet = material.item
        try:
            if self._store is None or sheet.rows * len(sheet.columns) > MAX_CELLS:
                return sheet_source(material, None)
            stored = await read_ref(self._store, sheet.data)
            return sheet_source(material, frames.read_stored(stored, sheet.data.content_type, sheet.id))
        except FathomError:
            # The check is a service to the reader, not a condition of the answer.
            return sheet_source(material, None)


MISSING_FIELDS = ("subject", "aspect", "period", "detail")


def sheet_source(material: Material, table: Any) -> Source:
    """A sheet with its Arrow table, or with its digest alone."""
    sheet = material.item
    columns = [f"{column.name} {column.unit} {column.source} {column.as_of}" for column in sheet.columns]
    about = line_of("; ".join([material.variable, sheet.title, *columns]))
    names = aliases(sheet)
    if table is None:
        lines = lines_of(sheet.digest)
        moments = (*about.moments, *(moment for line in lines for moment in line.moments))
        return Source(material.number, Kind.SHEET, about, lines, (), moments, names, sheet.rows, True)
    days, series, lines = table_parts(sheet, table)
    moments = (*about.moments, *(Moment(0, 0, day.isoformat(), day, day) for day in sorted(set(days))))
    return Source(material.number, Kind.SHEET, about, lines, series, moments, names, table.num_rows)


def table_parts(sheet: Any, table: Any) -> tuple[list[date], tuple[Series, ...], tuple[Line, ...]]:
    """All dates, the numeric columns, and the texts of the others."""
    pa = frames.arrow()
    days: list[date] | None = None
    lines: list[Line] = []
    for field_ in table.schema:
        if pa.types.is_temporal(field_.type) and days is None:
            days = [as_day(value) for value in table.column(field_.name).to_pylist()]
        elif pa.types.is_string(field_.type) or pa.types.is_large_string(field_.type):
            texts = dict.fromkeys(str(value) for value in table.column(field_.name).to_pylist()[:5_000] if value)
            lines.extend(line_of(text) for text in texts)
    facts = {column.name: column for column in sheet.columns}
    series = []
    for field_ in table.schema:
        if not (
            pa.types.is_integer(field_.type) or pa.types.is_floating(field_.type) or pa.types.is_decimal(field_.type)
        ):
            continue
        values = table.column(field_.name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        kept = values == values
        fact = facts.get(field_.name)
        unit = fact.unit if fact else ""
        own = tuple(day for day, keep in zip(days, kept, strict=True) if keep) if days is not None else None
        series.append(Series(field_.name, fact.entity if fact else "", unit, unit_scale(unit), values[kept], own))
    return [day for day in days or () if day != date.min], tuple(series), tuple(lines)


def as_day(value: Any) -> date:
    """The day of a date or time; the first day of all for a null."""
    if value is None:
        return date.min
    return value.date() if hasattr(value, "date") else value if isinstance(value, date) else date.min


def unit_scale(unit: str) -> float:
    """What a value of this unit is multiplied by: "Bil. of $" has 1e9."""
    return next((scale for pattern, scale in UNIT_SCALES if pattern.search(unit)), 1.0)


def aliases(sheet: Any) -> dict[str, tuple[str, ...]]:
    """Names of the sheet's entities: a title is "Apple, Microsoft: adjusted close, …" in the order of the columns."""
    ids = list(dict.fromkeys(column.entity for column in sheet.columns if column.entity))
    named, colon, _ = sheet.title.partition(":")
    names = [name.strip() for name in re.split(r"[,，、;；]", named)] if colon else []
    if len(names) != len(ids):
        return {entity: (entity,) for entity in ids}
    return {entity: (entity, name) for entity, name in zip(ids, names, strict=True)}


def passage_source(material: Material) -> Source:
    """A document: its sentences, its title, the day it was published."""
    document = material.item
    published = document.publish_time.ToDatetime(UTC).date() if document.publish_time.seconds else None
    about = line_of(f"{document.title} {published or ''} {document.source} {' '.join(document.entities)}")
    lines = lines_of(document.text)
    moments = (*about.moments, *(moment for line in lines for moment in line.moments))
    return Source(material.number, Kind.PASSAGE, about, lines, moments=moments)


def code_source(material: Material) -> Source:
    """A cell: what it printed and gave. Its source tells which dates it looked at, but no number that it found."""
    record = material.item
    printed = [*record.stdout[:MAX_TEXT].splitlines(), *record.result[:MAX_TEXT].splitlines()]
    lines = tuple(line_of(part) for text in printed for part in short_parts(flat(text)))
    dated = moments_in(record.code[:MAX_TEXT])
    moments = (*(moment for line in lines for moment in line.moments), *dated)
    return Source(material.number, Kind.CODE, Line("", (), ()), lines, moments=moments)


def flat(text: str) -> str:
    """A JSON line with its escapes read, anything else as it is."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text

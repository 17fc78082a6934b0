"""Conversion of a row of JSONL or Parquet to a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from fathom.services.retrieval.corpus.parse.model import Limits, ParsedDocument, ParseIssue, Unreadable

# In order of preference. ``contents`` with the title as its first line is the form of Search-R1's corpora,
# ``_id`` that of BEIR's.
TEXT = ("text", "contents", "content", "body", "正文", "内容")
NAMES = {
    "id": ("id", "_id", "doc_id"),
    "title": ("title", "headline", "标题"),
    "published": ("published", "published_at", "date", "time", "timestamp", "日期", "发布日期"),
    "type": ("type", "kind"),
    "language": ("language", "lang"),
    "url": ("url", "link"),
    "entities": ("entities",),
    "source": ("source",),
    "house": ("house", "broker", "institution", "机构", "研究机构", "券商"),
    "rating": ("rating", "recommendation", "评级", "投资评级"),
}
SCALARS = ("source", "type", "language", "url", "house", "rating")
KNOWN = {name for names in (*NAMES.values(), TEXT) for name in names}
DAYS = ("%Y/%m/%d", "%Y.%m.%d", "%Y年%m月%d日", "%Y%m%d", "%Y/%m/%d %H:%M:%S")
# A row may have thousands of columns, and metadata is held per document.
METADATA_VALUES = 64


def read_record(row: object, source: str, place: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield the document of a row, and an issue for each fault in it."""
    try:
        if not isinstance(row, Mapping):
            raise Unreadable(f"is {type(row).__name__}, not an object with fields")
        title, text = read_title_and_text(row, limits)
        identity = read_scalar(row, "id")
    except Unreadable as error:
        yield ParseIssue(source, place, str(error))
        return
    published: datetime | None = None
    entities: tuple[str, ...] = ()
    scalars = dict.fromkeys(SCALARS, "")
    faults: list[Unreadable] = []
    # One by one: a field that cannot be read costs neither its document nor the other fields.
    for field in scalars:
        try:
            scalars[field] = read_scalar(row, field)
        except Unreadable as error:
            faults.append(error)
    try:
        published = parse_time(get_first(row, NAMES["published"]))
    except Unreadable as error:
        faults.append(error)
    try:
        entities = read_names(get_first(row, NAMES["entities"]))
    except Unreadable as error:
        faults.append(error)
    for fault in faults:
        yield ParseIssue(source, place, str(fault), lost=False)
    yield ParsedDocument(
        text,
        scalars["source"] or source,
        place,
        identity,
        title,
        published,
        scalars["type"],
        scalars["language"],
        scalars["url"],
        entities,
        house=scalars["house"],
        rating=scalars["rating"],
        metadata=read_metadata(row),
    )


def read_title_and_text(row: Mapping[str, Any], limits: Limits) -> tuple[str, str]:
    """Return title and text; raise ``Unreadable`` without a text."""
    name = next((name for name in TEXT if row.get(name) is not None), None)
    if name is None:
        raise Unreadable(f"has no text: none of the fields {', '.join(TEXT)}")
    text = row[name]
    if not isinstance(text, str):
        raise Unreadable(f"field {name} is {type(text).__name__}, not text")
    if len(text) > limits.text_chars:
        raise Unreadable(f"field {name} has {len(text):,} characters, over the limit of {limits.text_chars:,}")
    title = read_scalar(row, "title")
    if name == "contents" and not title:
        title, _, text = text.partition("\n")
        title = title.strip().strip('"')
        # A row of a single line is its own text.
        text = text or title
    if not text.strip():
        raise Unreadable(f"field {name} is empty")
    return title, text


def get_first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def read_scalar(row: Mapping[str, Any], field: str) -> str:
    """Return a field as text; raise ``Unreadable`` for a list or an object."""
    value = get_first(row, NAMES[field])
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Unreadable(f"field {field} is {type(value).__name__}, not text")
    return str(value)


def read_names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise Unreadable("field entities is no list of names")


def parse_time(value: Any) -> datetime | None:
    """Parse a time: ISO 8601, common date formats, epoch seconds or milliseconds; UTC without a zone.

    Raises ``Unreadable`` for anything else.
    """
    if value is None:
        return None
    found: datetime | None = None
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = datetime(value.year, value.month, value.day)
    elif isinstance(value, str):
        found = parse_formats(value.strip())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = parse_epoch(float(value))
    if found is None:
        raise Unreadable(f"field published: {str(value)[:40]!r} is no time")
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parse_formats(text: str) -> datetime | None:
    for form in DAYS:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def parse_epoch(number: float) -> datetime | None:
    """Parse a number as a time: eight digits are a date, more than 1e11 are milliseconds, others seconds."""
    # As seconds these would be days of August 1970, which no corpus means.
    if 19_000_101 <= number <= 21_001_231 and number.is_integer():
        return parse_formats(str(int(number)))
    try:
        return datetime.fromtimestamp(number / 1000 if abs(number) > 1e11 else number, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def read_metadata(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the remaining fields whose values are scalar and short."""
    kept = ((name, row[name]) for name in row if isinstance(name, str) and name not in KNOWN)
    plain = ((name, str(value)) for name, value in kept if isinstance(value, str | int | float | date))
    return dict([(name, value) for name, value in plain if len(value) <= 1_000][:METADATA_VALUES])

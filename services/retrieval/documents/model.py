"""Documents, visibility filters, and the JSON rows that documents are read from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData
from fathom.core.ids import content_hash

DOCUMENTS = "documents.jsonl"
# Fields of passages, versions and reports, in a row as one field of a name that no corpus of others has.
PLACE, PLACE_FIELD = frozenset({"parent", "page", "offset", "key", "house", "rating", "ocr"}), "_place"
# Type of the row that says when a source was deleted, which no search shows; none that anybody would give a document.
DELETED = "_deleted"
# Ids go into error messages and page tokens; a text beyond five million characters is not one document.
MAX_ID_CHARS, MAX_TEXT_CHARS = 200, 5_000_000
# 96 bits of the hash: no two of a billion documents are likely to share them.
CONTENT_ID_CHARS = 24


@dataclass(frozen=True)
class Document:
    """One document, or a passage of a file; ``published`` is None when unknown.

    ``entities`` are ids in datafetch's format.
    """

    id: str
    title: str
    text: str
    published: datetime | None
    source: str
    type: str
    entities: tuple[str, ...]
    language: str = "en"
    parent: str = ""
    """Id that all passages of one version of a file share; "" for a whole document."""
    page: int = 0
    """Page of the file, or slide, from 1; 0 for a format without pages."""
    offset: int = 0
    """Place of the first character in the file's text."""
    key: str = ""
    """Name of the source of which this is one version; "" for what has no versions."""
    house: str = ""
    """House whose analysts wrote a report, as it is written there; "" for other documents."""
    rating: str = ""
    """Recommendation of a report, in its own word; "" for none."""
    ocr: float = 0.0
    """Confidence, up to 1, of a page that was read by character recognition; 0 for text that the file has itself."""

    @property
    def version(self) -> str:
        """Return the id that what came together shares."""
        return self.parent or self.id

    @property
    def is_deletion(self) -> bool:
        """Return whether this is no document, but the row that says that its source was deleted."""
        return self.type == DELETED and bool(self.key)

    @property
    def contents(self) -> str:
        """Return title in quotation marks, line break and text: the ``contents`` of a Search-R1 corpus row."""
        return f'"{self.title}"\n{self.text}'

    def to_row(self) -> dict[str, Any]:
        """Return the row that ``parse_document`` parses."""
        published = "" if self.published is None else self.published.isoformat()
        # Rows of whole documents stay as they were: snapshots are known by their bytes.
        row = {name: value for name, value in self.__dict__.items() if name not in PLACE}
        place = {name: self.__dict__[name] for name in PLACE if self.__dict__[name]}
        return {
            **row,
            "published": published,
            "entities": list(self.entities),
            **({PLACE_FIELD: place} if place else {}),
        }


@dataclass(frozen=True)
class Filter:
    """Restriction of documents that may be ranked and read.

    Empty sets allow all; entities, houses and ratings are compared case-insensitively. ``after`` is inclusive,
    ``before`` exclusive, ``as_of`` inclusive: nothing published later is visible.
    """

    sources: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    entities: frozenset[str] = frozenset()
    after: datetime | None = None
    before: datetime | None = None
    as_of: datetime | None = None
    houses: frozenset[str] = frozenset()
    ratings: frozenset[str] = frozenset()

    def allows(self, document: Document) -> bool:
        """Return True if the document passes."""
        if self.sources and document.source not in self.sources:
            return False
        if self.types and document.type not in self.types:
            return False
        wanted = {entity.casefold() for entity in self.entities}
        if wanted and not wanted & {entity.casefold() for entity in document.entities}:
            return False
        for said, among in ((document.house, self.houses), (document.rating, self.ratings)):
            if among and said.casefold() not in {name.casefold() for name in among}:
                return False
        if not (self.after or self.before or self.as_of):
            return True
        when = document.published
        # A document without a date passes no time filter: it may not have existed then.
        return when is not None and (
            (self.after is None or when >= self.after)
            and (self.before is None or when < self.before)
            and (self.as_of is None or when <= self.as_of)
        )


EVERYTHING = Filter()


def read_documents(folder: Path) -> list[Document]:
    """Read the corpus' documents; raise ``CorruptData`` naming the line for a bad row or a duplicate id."""
    path, documents, seen = folder / DOCUMENTS, [], set()
    for number, line in number_lines(path.read_bytes()):
        try:
            document = parse_document(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"{path}:{number}", f"{type(error).__name__} {error}") from error
        if document.id in seen:
            raise CorruptData(f"{path}:{number}", f"id {document.id!r} comes twice")
        seen.add(document.id)
        documents.append(document)
    if not documents:
        raise CorruptData(str(path), "holds no document")
    return documents


def number_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield lines that are not blank, with their numbers from 1."""
    start, number = 0, 0
    while start < len(data):
        # Only line feeds end a line: U+2028 is legal inside a JSON string.
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += 1
        if line := data[start:end].strip():
            yield number, line
        start = end + 1


def parse_document(row: Any) -> Document:
    """Parse a row as a document; raise ``ValueError`` saying what is wrong with it.

    Supported forms: our own; ``{"id", "contents"}`` of Search-R1 (first line is the title); ``{"_id", "title",
    "text"}`` of BEIR. ``published`` (or ``time``) is an ISO date or time, "" when unknown. A row without an id gets one
    from its content.
    """
    if not isinstance(row, dict):
        raise ValueError("is no object")
    title, text = read_title_and_text(row)
    fields = {name: row.get(name) or "" for name in ("source", "type")}
    entities = row.get("entities") or ()
    texts: dict[str, Any] = {"title": title, "text": text, **fields, "language": row.get("language") or "en"}
    for name, value in (*texts.items(), *(("entities", item) for item in entities)):
        if not isinstance(value, str):
            raise ValueError(f"{name} is no text")
        require_whole_characters(name, value)
    if not text.strip() and not title.strip():
        raise ValueError("title and text are empty")
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"text has more than {MAX_TEXT_CHARS:,} characters")
    published = parse_published(row)
    return Document(
        id=read_id(row, title, text), published=published, entities=tuple(entities), **texts, **read_place(row)
    )


def read_place(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a passage and of a version, as far as the row has them."""
    place = row.get(PLACE_FIELD) or {}
    if not isinstance(place, dict) or set(place) - PLACE:
        raise ValueError(f"{PLACE_FIELD} is no place of a passage")
    for name, value in place.items():
        wanted = {"page": int, "offset": int, "ocr": float}.get(name, str)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ValueError(f"{name} is no {'text' if wanted is str else 'number'}")
    return place


def require_whole_characters(name: str, text: str) -> None:
    """Raise ``ValueError`` for half of a character, which JSON can escape and no encoding can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has half of a character at position {error.start}") from error


def read_title_and_text(row: Mapping[str, Any]) -> tuple[str, str]:
    if "text" in row:
        return row.get("title") or "", row["text"] or ""
    if not isinstance(row.get("contents"), str):
        raise ValueError("has neither text nor contents")
    title, _, text = row["contents"].partition("\n")
    # The quotation marks belong to the format and are no part of the title.
    if len(title) > 1 and title.startswith('"') and title.endswith('"'):
        title = title[1:-1]
    return title, text


def read_id(row: Mapping[str, Any], title: str, text: str) -> str:
    ident = row.get("id", row.get("_id"))
    if ident is None:
        return f"doc-{hash_content(title, text)[:CONTENT_ID_CHARS]}"
    # Search-R1's corpora number their rows.
    if isinstance(ident, int) and not isinstance(ident, bool):
        ident = str(ident)
    if not isinstance(ident, str) or not 1 <= len(ident) <= MAX_ID_CHARS:
        raise ValueError(f"id must have 1 to {MAX_ID_CHARS} characters")
    require_whole_characters("id", ident)
    return ident


def make_deletion(key: str, when: datetime) -> Document:
    """Return the row that says that a source was deleted at an instant."""
    ident = f"doc-{content_hash([DELETED, key, when.isoformat()])[:CONTENT_ID_CHARS]}"
    return Document(ident, key, "", when, key, DELETED, (), key=key)


def hash_content(title: str, text: str) -> str:
    """Return a key that is equal for documents with the same stripped title and text; hexadecimal."""
    return content_hash([title.strip(), text.strip()])


def hash64(text: str) -> int:
    """Return a 64-bit key; callers must compare the text too."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def parse_published(row: Mapping[str, Any]) -> datetime | None:
    """Return the publication time in UTC, a date as its midnight; raise ``ValueError`` if it is not ISO."""
    value = row.get("published", row.get("time")) or ""
    if not isinstance(value, str):
        raise ValueError("published is no ISO date")
    if not value:
        return None
    # Only a date is that short.
    if len(value) <= len("2020-01-31"):
        day = date.fromisoformat(value)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    time = datetime.fromisoformat(value)
    # Times without a zone are compared with others, which needs one zone.
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)

"""Documents of a verified bundle, and what may be seen of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from fathom.errors import CorruptData

DOCUMENTS = "documents.jsonl"


@dataclass(frozen=True)
class Document:
    """One document; ``published`` is None when it is not known. ``entities`` are ids as datafetch writes them."""

    id: str
    title: str
    text: str
    published: datetime | None
    source: str
    type: str
    entities: tuple[str, ...]
    language: str = "en"


@dataclass(frozen=True)
class Filter:
    """What may be ranked and read. Empty sets allow all; entities are compared without regard to case.

    ``after`` is inclusive, ``before`` exclusive, ``as_of`` inclusive: nothing published later is seen.
    """

    sources: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    entities: frozenset[str] = frozenset()
    after: datetime | None = None
    before: datetime | None = None
    as_of: datetime | None = None

    def allows(self, document: Document) -> bool:
        """A document without a date passes no time filter: nobody can say that it was there."""
        if self.sources and document.source not in self.sources:
            return False
        if self.types and document.type not in self.types:
            return False
        wanted = {entity.casefold() for entity in self.entities}
        if wanted and not wanted & {entity.casefold() for entity in document.entities}:
            return False
        if not (self.after or self.before or self.as_of):
            return True
        when = document.published
        return when is not None and (
            (self.after is None or when >= self.after)
            and (self.before is None or when < self.before)
            and (self.as_of is None or when <= self.as_of)
        )


def read_documents(folder: Path) -> list[Document]:
    """The corpus' documents; raises ``CorruptData`` naming the line for a bad row or an id that comes twice."""
    path, documents, seen = folder / DOCUMENTS, [], set()
    # Not splitlines(): U+2028 and its like are legal inside a JSON string.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            document = document_of(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"{path}:{number}", f"{type(error).__name__} {error}") from error
        if document.id in seen:
            raise CorruptData(f"{path}:{number}", f"id {document.id!r} comes twice")
        seen.add(document.id)
        documents.append(document)
    if not documents:
        raise CorruptData(str(path), "holds no document")
    return documents


def document_of(row: dict[str, Any]) -> Document:
    """A row of the bundle; ``published`` is an ISO date or ""."""
    texts = {name: row[name] for name in ("id", "title", "text", "source", "type")}
    # Bundles of the first format do not say the language.
    texts["language"], entities = row.get("language", "en"), row["entities"]
    if not all(isinstance(value, str) for value in (*texts.values(), *entities)) or not texts["id"]:
        raise ValueError("a field is no text, or the id is empty")
    day = date.fromisoformat(row["published"]) if row["published"] else None
    published = datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None
    return Document(**texts, published=published, entities=tuple(entities))

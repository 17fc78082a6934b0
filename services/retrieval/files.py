"""Files of an ingest: what ``parse`` reads, in the form that the intake takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from services.retrieval.corpus import CONTENT_ID_CHARS, MAX_ID_CHARS, MAX_TEXT_CHARS, Document, content_key
from services.retrieval.intake import Issue, Parse
from services.retrieval.parse import JSONL, MEDIA_TYPES, Limits, ParsedDocument, parse

NUMBER = re.compile(r"\d+")
LIMITS = Limits(text_chars=MAX_TEXT_CHARS)


def parsers() -> Mapping[str, Parse]:
    """A reader per media type; JSON lines are the intake's own, since they come in pieces."""
    return dict.fromkeys((kind for kind in MEDIA_TYPES if kind not in JSONL), read)


def read(data: bytes, media_type: str, source: str) -> Iterator[Document | Issue]:
    """Documents of a whole file, and an issue for each part of it that is none."""
    for item in parse(data, media_type, source, LIMITS):
        if isinstance(item, ParsedDocument):
            yield document(item)
        else:
            lost = "" if item.lost else " (the document came all the same)"
            yield Issue(line_of(item.place), f"{item.place}: {item.reason}{lost}"[:300], source)


def document(item: ParsedDocument) -> Document:
    """A document without an id, or with one that is too long, is known by its content."""
    content = f"doc-{content_key(item.title, item.text)[:CONTENT_ID_CHARS]}"
    return Document(
        id=item.id if 0 < len(item.id) <= MAX_ID_CHARS else content,
        title=item.title,
        text=item.text,
        published=item.published,
        source=item.source,
        type=item.type,
        entities=item.entities,
        language=item.language or "en",
    )


def line_of(place: str) -> int:
    """The number in a place such as ``row 7``; 0 where there is none."""
    found = NUMBER.search(place)
    return int(found[0]) if found else 0

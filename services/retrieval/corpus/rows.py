"""Conversion of parsed files to documents of a corpus and issues with their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fathom.services.retrieval.corpus.parse import JSONL as JSONL_TYPES
from fathom.services.retrieval.corpus.parse import MEDIA_TYPES, ParsedDocument, ParseIssue, parse
from fathom.services.retrieval.corpus.parse.jsonl import decode
from fathom.services.retrieval.corpus.parse.model import Limits, Unreadable
from fathom.services.retrieval.corpus.parse.records import read_record
from fathom.services.retrieval.documents.model import Document, parse_document

# Places as the parsers name them; pages of a PDF are no lines and go into the message.
PLACE = re.compile(r"(?:line|row) (\d+)")
BOUNDS = Limits()


@dataclass(frozen=True)
class Issue:
    """Reason why a document was not added. ``line`` counts from 1 in its file; 0 when there are no lines."""

    line: int
    message: str
    source: str = ""
    lost: bool = True
    """False when the document was still added, incomplete."""


Parse = Callable[[bytes, str, str], Iterable[Document | Issue]]
"""Parses a whole file: documents and issues from its bytes, media type and source."""


def list_parsers() -> Mapping[str, Parse]:
    """Return a parser for each media type except JSON lines, which are streamed."""
    return {kind: read_file for kind in MEDIA_TYPES if kind not in JSONL_TYPES}


def read_file(data: bytes, media_type: str, source: str) -> Iterator[Document | Issue]:
    """Parse a whole file; raise ``MissingExtra`` without the format's library, ``PayloadTooLarge``."""
    return (convert(item, source) for item in parse(data, media_type, source))


def read_line(line: bytes, number: int, source: str) -> Iterator[Document | Issue]:
    """Parse one line of JSON lines."""
    try:
        # A byte-order mark stands at most before the first line.
        row = decode(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, BOUNDS)
    except Unreadable as error:
        yield Issue(number, str(error), source)
        return
    for item in read_record(row, source, f"line {number}", BOUNDS):
        yield convert(item, source)


def convert(item: ParsedDocument | ParseIssue, source: str) -> Document | Issue:
    """Convert a parsed document to a corpus document, or to an issue; issues without lines state their place."""
    place = PLACE.fullmatch(item.place)
    line = int(place.group(1)) if place else 0
    if isinstance(item, ParseIssue):
        return Issue(line, item.reason if place else f"{item.place}: {item.reason}", source, item.lost)
    row: dict[str, object] = {
        "title": item.title, "text": item.text, "source": item.source, "type": item.type, "language": item.language,
        "entities": list(item.entities), "published": item.published.isoformat() if item.published else "",
    }  # fmt: skip
    try:
        return parse_document(row | ({"id": item.id} if item.id else {}))
    except ValueError as error:
        return Issue(line, str(error), source)

"""Conversion of parsed files to documents of a corpus and issues with their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath

from fathom.core.ids import content_hash
from fathom.services.retrieval.corpus.parse import JSONL as JSONL_TYPES
from fathom.services.retrieval.corpus.parse import MEDIA_TYPES, ParsedDocument, ParseIssue, parse
from fathom.services.retrieval.corpus.parse.jsonl import decode
from fathom.services.retrieval.corpus.parse.model import Limits, Unreadable
from fathom.services.retrieval.corpus.parse.ocr import RecognizedPage
from fathom.services.retrieval.corpus.parse.pdf import NO_PAGES
from fathom.services.retrieval.corpus.parse.records import read_record
from fathom.services.retrieval.corpus.passages import cut_passages
from fathom.services.retrieval.documents.model import CONTENT_ID_CHARS, PLACE_FIELD, Document, parse_document

# Places as the parsers name them; pages of a PDF are no lines and go into the message.
PLACE = re.compile(r"(?:line|row) (\d+)")
BOUNDS = Limits()
FILE_NAME = re.compile(r"\S+\.(?:html?|docx?|pptx?|xlsx?|pdf|txt|md|tex|indd)", re.IGNORECASE)
# Place of what is the text of a whole file; rows of one have others.
WHOLE = "file"


@dataclass(frozen=True)
class Issue:
    """Reason why a document was not added. ``line`` counts from 1 in its file; 0 when there are no lines."""

    line: int
    message: str
    source: str = ""
    lost: bool = True
    """False when the document was still added, incomplete."""
    scan: int = 0
    """Number of the page that is a picture without text, from 1; 0 for another issue."""


Parse = Callable[[bytes, str, str, "datetime | None", Mapping[int, RecognizedPage]], Iterable[Document | Issue]]
"""Parses a whole file: documents and issues from its bytes, media type, source, day where it does not say one, and
scanned pages as they were recognized."""


def list_parsers() -> Mapping[str, Parse]:
    """Return a parser for each media type except JSON lines, which are streamed."""
    return {kind: read_file for kind in MEDIA_TYPES if kind not in JSONL_TYPES}


def read_file(
    data: bytes,
    media_type: str,
    source: str,
    published: datetime | None = None,
    recognized: Mapping[int, RecognizedPage] = NO_PAGES,
) -> Iterator[Document | Issue]:
    """Parse a whole file, texts as passages; raise ``MissingExtra`` without a library, ``PayloadTooLarge``."""
    for item in parse(data, media_type, source, recognized=recognized):
        if isinstance(item, ParsedDocument) and item.place == WHOLE:
            yield from make_passages(replace(item, published=item.published or published), source)
        else:
            yield convert(item, source)


def make_passages(item: ParsedDocument, source: str) -> Iterator[Document | Issue]:
    """Yield the passages of a file, which together are one version of its source."""
    # Programs that print to PDF leave the name of their own file as its title: "a.html".
    title = item.title if item.title and not FILE_NAME.fullmatch(item.title) else PurePath(source).stem
    when = item.published.isoformat() if item.published else ""
    passages = cut_passages(item)
    # The same file again is the same version: its ids depend on what it says, when and under which name; cut in another
    # way by another release it is another version, or old and new passages would be mixed.
    cuts = [passage.offset for passage in passages]
    version = f"doc-{content_hash([source, title, when, item.text, cuts])[:CONTENT_ID_CHARS]}"
    for number, passage in enumerate(passages, start=1):
        is_whole = len(passages) == 1
        place: dict[str, object] = {
            "page": passage.page,
            "offset": passage.offset,
            "key": source,
            "parent": "" if is_whole else version,
            "ocr": float(item.ocr.get(passage.page, 0.0)),
        }
        row = {PLACE_FIELD: place, "id": version if is_whole else f"{version}-{number}"}
        yield convert(replace(item, title=title, text=passage.text), source, row)


def split_version(document: Document, key: str) -> Iterator[Document | Issue]:
    """Yield the passages of a document that is a version of the source ``key``."""
    item = ParsedDocument(
        document.text,
        document.source or key,
        WHOLE,
        title=document.title,
        published=document.published,
        type=document.type,
        language=document.language,
        entities=document.entities,
        house=document.house,
        rating=document.rating,
    )
    return make_passages(item, key)


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


def convert(
    item: ParsedDocument | ParseIssue, source: str, place_row: Mapping[str, object] | None = None
) -> Document | Issue:
    """Convert a parsed document to a corpus document, or to an issue; issues without lines state their place.

    ``place_row`` has the fields of a passage.
    """
    place = PLACE.fullmatch(item.place)
    line = int(place.group(1)) if place else 0
    if isinstance(item, ParseIssue):
        return Issue(line, item.reason if place else f"{item.place}: {item.reason}", source, item.lost, item.scan)
    row: dict[str, object] = {
        "title": item.title, "text": item.text, "source": item.source, "type": item.type, "language": item.language,
        "entities": list(item.entities), "published": item.published.isoformat() if item.published else "",
    }  # fmt: skip
    report = {name: said for name, said in (("house", item.house), ("rating", item.rating)) if said}
    given = dict(place_row or {})
    place_field = given.get(PLACE_FIELD)
    if report:
        given[PLACE_FIELD] = {**(place_field if isinstance(place_field, dict) else {}), **report}
    try:
        return parse_document({**row, **({"id": item.id} if item.id else {}), **given})
    except ValueError as error:
        return Issue(line, str(error), source)

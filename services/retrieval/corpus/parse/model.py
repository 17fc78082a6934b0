"""Results of a parser: documents, and issues with their position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

PAGE_BREAK = "\n\n"
"""Stands between the pages of a document's text."""
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ParsedDocument:
    """One document as found in a file.

    ``id`` is "" when the file names none; ``published`` is timezone-aware, None when unknown; ``place`` is its position
    in the file (``line 3``, ``row 7``, ``file``). ``page_starts`` are the offsets in ``text`` (in characters) at which
    the pages of a PDF or the slides of a presentation begin, empty for other formats.
    """

    text: str
    source: str
    place: str
    id: str = ""
    title: str = ""
    published: datetime | None = None
    type: str = ""
    language: str = ""
    url: str = ""
    entities: tuple[str, ...] = ()
    page_starts: tuple[int, ...] = ()
    house: str = ""
    """House of a report's analysts, and what they recommend."""
    rating: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    # A plain dictionary: pages of the web come from a child process, and a view cannot be pickled.
    ocr: Mapping[int, float] = field(default_factory=dict)
    """Confidence, 0 to 1, of the pages that were read by character recognition, by their numbers."""


@dataclass(frozen=True)
class ParseIssue:
    """Something that could not be read. ``lost`` is False when its document was still returned, incomplete."""

    source: str
    place: str
    reason: str
    lost: bool = True
    scan: int = 0
    """Number of the page when it is a picture that character recognition may read, else 0."""

    def __str__(self) -> str:
        return f"{self.source}, {self.place}: {self.reason}"


@dataclass(frozen=True)
class Limits:
    """Limits of one call of ``parse``; sizes in bytes or characters, time in seconds."""

    file_bytes: int = 64 << 20
    unpacked_bytes: int = 512 << 20
    """Maximum decompressed size of compressed parts, by the file's own figures."""
    text_chars: int = 8_000_000
    """Maximum text length of one document."""
    documents: int = 5_000_000
    pages: int = 3_000
    page_bytes: int = 8 << 20
    """Maximum decompressed size of one PDF page's content stream."""
    html_tags: int = 200_000
    json_bytes: int = 192 << 20
    """Maximum memory of the objects of one line of JSON."""
    seconds: float = 120.0
    """Checked between rows and pages; a single row or page is bounded by its size."""


class Unreadable(ValueError):
    """A part of a file is malformed; the message becomes the issue's reason."""


class Scan(Unreadable):
    """A page is a picture without text."""


def format_reason(error: Exception) -> str:
    """Return the reason of an issue, with its kind when it is no error of ours."""
    return str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {str(error)[:200]}"

"""File parsers for JSONL, Parquet, CSV, HTML, plain text, PDF, Word, PowerPoint and e-mail, by maintained libraries.

Unreadable parts are reported with their line, row or page, and the rest is still returned. Everything is bounded
(``Limits``). Parsing is CPU-bound: call it in a thread. Files from the live web were never tried; the tests create
their own files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.message import Message

from fathom.core.errors import InvalidField, PayloadTooLarge
from fathom.services.retrieval.corpus.parse.html import read_html, read_text
from fathom.services.retrieval.corpus.parse.jsonl import read_jsonl
from fathom.services.retrieval.corpus.parse.mail import read_mail
from fathom.services.retrieval.corpus.parse.model import Limits, ParsedDocument, ParseIssue
from fathom.services.retrieval.corpus.parse.ocr import RecognizedPage
from fathom.services.retrieval.corpus.parse.office import read_docx, read_pptx
from fathom.services.retrieval.corpus.parse.pdf import NO_PAGES, read_pdf
from fathom.services.retrieval.corpus.parse.table import read_csv, read_parquet

__all__ = ["MEDIA_TYPES", "Limits", "ParseIssue", "ParsedDocument", "guess_media_type", "parse"]

JSONL = ("application/jsonl", "application/x-ndjson", "application/jsonlines", "application/x-jsonlines")
PARQUET = ("application/vnd.apache.parquet", "application/x-parquet")
CSV = ("text/csv",)
HTML = ("text/html", "application/xhtml+xml")
TEXT = ("text/plain", "text/markdown")
PDF = ("application/pdf", "application/x-pdf")
DOCX = ("application/vnd.openxmlformats-officedocument.wordprocessingml.document",)
PPTX = ("application/vnd.openxmlformats-officedocument.presentationml.presentation",)
MAIL = ("message/rfc822",)
MEDIA_TYPES = (*JSONL, *PARQUET, *CSV, *HTML, *TEXT, *PDF, *DOCX, *PPTX, *MAIL)
READERS = {
    DOCX: read_docx,
    PPTX: read_pptx,
    MAIL: read_mail,
    JSONL: read_jsonl,
    PARQUET: read_parquet,
    CSV: read_csv,
}
SUFFIXES = {
    ".jsonl": JSONL[0],
    ".ndjson": JSONL[0],
    ".parquet": PARQUET[0],
    ".csv": CSV[0],
    ".html": HTML[0],
    ".htm": HTML[0],
    ".xhtml": HTML[1],
    ".txt": TEXT[0],
    ".md": TEXT[1],
    ".pdf": PDF[0],
    ".docx": DOCX[0],
    ".pptx": PPTX[0],
    ".eml": MAIL[0],
}


def parse(
    data: bytes,
    media_type: str,
    source: str,
    limits: Limits | None = None,
    recognized: Mapping[int, RecognizedPage] = NO_PAGES,
) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield the documents of a file, and an issue for each unreadable part, in the file's order.

    ``media_type`` may carry a charset (``text/html; charset=gbk``); ``source`` names the file in every result, and
    ``recognized`` has the scanned pages of a PDF that were read (``ocr.recognize_pages``). Raises at once
    ``InvalidField("media_type")`` for one that is not in ``MEDIA_TYPES`` and ``PayloadTooLarge``; ``MissingExtra`` on
    the first step when the format's library is not installed.
    """
    bounds = limits or Limits()
    kind, charset = split_media_type(media_type)
    if kind not in MEDIA_TYPES:
        raise InvalidField("media_type", f"{kind or 'empty'} is none of {', '.join(MEDIA_TYPES)}")
    if len(data) > bounds.file_bytes:
        raise PayloadTooLarge(len(data), bounds.file_bytes)
    if kind in PDF:
        return read_pdf(data, source, bounds, recognized)
    for kinds, read in READERS.items():
        if kind in kinds:
            return read(data, source, bounds)
    return (read_html if kind in HTML else read_text)(data, source, charset, bounds)


def split_media_type(media_type: str) -> tuple[str, str]:
    """Return type and charset of a media type, in lower case; the charset is "" when there is none."""
    header = Message()
    # Line feeds would end the header and raise.
    header["content-type"] = media_type.replace("\n", " ").replace("\r", " ")
    charset = header.get_param("charset", "")
    return media_type.partition(";")[0].strip().lower(), charset.lower() if isinstance(charset, str) else ""


def guess_media_type(name: str) -> str:
    """Return the media type for a file name; raise ``InvalidField("name")`` for an unknown extension."""
    for suffix, media_type in SUFFIXES.items():
        if name.lower().endswith(suffix):
            return media_type
    raise InvalidField("name", f"{name!r} ends in none of {', '.join(SUFFIXES)}")

"""Parser of PDF text, page by page, by pypdf: pure Python, so that a hostile file cannot crash the process.

pypdf limits the size of a decompressed stream (75 MB); a page's content is limited here as well. Scanned pages have no
text: they are reported, and what character recognition has made of them (``ocr``) is put in their place.
"""

from __future__ import annotations

import importlib
import io
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from fathom.core.errors import MissingExtra
from fathom.services.retrieval.corpus.parse.columns import mark_tables
from fathom.services.retrieval.corpus.parse.model import (
    PAGE_BREAK,
    Limits,
    ParsedDocument,
    ParseIssue,
    Scan,
    Unreadable,
    format_reason,
)
from fathom.services.retrieval.corpus.parse.ocr import EXTRA, RecognizedPage, has_ocr
from fathom.services.retrieval.corpus.parse.wrapping import join_wrapped_lines

NO_PAGES: Mapping[int, RecognizedPage] = MappingProxyType({})


def import_pypdf() -> Any:
    """Import and return the pypdf module; raise ``MissingExtra``."""
    try:
        return importlib.import_module("pypdf")
    except ImportError as error:
        raise MissingExtra("pypdf", "retrieval") from error


def read_pdf(
    data: bytes, source: str, limits: Limits, recognized: Mapping[int, RecognizedPage] = NO_PAGES
) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield one issue per page without readable text, then one document of all others.

    ``recognized`` has the scanned pages that were read, by their numbers from 1; each has an issue, too, which says so.
    """
    library = import_pypdf()
    try:
        reader = open_pdf(library, data)
        total = len(reader.pages)
    except Exception as error:  # the library raises what a broken file makes it stumble over
        yield ParseIssue(source, "file", f"is no PDF that can be read: {format_reason(error)}")
        return
    if total > limits.pages:
        cut = f"{total:,} pages, over the limit of {limits.pages:,}; the rest is left out"
        yield ParseIssue(source, f"page {limits.pages + 1}", cut)
    texts: list[str] = []
    starts: list[int] = []
    length, until = 0, time.monotonic() + limits.seconds
    for number in range(1, min(total, limits.pages) + 1):
        try:
            if time.monotonic() > until or length > limits.text_chars:
                yield ParseIssue(source, f"page {number}", "time or size is spent; this and later pages are left out")
                break
            text = extract_page_text(reader, number - 1, limits)
        except Scan as error:
            page = recognized.get(number)
            text = join_wrapped_lines(mark_tables(page.text)) if page else ""
            yield describe_scan(source, number, page, str(error))
        except Exception as error:  # as above: one page must not cost the others
            yield ParseIssue(source, f"page {number}", format_reason(error))
            text = ""
        starts.append(length)
        texts.append(text)
        length += len(text) + len(PAGE_BREAK)
    whole = PAGE_BREAK.join(texts)[: limits.text_chars]
    if whole.strip():
        title, made = read_metadata(reader)
        sure = {number: page.confidence for number, page in recognized.items() if page.text}
        yield ParsedDocument(
            whole, source, "file", title=title, type="pdf", page_starts=tuple(starts), metadata=made, ocr=sure
        )


def describe_scan(source: str, number: int, page: RecognizedPage | None, reason: str) -> ParseIssue:
    """Return the issue of a scanned page: that it was recognized and how surely, or why it was not."""
    place = f"page {number}"
    if page is None:
        remedy = "" if has_ocr() else f"; scans are read with the extra {EXTRA!r} (pip install 'fathom[{EXTRA}]')"
        return ParseIssue(source, place, f"{reason}{remedy}", scan=number)
    left_out = f"; {page.unsure_lines} lines that it was unsure of are left out" if page.unsure_lines else ""
    if not page.text:
        return ParseIssue(source, place, f"{reason}; {page.reason}{left_out}")
    return ParseIssue(source, place, f"was read by OCR, {page.confidence:.0%} sure{left_out}", lost=False)


def open_pdf(library: Any, data: bytes) -> Any:
    """Open a PDF; raise ``Unreadable`` for a password-protected one."""
    # strict=False reads files with small faults, which are common.
    reader = library.PdfReader(io.BytesIO(data), strict=False)
    # Many PDFs are encrypted with an empty password, only to forbid printing.
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("it is under a password")
    return reader


def extract_page_text(reader: Any, index: int, limits: Limits) -> str:
    """Return the text of a page; raise ``Unreadable`` when it has too much content or none, ``Scan`` for a picture."""
    page = reader.pages[index]
    contents = page.get_contents()
    size = len(contents.get_data()) if contents is not None else 0
    if size > limits.page_bytes:
        raise Unreadable(f"its content has {size:,} bytes, over the limit of {limits.page_bytes:,}")
    text = str(page.extract_text()).strip()
    if not text:
        raise Scan("holds no text (a scan or a figure)") if size else Unreadable("is blank")
    # A font without its characters' names gives lone surrogates, which no UTF-8 can hold.
    return join_wrapped_lines(mark_tables(text.encode("utf-8", "replace").decode("utf-8")))


def read_metadata(reader: Any) -> tuple[str, dict[str, str]]:
    """Return the title, and the creation date as metadata."""
    try:
        facts = reader.metadata
        title = str(facts.title or "").strip() if facts else ""
        made = facts.creation_date if facts else None
    except Exception:  # a broken date or title is no reason to lose the text
        return "", {}
    # Not as the publication date: a file is created an unknown time before it is published.
    return title, {"created": made.isoformat()} if isinstance(made, datetime) else {}

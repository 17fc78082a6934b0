"""Parsers of Word documents and PowerPoint presentations, by python-docx and python-pptx.

Text, headings, lists and tables in the order in which a reader meets them; the cells of a row stand on one line, as
``name | value``. Pictures, comments and earlier versions of tracked changes are not read.
"""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from fathom.core.errors import MissingExtra
from fathom.services.retrieval.corpus.parse.model import (
    PAGE_BREAK,
    Limits,
    ParsedDocument,
    ParseIssue,
    Unreadable,
    format_reason,
)

CELL = " | "
# A table in a cell of a table in a cell: deeper ones are left out.
MAX_DEPTH = 5
# Elements of a paragraph with its characters, and those that stand for a blank; deleted text has another name.
WRITTEN = frozenset({"t", "tab", "br"})


def import_library(name: str) -> Any:
    """Import and return a library of this module; raise ``MissingExtra``."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"python-{name}", "retrieval") from error


def check_archive(data: bytes, limits: Limits) -> None:
    """Raise ``Unreadable`` for what is no archive, and for one that unpacks to more than the limit."""
    # Both formats of Office are archives; one under a password, and one of the old formats, is something else.
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise Unreadable("is under a password or in the format before 2007")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            # As the archive states them; the library reads no further than that.
            unpacked = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise Unreadable("is damaged: no archive of Office") from error
    if unpacked > limits.unpacked_bytes:
        raise Unreadable(f"unpacks to {unpacked:,} bytes, over the limit of {limits.unpacked_bytes:,}")


def read_docx(data: bytes, source: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield one document of all paragraphs and tables."""
    library = import_library("docx")
    try:
        check_archive(data, limits)
        book = library.Document(io.BytesIO(data))
        text = "\n".join(filter(None, iter_blocks(book))).strip()
        title = str(book.core_properties.title or "").strip()
    except Exception as error:  # the library raises what a broken file makes it stumble over
        yield ParseIssue(source, "file", f"is no Word document that can be read: {format_reason(error)}")
        return
    yield from make_document([text], source, title, "document", limits)


def iter_blocks(container: Any, depth: int = 0) -> Iterator[str]:
    """Yield the paragraphs and the rows of tables of a document or of a cell, in order."""
    for block in container.iter_inner_content():
        if not hasattr(block, "rows"):
            # Not its `text`, which leaves out what tracked changes have inserted.
            yield read_paragraph(block)
        elif depth < MAX_DEPTH:
            yield from iter_rows(block, depth)


def iter_rows(table: Any, depth: int) -> Iterator[str]:
    for row in table.rows:
        # A merged cell comes once for each column that it covers.
        cells = list(dict.fromkeys(row.cells))
        yield CELL.join(" ".join(filter(None, iter_blocks(cell, depth + 1))) for cell in cells).strip(" |")


def read_paragraph(paragraph: Any) -> str:
    """Return the text of a paragraph, tracked insertions and text boxes included, and deletions left out."""
    parts = []
    for element in paragraph._p.iter():
        kind = str(element.tag).rpartition("}")[2]
        # A shape comes a second time, for programs that do not know it.
        is_repeated = any(str(above.tag).endswith("}Fallback") for above in element.iterancestors())
        if kind in WRITTEN and not is_repeated:
            parts.append(element.text or "" if kind == "t" else " ")
    return "".join(parts).strip()


def read_pptx(data: bytes, source: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield an issue per slide without text, then one document whose pages are the slides, with their notes."""
    library = import_library("pptx")
    try:
        check_archive(data, limits)
        show = library.Presentation(io.BytesIO(data))
        slides = list(show.slides)
        title = str(show.core_properties.title or "").strip()
    except Exception as error:  # as above
        yield ParseIssue(source, "file", f"is no presentation that can be read: {format_reason(error)}")
        return
    pages: list[str] = []
    for number, slide in enumerate(slides[: limits.pages], start=1):
        try:
            pages.append("\n".join(filter(None, (*iter_shapes(slide.shapes), read_notes(slide)))))
            if not pages[-1]:
                yield ParseIssue(source, f"slide {number}", "holds no text", lost=False)
        except Exception as error:  # one slide must not cost the others
            yield ParseIssue(source, f"slide {number}", format_reason(error))
            pages.append("")
    # The library's own template is called so.
    yield from make_document(pages, source, "" if title == "PowerPoint Presentation" else title, "slides", limits)


def iter_shapes(shapes: Iterable[Any], depth: int = 0) -> Iterator[str]:
    """Yield the texts of shapes, groups and tables included."""
    for shape in shapes:
        if depth < MAX_DEPTH and hasattr(shape, "shapes"):
            yield from iter_shapes(shape.shapes, depth + 1)
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                yield CELL.join(cell.text.strip() for cell in row.cells)
        elif getattr(shape, "has_text_frame", False):
            yield shape.text_frame.text.strip()


def read_notes(slide: Any) -> str:
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    return frame.text.strip() if frame is not None else ""


def make_document(
    pages: Sequence[str], source: str, title: str, kind: str, limits: Limits
) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield the document of some pages of text; one page stands for a format without pages."""
    # Half a character cannot be stored; a file may hold one.
    whole = PAGE_BREAK.join(pages).encode("utf-8", "replace").decode("utf-8")
    if not whole.strip():
        yield ParseIssue(source, "file", "holds no text")
        return
    if len(whole) > limits.text_chars:
        yield ParseIssue(source, "file", f"cut to {limits.text_chars:,} of {len(whole):,} characters", lost=False)
    lengths = (len(page) + len(PAGE_BREAK) for page in pages[:-1])
    yield ParsedDocument(
        whole[: limits.text_chars],
        source,
        "file",
        title=title,
        type=kind,
        page_starts=tuple(accumulate(lengths, initial=0)) if kind == "slides" else (),
    )

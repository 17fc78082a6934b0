"""Parser of HTML and plain text: the readable part of a page, by trafilatura."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from fathom.core.errors import MissingExtra
from fathom.domain.text.encodings import BOMS, DecodedText, decode_text
from fathom.services.retrieval.corpus.parse.front_matter import split_front_matter
from fathom.services.retrieval.corpus.parse.model import Limits, ParsedDocument, ParseIssue, Unreadable
from fathom.services.retrieval.corpus.parse.records import NAMES, parse_time, read_record
from fathom.services.retrieval.corpus.parse.wrapping import join_wrapped_lines

# <meta charset="gbk">, and the older form with http-equiv and content.
CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w-]{2,20})""", re.IGNORECASE)
CELL = " | "
# Longer cells are paragraphs of a page that is laid out as a table.
CELL_CHARS = 300
FRAME = re.compile(r"<(html|body)[\s>]", re.IGNORECASE)


def import_trafilatura() -> Any:
    """Import and return the trafilatura module; raise ``MissingExtra``."""
    try:
        return importlib.import_module("trafilatura")
    except ImportError as error:
        raise MissingExtra("trafilatura", "retrieval") from error


def read_html(data: bytes, source: str, charset: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield one document: main text with tables, title, publication date, language; navigation is dropped."""
    library = import_trafilatura()
    try:
        # Counted before parsing, since the library itself has no bound.
        if data.count(b"<") > limits.html_tags:
            raise Unreadable(f"has more than {limits.html_tags:,} tags")
        page = decode(data, charset or find_charset(data)).text
        if "<" not in page:
            raise Unreadable("holds no markup")
        found = extract(library, page, source)
    except Unreadable as error:
        yield ParseIssue(source, "file", str(error))
        return
    text = (found.text or "").strip()
    if not text:
        yield ParseIssue(source, "file", "holds no readable text")
        return
    if len(text) > limits.text_chars:
        yield ParseIssue(source, "file", f"cut to {limits.text_chars:,} of {len(text):,} characters", lost=False)
    yield ParsedDocument(
        text[: limits.text_chars],
        source,
        "file",
        title=found.title or "",
        published=parse_day(found.date),
        type="page",
        language=found.language or "",
        url=found.url or "",
    )


def extract(library: Any, page: str, source: str) -> Any:
    """Extract the page; raise ``Unreadable`` when the library finds nothing or fails."""
    # A fragment is a page without its frame, which the library does not read.
    page = page if FRAME.search(page) else f"<html><body>{page}</body></html>"
    tree = library.load_html(page)
    if tree is None:
        raise Unreadable("holds no readable text")
    join_cells(tree)
    # The library also looks for a date in the address.
    url = source if source.startswith(("http://", "https://")) else None
    try:
        found = library.bare_extraction(
            tree, url=url, include_comments=False, include_tables=True, with_metadata=True, favor_recall=True
        )
    except (ValueError, TypeError, AttributeError, RecursionError, AssertionError) as error:
        raise Unreadable(f"cannot be read: {type(error).__name__}") from error
    if found is None:
        raise Unreadable("holds no readable text")
    return found


def join_cells(tree: Any) -> None:
    """Write each row of a table of short cells on one line, "name | value".

    On a short page the library takes the text without its tables' form, and values would lose their rows.
    """
    for table in [*tree.iter("table")]:
        rows = [[clean(cell) for cell in row if cell.tag in ("td", "th")] for row in table.iter("tr")]
        # Pages are laid out with tables, too: those hold other tables, or texts.
        is_layout = any(inner is not table for inner in table.iter("table"))
        if is_layout or max(map(len, rows), default=0) < 2 or max(map(len, chain(*rows))) > CELL_CHARS:
            continue
        for child in [*table]:
            table.remove(child)
        table.tag, table.text = "div", None
        for row in rows:
            line = table.makeelement("p")
            line.text = CELL.join(row).strip(" |")
            table.append(line)


def clean(cell: Any) -> str:
    return " ".join(str(cell.text_content()).split())


def parse_day(text: str | None) -> Any:
    """Parse the page's own date; None when it has none or an impossible one."""
    try:
        return parse_time(text) if text else None
    except Unreadable:
        return None


def find_charset(data: bytes) -> str:
    """Return the charset that a page declares in its first bytes; "" without one."""
    # HTML asks for the declaration in the first 1,024 bytes; many pages are late.
    found = CHARSET.search(data[:4096])
    return found.group(1).decode("ascii") if found else ""


def decode(data: bytes, charset: str) -> DecodedText:
    """Decode text by byte order mark, declared charset, or the look of its bytes, in this order; never fails."""
    # GB 2312 and GBK are read as GB 18030, a superset: pages that declare the former often use the latter.
    wide = "gb18030" if charset.lower() in {"gb2312", "gbk", "gb_2312-80"} else charset
    try:
        if wide and not data.startswith(tuple(mark for mark, _ in BOMS)):
            return DecodedText(data.decode(wide), wide)
    except (UnicodeDecodeError, LookupError):
        pass
    return decode_text(data) or DecodedText(data.decode("utf-8", errors="replace"), "utf-8")


def read_text(data: bytes, source: str, charset: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield one document of a plain text or Markdown; a first line ``# Title`` is its title."""
    decoded = decode(data, charset)
    text = decoded.text.replace("\r\n", "\n").strip()
    if not text or "\x00" in text:
        yield ParseIssue(source, "file", "is binary, not text" if text else "is empty")
        return
    if len(text) > limits.text_chars:
        yield ParseIssue(source, "file", f"cut to {limits.text_chars:,} of {len(text):,} characters", lost=False)
    if decoded.is_guess:
        yield ParseIssue(source, "file", "names no encoding and was read as Windows-1252", lost=False)
    fields, text = split_front_matter(text)
    text = join_wrapped_lines(text.strip())
    heading, _, rest = text.partition("\n")
    title = heading.removeprefix("# ").strip() if heading.startswith("# ") and rest.strip() else ""
    body = (rest.strip() if title else text)[: limits.text_chars]
    if fields and body:
        row = {"title": title, **fields, "text": body}
        # The file is a version of its source: its id follows from its content.
        named = {name: said for name, said in row.items() if name not in NAMES["id"]}
        yield from read_record(named, source, "file", limits)
    else:
        yield ParsedDocument(body, source, "file", title=title)

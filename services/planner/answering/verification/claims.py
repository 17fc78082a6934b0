"""Segmentation of an answer into sentences with their numbers, dates and citations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fathom.services.planner.answering.parsing import Citation, Event, Markup, Text, parse
from fathom.services.planner.answering.verification.dates import Moment, find_moments
from fathom.services.planner.answering.verification.evidence import is_inside
from fathom.services.planner.answering.verification.numbers import Number, find_numbers
from fathom.services.planner.answering.verification.tables import Cell, MarkdownTable, find_tables
from fathom.services.planner.answering.verification.units import find_counted_time, find_denominator

# A model that has lost its thread may write one endless sentence of numbers; checking it must stay cheap.
MAX_SENTENCE = 1_500
MAX_NUMBERS = 40
# An empty line, or a line that begins a list item, a heading, a table row or a quotation.
BREAK = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+]|\d{1,3}[.)]|#{1,6}|\||>)[ \t]?)")
# A full stop ends a sentence only before an upper-case letter or digit and not after an initial, a title or a company
# suffix: "It fell. Apple" is cut, "J. Smith" and "Apple Inc. Chairman" are not. Chinese punctuation always ends one.
ENDS = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)*_]))(?<!\b[A-Z]\.)(?<!\b(?:vs|No|Mr|Ms|Dr|Co|St)\.)(?<!\b(?:Inc|Ltd|Mrs)\.)(?<!\bCorp\.)"
    r"[ \t\n]+(?=[\"'“‘(*_]*[A-Z0-9])|(?<=[。！？；])"
)
ORDINAL = re.compile(r"^[ \t]*(?:>[ \t]*)*\d{1,3}[.)](?=[ \t])", re.MULTILINE)
# Link targets and bare addresses: ``](https://a.b/2020)`` states no number of 2020.
URL = re.compile(r"\]\([^)\s]{1,2000}[^)\n]{0,300}\)|https?://[^\s<>()]{1,2000}")
TABLE_ROW = re.compile(r"^[ \t]*\|")
HEADING = re.compile(r"^[ \t]*#{1,6}[ \t]")


@dataclass(frozen=True)
class Sentence:
    """A sentence; ``start`` and ``end`` are offsets in the answer, numbers and moments carry offsets in ``text``."""

    start: int
    end: int
    text: str
    paragraph: int
    cited: tuple[int, ...]
    own: bool
    """True when the citations are in this sentence itself."""
    numbers: tuple[Number, ...]
    moments: tuple[Moment, ...]
    heading: bool = False
    row: bool = False
    """True for a cell of a table, which is a sentence of its own."""
    row_header: str = ""
    column_header: str = ""
    place: tuple[int, int] = (0, 0)
    """Row and column of a cell, within the table that ``paragraph`` numbers."""


def extract_prose(markdown: str, events: Sequence[Event]) -> str:
    """Return the text with blanks in place of code, citations, references, link targets and list numbers.

    Offsets are unchanged.
    """
    kept = "".join(
        event.source if isinstance(event, Text | Markup) else re.sub(r"[^\n]", " ", event.source) for event in events
    )
    for pattern in (URL, ORDINAL):
        kept = pattern.sub(lambda match: " " * len(match.group()), kept)
    return kept


def parse_sentences(markdown: str) -> list[Sentence]:
    """Return all sentences that are not blank."""
    events = parse(markdown)
    text = extract_prose(markdown, events)
    citations = [event for event in events if isinstance(event, Citation)]
    out: list[Sentence] = []
    tables = [table for table in find_tables(text) if table.rows]
    for paragraph, (start, end) in enumerate(split_paragraphs(text, tables)):
        table = next((table for table in tables if table.start == start), None)
        if table is not None:
            out.extend(make_cells(table, paragraph, citations))
            continue
        inside_paragraph = [event for event in citations if start <= event.start < end]
        cuts = [(start, end)] if TABLE_ROW.match(text[start:end].lstrip("\n")) else split_spans(text, ENDS, start, end)
        owned = assign_citations(text, cuts, inside_paragraph)
        for position, cut in enumerate(cuts):
            if text[slice(*cut)].strip():
                out.append(make_sentence(text, cut, paragraph, owned, position))
    return out


def split_paragraphs(text: str, tables: Sequence[MarkdownTable]) -> list[tuple[int, int]]:
    """Return the spans of paragraphs, list items, headings and whole tables."""
    out: list[tuple[int, int]] = []
    at = 0
    for table in tables:
        out += split_spans(text, BREAK, at, table.start)
        out.append((table.start, table.end))
        at = table.end
    return out + split_spans(text, BREAK, at, len(text))


def make_cells(table: MarkdownTable, paragraph: int, citations: Sequence[Citation]) -> Iterator[Sentence]:
    """Yield the cells of a table as sentences with their headers.

    A cell is cited by its own citations, or else by those of its row, of its column's header, or of the whole table.
    """
    inside = [event for event in citations if table.start <= event.start < table.end]

    def collect(cells: Sequence[Cell]) -> tuple[int, ...]:
        found = (n for event in inside if any(c.start <= event.start < c.end for c in cells) for n in event.numbers)
        return tuple(dict.fromkeys(found))

    for row in (table.header, *table.rows):
        for cell in row:
            if not cell.text.strip():
                continue
            own = collect([cell])
            header = table.header[cell.column : cell.column + 1]
            cited = own or collect(row) or collect(header) or collect([c for line in table.rows for c in line])
            moments = find_moments(cell.text)
            numbers = [number for number in find_numbers(cell.text) if not is_inside(number, moments)]
            yield Sentence(
                cell.start, cell.end, cell.text, paragraph, cited, bool(own),
                () if table.is_label(cell) else tuple(numbers[:MAX_NUMBERS]), tuple(moments), row=True,
                row_header=table.row_header(cell), column_header=table.column_header(cell),
                place=(cell.row, cell.column),
            )  # fmt: skip


def split_spans(text: str, pattern: re.Pattern[str], start: int, end: int) -> list[tuple[int, int]]:
    """Return the non-empty spans between the matches of a pattern."""
    edges = [start, *(match.end() for match in pattern.finditer(text, start, end)), end]
    return [(left, right) for left, right in pairwise(edges) if left < right]


def assign_citations(text: str, cuts: Sequence[tuple[int, int]], citations: Sequence[Citation]) -> dict[int, list[int]]:
    """Return material numbers by sentence position.

    A citation belongs to the sentence that contains it, or to the previous one when it follows that directly.
    """
    owned: dict[int, list[int]] = {}
    for event in citations:
        position = next((i for i, (left, right) in enumerate(cuts) if left <= event.start < right), len(cuts) - 1)
        # "It rose. [3] It fell.": models often cite behind the full stop.
        if position and not text[cuts[position][0] : event.start].strip(" \t\n.。*_"):
            position -= 1
        owned.setdefault(position, []).extend(event.numbers)
    return owned


def make_sentence(
    text: str, cut: tuple[int, int], paragraph: int, owned: dict[int, list[int]], position: int
) -> Sentence:
    """Build a sentence; without own citations it takes the next ones in its paragraph, or else the previous ones."""
    start, end = cut
    words = text[start:end]
    # A model that has lost its thread may write one endless sentence: what is read of it is bounded.
    read = words[:MAX_SENTENCE]
    own = owned.get(position, [])
    later = next((owned[i] for i in sorted(owned) if i > position), None)
    earlier = next((owned[i] for i in sorted(owned, reverse=True) if i < position), [])
    # One citation at the end of a paragraph usually covers all of it.
    cited = own or later or earlier
    moments = find_moments(read)
    numbers = [number for number in find_numbers(read) if not is_inside(number, moments)][:MAX_NUMBERS]
    numbers = [
        replace(number, per=find_denominator(read, number), time=find_counted_time(read, number)) for number in numbers
    ]
    first = words.lstrip("\n")
    return Sentence(
        start, end, words, paragraph, tuple(dict.fromkeys(cited)), bool(own), tuple(numbers), tuple(moments),
        bool(HEADING.match(first)), bool(TABLE_ROW.match(first)),
    )  # fmt: skip

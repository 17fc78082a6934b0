"""Passages: the parts of a file that are indexed, found and cited, each within one page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fathom.services.retrieval.corpus.parse import ParsedDocument
from fathom.services.retrieval.index.text import IS_CJK, split_stretches

# About 256 tokens, all that the smaller encoders read: 1,000 letters, or half as many Chinese characters.
PASSAGE_CHARS = 1_000
# Of such characters a token is one or two, of letters it is four.
WIDE = 2
# Length of a heading, and how many lines of them stand above each other: a number, a title, a title below it.
HEADING_CHARS, MOST_HEADINGS = 120, 3
ENDS = (".", "!", "?", ";", ",", "。", "！", "？", "；", "，", "、")


class Passage(NamedTuple):
    """Part of a file's text: its characters from ``offset``, and its page from 1, 0 without pages."""

    text: str
    page: int
    offset: int


@dataclass(frozen=True)
class Piece:
    """A sentence, or a line that is none, with its first and last characters in a text."""

    start: int
    end: int
    weight: int
    is_row: bool
    """True for a row of a table, whose cells are parted by bars."""
    leads: bool
    """True for a line that says nothing by itself: a heading, or the number before one."""


def cut_passages(document: ParsedDocument) -> list[Passage]:
    """Return the passages of a file in order: whole sentences as far as they fit, never over the end of a page."""
    starts = document.page_starts or (0,)
    return [
        Passage(text, bisect_right(starts, offset) if document.page_starts else 0, offset)
        for start, end in zip(starts, (*starts[1:], len(document.text)), strict=True)
        for text, offset in pack_sentences(document.text[start:end], start)
    ]


def pack_sentences(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield runs of sentences of at most a passage's length, each with the place of its first character.

    A heading stands before what it is of, and a table is whole, with the names of its columns, where it fits into one.
    """
    pieces = list(split_pieces(text))
    first = 0
    while first < len(pieces):
        last = find_full(pieces, first)
        if last < len(pieces):
            last = choose_break(pieces, first, last)
        begin = pieces[first].start
        yield text[begin : pieces[last - 1].end].strip(), start + begin
        first = last


def split_pieces(text: str) -> Iterator[Piece]:
    """Yield the sentences and lines of a text in order."""
    for stretch in split_stretches(text, PASSAGE_CHARS // WIDE):
        whole = text[stretch.start : stretch.end]
        said, weight = whole.strip(), measure_text(whole)
        # Of a number with a full stop the title follows in the same line.
        is_line = "\n" in whole[len(whole.rstrip()) :] and not said.endswith(ENDS)
        is_row = "|" in said
        leads = weight <= HEADING_CHARS and not is_row and (is_line or said.rstrip(".").isdigit())
        yield Piece(stretch.start, stretch.end, weight, is_row, leads)


def find_full(pieces: list[Piece], first: int) -> int:
    """Return the first piece that a passage has no more room for, which begins at ``first``."""
    weight, last = 0, first
    while last < len(pieces) and (last == first or weight + pieces[last].weight <= PASSAGE_CHARS):
        weight += pieces[last].weight
        last += 1
    return last


def choose_break(pieces: list[Piece], first: int, full: int) -> int:
    """Return the piece at which the next passage begins, ``full`` or one before it but behind ``first``."""
    place = full
    if pieces[full].is_row:
        head = full
        while head > first and pieces[head - 1].is_row:
            head -= 1
        # One that is longer than a passage is cut anyhow, if not behind the names of its columns.
        is_short = head < full and find_full(pieces, head) >= find_end(pieces, full)
        place = head if head > first and (is_short or head == full - 1) else full
    begin = end = place
    while begin - 1 > first and pieces[begin - 1].leads:
        begin -= 1
    while end < len(pieces) and pieces[end].leads:
        end += 1
    # The items of a list are such lines, too, but more of them.
    return begin if end - begin <= MOST_HEADINGS else place


def find_end(pieces: list[Piece], row: int) -> int:
    """Return the first piece behind a table that has a row at ``row``."""
    while row < len(pieces) and pieces[row].is_row:
        row += 1
    return row


def measure_text(text: str) -> int:
    """Return the length of a text in letters; a Chinese character counts as two."""
    return sum(WIDE if IS_CJK.match(character) else 1 for character in text)

"""Passages: the parts of a file that are indexed, found and cited, each within one page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from fathom.services.retrieval.corpus.parse import ParsedDocument
from fathom.services.retrieval.index.text import IS_CJK, split_stretches

# About 256 tokens, all that the smaller encoders read: 1,000 letters, or half as many Chinese characters.
PASSAGE_CHARS = 1_000
# Of such characters a token is one or two, of letters it is four.
WIDE = 2


class Passage(NamedTuple):
    """Part of a file's text: its characters from ``offset``, and its page from 1, 0 without pages."""

    text: str
    page: int
    offset: int


def cut_passages(document: ParsedDocument) -> list[Passage]:
    """Return the passages of a file in order: whole sentences as far as they fit, never over the end of a page."""
    starts = document.page_starts or (0,)
    return [
        Passage(text, bisect_right(starts, offset) if document.page_starts else 0, offset)
        for start, end in zip(starts, (*starts[1:], len(document.text)), strict=True)
        for text, offset in pack_sentences(document.text[start:end], start)
    ]


def pack_sentences(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield runs of sentences of at most a passage's length, each with the place of its first character."""
    begin = end = 0
    weight = 0
    for stretch in split_stretches(text, PASSAGE_CHARS // WIDE):
        own = measure_text(text[stretch.start : stretch.end])
        if weight and weight + own > PASSAGE_CHARS:
            yield text[begin:end].strip(), start + begin
            begin, weight = stretch.start, 0
        elif not weight:
            begin = stretch.start
        end, weight = stretch.end, weight + own
    if text[begin:end].strip():
        yield text[begin:end].strip(), start + begin


def measure_text(text: str) -> int:
    """Return the length of a text in letters; a Chinese character counts as two."""
    return sum(WIDE if IS_CJK.match(character) else 1 for character in text)

"""Segmentation of an answer into sentences with their numbers, dates and citations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from services.planner.answering.dates import Moment, moments_in
from services.planner.answering.evidence import inside
from services.planner.answering.numbers import Number, numbers_in
from services.planner.answering.parsing import Citation, Event, Markup, Text, parse

MAX_SENTENCE = 1_500
MAX_NUMBERS = 40
BREAK = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+]|\d{1,3}[.)]|#{1,6}|\||>)[ \t]?)")
ENDS = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)*_]))(?<!\b[A-Z]\.)(?<!\b(?:vs|No|Mr|Ms|Dr|Co|St)\.)(?<!\b(?:Inc|Ltd|Mrs)\.)(?<!\bCorp\.)"
    r"[ \t\n]+(?=[\"'“‘(*_]*[A-Z0-9])|(?<=[。！？；])"
)
ORDINAL = re.compile(r"^[ \t]*(?:>[ \t]*)*\d{1,3}[.)](?=[ \t])", re.MULTILINE)
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


def prose(markdown: str, events: Sequence[Event]) -> str:
    """Return the text with blanks in place of code, citations, references, link targets and list numbers.

    Offsets are unchanged.
    """
    kept = "".join(
        event.source if isinstance(event, Text | Markup) else re.sub(r"[^\n]", " ", event.source) for event in events
    )
    for pattern in (URL, ORDINAL):
        kept = pattern.sub(lambda match: " " * len(match.group()), kept)
    return kept


def sentences_of(markdown: str) -> list[Sentence]:
    """Return all sentences that are not blank."""
    events = parse(markdown)
    text = prose(markdown, events)
    citations = [event for event in events if isinstance(event, Citation)]
    out: list[Sentence] = []
    for paragraph, (start, end) in enumerate(spans(text, BREAK, 0, len(text))):
        inside_paragraph = [event for event in citations if start <= event.start < end]
        cuts = [(start, end)] if TABLE_ROW.match(text[start:end].lstrip("\n")) else spans(text, ENDS, start, end)
        owned = owners(text, cuts, inside_paragraph)
        for position, cut in enumerate(cuts):
            if text[slice(*cut)].strip():
                out.append(sentence(text, cut, paragraph, owned, position))
    return out


def spans(text: str, pattern: re.Pattern[str], start: int, end: int) -> list[tuple[int, int]]:
    """Return the non-empty spans between the matches of a pattern."""
    edges = [start, *(match.end() for match in pattern.finditer(text, start, end)), end]
    return [(left, right) for left, right in pairwise(edges) if left < right]


def owners(text: str, cuts: Sequence[tuple[int, int]], citations: Sequence[Citation]) -> dict[int, list[int]]:
    """Return material numbers by sentence position.

    A citation belongs to the sentence that contains it, or to the previous one when it follows that directly.
    """
    owned: dict[int, list[int]] = {}
    for event in citations:
        position = next((i for i, (left, right) in enumerate(cuts) if left <= event.start < right), len(cuts) - 1)
        if position and not text[cuts[position][0] : event.start].strip(" \t\n.。*_"):
            position -= 1
        owned.setdefault(position, []).extend(event.numbers)
    return owned


def sentence(text: str, cut: tuple[int, int], paragraph: int, owned: dict[int, list[int]], position: int) -> Sentence:
    """Build a sentence; without own citations it takes the next ones in its paragraph, or else the previous ones."""
    start, end = cut
    words = text[start:end]
    # A model that has lost its thread may write one endless sentence: what is read of it is bounded.
    read = words[:MAX_SENTENCE]
    own = owned.get(position, [])
    later = next((owned[i] for i in sorted(owned) if i > position), None)
    earlier = next((owned[i] for i in sorted(owned, reverse=True) if i < position), [])
    cited = own or later or earlier
    moments = moments_in(read)
    numbers = tuple(number for number in numbers_in(read) if not inside(number, moments))[:MAX_NUMBERS]
    first = words.lstrip("\n")
    return Sentence(
        start, end, words, paragraph, tuple(dict.fromkeys(cited)), bool(own), numbers, tuple(moments),
        bool(HEADING.match(first)), bool(TABLE_ROW.match(first)),
    )  # fmt: skip

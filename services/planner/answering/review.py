"""Checks of an answer that need no material content: citations, references, typed tables, repetitions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from services.planner.answering.claims import Sentence, sentences_of
from services.planner.answering.parsing import Citation, Event, FigureBlock, Markup, Reference, escaped, parse
from services.planner.model import Doubt, Kind, Mark, Material
from services.planner.repetition import repetitions

SMALL = 12
CODE_FIGURE = re.compile(r"code_\d+")
LACK = re.compile(r"[\s*_>-]*(?:missing|no data|not found|缺失|缺少|没有|无数据)", re.IGNORECASE)
"""Beginning of a paragraph that reports missing data, which needs no citation."""
DELIMITER = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


def resolved(events: Sequence[Event], known: Collection[int]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return Markdown without HTML in which all citations resolve, the cited numbers, and the unknown numbers."""
    cited: list[int] = []
    unresolved: list[int] = []
    out: list[str] = []
    for event in events:
        if not isinstance(event, Citation):
            out.append(escaped(event))
            continue
        kept = [number for number in event.numbers if number in known]
        cited += kept
        unresolved += [number for number in event.numbers if number not in known]
        if not kept and out and out[-1].endswith(" "):
            out[-1] = out[-1][:-1]
        out.append("".join(f"[{number}]" for number in kept))
    return "".join(out), tuple(sorted(set(cited))), tuple(sorted(set(unresolved)))


def unresolved_marks(events: Sequence[Event], material: Sequence[Material]) -> Iterator[Mark]:
    """Yield findings for citations and references that do not resolve."""
    known = {item.number for item in material}
    sheets = {item.variable for item in material if item.kind is Kind.SHEET}
    figures = {figure.id for item in material if item.kind is Kind.CODE for figure in item.item.figures}
    for event in events:
        if isinstance(event, Citation):
            wrong = [number for number in event.numbers if number not in known]
            if wrong:
                detail = f"there is no material {', '.join(map(str, wrong))}; there are 1 to {len(known)}"
                yield Mark(event.start, event.end, Doubt.UNRESOLVED, event.source, detail)
        elif isinstance(event, Reference):
            names = sheets if event.kind == "table" else figures
            if event.name not in names and not (event.kind == "figure" and CODE_FIGURE.fullmatch(event.name)):
                detail = f"there is no such {event.kind}; there are: {', '.join(sorted(names)) or 'none'}"
                yield Mark(event.start, event.end, Doubt.UNRESOLVED, event.source, detail)


def uncited_marks(markdown: str, material: Sequence[Material]) -> Iterator[Mark]:
    """Yield findings for paragraphs with a number or date but no citation, when there is citable material."""
    if not any(item.kind is not Kind.MISSING for item in material):
        return
    for _, group in groupby(sentences_of(markdown), key=lambda sentence: sentence.paragraph):
        paragraph = list(group)
        if any(sentence.own for sentence in paragraph) or not any(map(factual, paragraph)):
            continue
        if LACK.match(paragraph[0].text):
            continue
        first, last = paragraph[0], paragraph[-1]
        start = first.start + len(first.text) - len(first.text.lstrip())
        end = last.start + len(last.text.rstrip())
        yield Mark(start, end, Doubt.UNCITED, markdown[start:end], "no citation says where this is from")


def factual(sentence: Sentence) -> bool:
    """Return whether a sentence states a number or date; headings, table rows and small counts do not count."""
    if sentence.heading or sentence.row:
        return False
    numbers = (n for n in sentence.numbers if n.kind or n.scaled or n.decimals or abs(n.value) > SMALL)
    return bool(sentence.moments) or any(True for _ in numbers)


def typed_tables(markdown: str) -> Iterator[Mark]:
    """Yield findings for Markdown tables with numbers, which the model should show by reference instead."""
    offset = 0
    lines = markdown.splitlines(keepends=True)
    starts = [offset := offset + (len(lines[i - 1]) if i else 0) for i in range(len(lines))]
    at = 1
    while at < len(lines):
        if "|" in lines[at - 1] and "|" in lines[at] and DELIMITER.match(lines[at].rstrip("\n")):
            end = at + 1
            while end < len(lines) and "|" in lines[end]:
                end += 1
            if any(re.search(r"\d", line) for line in lines[at + 1 : end]):
                stop = starts[end - 1] + len(lines[end - 1].rstrip("\n"))
                text = markdown[starts[at - 1] : stop]
                detail = "a table typed by the model: use {{table:…}}"
                yield Mark(starts[at - 1], stop, Doubt.TYPED_TABLE, text, detail)
            at = end
        at += 1


def repeated_marks(markdown: str) -> Iterator[Mark]:
    """Yield findings for sentences that nearly repeat an earlier one."""
    after = 0
    for found in repetitions(markdown):
        first = markdown.find(found.earlier)
        start = markdown.find(found.sentence, max(after, first + len(found.earlier)))
        if start < 0:
            continue
        after = start + len(found.sentence)
        yield Mark(start, after, Doubt.REPEATED, found.sentence, f"says what was said before: {found.earlier[:120]}")


def figure_blocks(markdown: str) -> list[FigureBlock]:
    """Return the ``<figure>`` blocks in order."""
    return [event for event in parse(markdown) if isinstance(event, FigureBlock)]


def has_markup(events: Sequence[Event]) -> bool:
    return any(isinstance(event, Markup) for event in events)

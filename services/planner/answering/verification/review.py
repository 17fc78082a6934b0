"""Checks of an answer that need no material content: citations, references, repetitions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from fathom.services.planner.answering.parsing import (
    Citation,
    Event,
    Reference,
    escape_html,
)
from fathom.services.planner.answering.repetition import find_repetitions
from fathom.services.planner.answering.verification.claims import Sentence, parse_sentences
from fathom.services.planner.answering.verification.clauses import ClauseLabels
from fathom.services.planner.model.episode import Finding, FindingKind, Material, MaterialKind

# Small integers are counts and ordinals, as in the verifier.
SMALL = 12
CODE_FIGURE = re.compile(r"code_\d+")
LACK = re.compile(r"[\s*_>-]*(?:missing|no data|not found|缺失|缺少|没有|无数据)", re.IGNORECASE)
"""Beginning of a paragraph that reports missing data, which needs no citation."""


def render_markdown(events: Sequence[Event], known: Collection[int]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return Markdown without HTML in which all citations resolve, the cited numbers, and the unknown numbers."""
    cited: list[int] = []
    unresolved: list[int] = []
    out: list[str] = []
    for event in events:
        if not isinstance(event, Citation):
            out.append(escape_html(event))
            continue
        kept = [number for number in event.numbers if number in known]
        cited += kept
        unresolved += [number for number in event.numbers if number not in known]
        # The blank before a removed citation would stand before the full stop.
        if not kept and out and out[-1].endswith(" "):
            out[-1] = out[-1][:-1]
        out.append("".join(f"[{number}]" for number in kept))
    return "".join(out), tuple(sorted(set(cited))), tuple(sorted(set(unresolved)))


def find_unresolved(events: Sequence[Event], material: Sequence[Material]) -> Iterator[Finding]:
    """Yield findings for citations and references that do not resolve."""
    known = {item.number for item in material}
    sheets = {item.variable for item in material if item.kind is MaterialKind.SHEET}
    figures = {figure.id for item in material if item.kind is MaterialKind.CODE for figure in item.item.figures}
    for event in events:
        if isinstance(event, Citation):
            wrong = [number for number in event.numbers if number not in known]
            if wrong:
                detail = f"there is no material {', '.join(map(str, wrong))}; there are 1 to {len(known)}"
                yield Finding(event.start, event.end, FindingKind.UNRESOLVED, event.source, detail)
        elif isinstance(event, Reference):
            names = sheets if event.kind == "table" else figures
            if event.name not in names and not (event.kind == "figure" and CODE_FIGURE.fullmatch(event.name)):
                detail = f"there is no such {event.kind}; there are: {', '.join(sorted(names)) or 'none'}"
                yield Finding(event.start, event.end, FindingKind.UNRESOLVED, event.source, detail)


def find_uncited(markdown: str, material: Sequence[Material], labels: ClauseLabels | None = None) -> Iterator[Finding]:
    """Yield findings for paragraphs with a number or date but no citation, when there is citable material.

    By the ``labels`` of their clauses, sentences about the answer itself, such as assumptions, need none.
    """
    known = labels or ClauseLabels()
    if not any(item.kind is not MaterialKind.MISSING for item in material):
        return
    for _, group in groupby(parse_sentences(markdown), key=lambda sentence: sentence.paragraph):
        paragraph = list(group)
        if any(sentence.own for sentence in paragraph) or not any(
            is_factual(sentence) and not known.is_own(sentence) for sentence in paragraph
        ):
            continue
        if LACK.match(paragraph[0].text):
            continue
        first, last = paragraph[0], paragraph[-1]
        start = first.start + len(first.text) - len(first.text.lstrip())
        end = last.start + len(last.text.rstrip())
        yield Finding(start, end, FindingKind.UNCITED, markdown[start:end], "no citation says where this is from")


def is_factual(sentence: Sentence) -> bool:
    """Return whether a sentence states a number or date; headings, table rows and small counts do not count."""
    if sentence.heading or sentence.row:
        return False
    numbers = (n for n in sentence.numbers if n.kind or n.scaled or n.decimals or abs(n.value) > SMALL)
    return bool(sentence.moments) or any(True for _ in numbers)


def mark_unchecked(markdown: str, labels: ClauseLabels) -> Iterator[Finding]:
    """Yield a finding at the end of a text whose causes were not all checked, since the classifier did not answer."""
    if not labels.is_complete:
        end = len(markdown)
        yield Finding(
            end, end, FindingKind.UNCHECKED, "", "no encoder answered: only causes with a conjunction were checked"
        )


def find_repeated(markdown: str) -> Iterator[Finding]:
    """Yield findings for sentences that nearly repeat an earlier one."""
    after = 0
    for found in find_repetitions(markdown):
        first = markdown.find(found.earlier)
        # Behind the first occurrence and behind the last finding, since the same sentence may be repeated often.
        start = markdown.find(found.sentence, max(after, first + len(found.earlier)))
        if start < 0:
            continue
        after = start + len(found.sentence)
        yield Finding(
            start, after, FindingKind.REPEATED, found.sentence, f"says what was said before: {found.earlier[:120]}"
        )

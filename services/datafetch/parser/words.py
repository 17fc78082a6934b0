"""Meaning of each word of a question: names and operators that were found, terms, phrases, numbers and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fathom.domain.text.numerals import parse_number
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.lexicon import (
    choose,
    cue,
    find_content_words,
    find_phrases,
    find_terms,
    group,
    list_words,
)
from fathom.services.datafetch.parser.mention import Mention, MentionKind, is_free, list_unread, resolve_overlaps

BLANKS = " ,，、的"


def find_words(text: str, draft: Draft) -> list[Mention]:
    """Return the mentions of a normalised question in their order, unknown words included."""
    found = resolve_overlaps([*(item for item in draft.mentions if item.end), *find_terms(text)])
    for finder in (find_phrases, _find_numbers):
        found += [item for item in finder(text) if is_free(item.span, found)]
    found = [_trim(item, text) for item in found]
    unread = find_content_words(blank(text, [item.span for item in found]))
    return sorted([*found, *list_unread(unread)], key=lambda item: item.span)


def _trim(mention: Mention, text: str) -> Mention:
    """Return the mention without blanks at its ends, which rules may match."""
    words = text[mention.start : mention.end]
    start = mention.start + len(words) - len(words.lstrip(BLANKS))
    return replace(mention, start=start, end=start + len(words.strip(BLANKS)))


def _find_numbers(text: str) -> Iterator[Mention]:
    """Yield the numbers that no name, period or condition holds, with their unit: "50-day", "2 %", 3倍, 四."""
    for match in cue("plain_number").finditer(text):
        count = group(match, "n").replace(",", "")
        value = count if count[0].isdecimal() else parse_number(count)
        # 一 in 一共 begins a word without content.
        is_within = any(text[match.start() : match.end() + more] in list_words("function_words") for more in (1, 2))
        if value is not None and not is_within:
            unit = choose("counted_units", group(match, "u"), whole=True)
            yield Mention(MentionKind.PARAMETER, *match.span(), f"{value} {unit}".strip(), 0.5)

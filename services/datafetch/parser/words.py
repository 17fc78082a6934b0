"""Words for periods, measures, frequencies and numbers: what is said of each word of a question."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fathom.domain.text.numerals import NUMBER_WORDS, ONE_TO_TEN, parse_number
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.lexicon import cue, cues, find_content_words, find_terms, load_function_words
from fathom.services.datafetch.parser.mention import Mention, MentionKind, is_free, resolve_overlaps
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query.periods import Period

# A number in words: "five", 四.
NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})\b|[两{ONE_TO_TEN}]{{1,3}}", re.IGNORECASE)
BLANKS = " ,，、的"
# A cue of several words may hold names; it is one phrase only without them.
CUE_CONFIDENCE = 0.8


def find_words(text: str, draft: Draft) -> list[Mention]:
    """Return the mentions of a normalised question in their order, unknown words included."""
    named = [item for item in draft.mentions if item.end]
    transform = expressions.transform_of(draft.text)[1] if draft.reading.transform else []
    measures = [Mention(MentionKind.MEASURE, *span, str(draft.reading.transform)) for span in transform]
    found = resolve_overlaps([*named, *measures, *find_terms(text)])
    for finder in (_find_cues, _find_numbers):
        found += [item for item in finder(text) if is_free(item, found)]
    found = [_trim(item, text) for item in found]
    rest = blank(text, [item.span for item in found])
    found += [Mention(MentionKind.UNKNOWN, *span, "", 0.0) for span in find_content_words(rest)]
    return sorted(found, key=lambda item: item.span)


def find_periods(reading: expressions.Reading) -> list[Mention]:
    """Return the words of the periods of a reading."""
    found = [Mention(MentionKind.PERIOD, *period.span, _format_interval(period)) for period in reading.periods]
    # Words that only narrowed another period ("Q3" apart from its year) mean the period that results.
    whole = [Mention(MentionKind.PERIOD, *span, _format_interval(reading.whole)) for span in reading.spans]
    return found + [item for item in whole if is_free(item, found)]


def _format_interval(period: Period) -> str:
    return "/".join(day.isoformat() if day else ".." for day in (period.start, period.end))


def _trim(mention: Mention, text: str) -> Mention:
    """Return the mention without blanks at its ends, which rules may match."""
    words = text[mention.start : mention.end]
    start = mention.start + len(words) - len(words.lstrip(BLANKS))
    return replace(mention, start=start, end=start + len(words.strip(BLANKS)))


def _find_cues(text: str) -> Iterator[Mention]:
    """Yield the phrases that the rules of operators know besides the lexicons."""
    patterns: list[tuple[MentionKind, str, re.Pattern[str]]] = [
        *((MentionKind.MEASURE, value, pattern) for value, pattern in cues("transforms")),
        *((MentionKind.FREQUENCY, value, pattern) for value, pattern in cues("densities")),
        *((MentionKind.MEASURE, value, pattern) for value, pattern in cues("statistics")),
        *((MentionKind.MEASURE, name, cue(name)) for name in ("spread", "ratio")),
        (MentionKind.MEASURE, "return", cue("rivals")),
    ]
    for kind, value, pattern in patterns:
        for match in pattern.finditer(text):
            if match[0].strip():
                yield Mention(kind, *match.span(), value, CUE_CONFIDENCE)


def is_within(text: str, match: re.Match[str]) -> bool:
    """Return whether a numeral begins a word without content: 一 in 一共."""
    return any(text[match.start() : match.end() + more] in load_function_words() for more in (1, 2))


def _find_numbers(text: str) -> list[Mention]:
    """Return the numbers that no name, period or condition holds, with their unit: "five", 四, "50-day", "2 %", 3倍."""
    found = []
    for match in cue("plain_number").finditer(text):
        unit = next((value for value, pattern in cues("counted_units") if pattern.fullmatch(match["u"] or "")), "")
        count = match["n"].replace(",", "")
        count = count if count[0].isdigit() else str(parse_number(count))
        found.append(Mention(MentionKind.PARAMETER, *match.span(), f"{count} {unit}".strip(), 0.5))
    words = [
        (match.span(), parse_number(match[0])) for match in NUMBER_WORD.finditer(text) if not is_within(text, match)
    ]
    alone = [Mention(MentionKind.PARAMETER, *span, str(value), 0.5) for span, value in words if value is not None]
    return found + [item for item in alone if is_free(item, found)]

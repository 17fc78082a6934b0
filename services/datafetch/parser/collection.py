"""Collection of the mentions of a question: what each of its words was taken for, and those that nothing was made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from fathom.domain.text.numerals import NUMBER_WORDS, parse_number
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser.lexicon import find_content_words, find_terms
from fathom.services.datafetch.parser.mention import Mention, MentionKind, resolve_overlaps
from fathom.services.datafetch.parser.names.mentions import EURO, Draft
from fathom.services.datafetch.parser.operators import cue_words
from fathom.services.datafetch.parser.operators.units import find_rounding, find_unit
from fathom.services.datafetch.parser.time import expressions
from fathom.services.datafetch.query.model import Match
from fathom.services.datafetch.query.periods import Period

# A number that no name, period or condition holds, with its unit: "50-day", "2 %", 3倍.
NUMBER = re.compile(
    r"(?<![A-Za-z])(?P<n>\d[\d,]*(?:\.\d+)?)(?!st\b|nd\b|rd\b|th\b|\d)[\s-]?(?P<u>%|per ?cent|bps?\b|basis points?|(?:trading )?days?|weeks?|months?|quarters?|years?|times"
    r"|个?百分点|个?基点|个?交易日|天|日|周|个?月|个?季度|年|倍)?",
    re.IGNORECASE | re.ASCII,
)
# A number in words: "five", 四.
NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})\b|[一二两三四五六七八九十]{{1,3}}", re.IGNORECASE)
UNITS = {
    "percent": "%", "per cent": "%", "bp": "bps", "basis point": "bps", "基点": "bps", "个基点": "bps", "百分点": "percentage points",
    "个百分点": "percentage points", "trading day": "days", "day": "days", "week": "weeks", "month": "months", "quarter": "quarters", "year": "years",
    "交易日": "days", "个交易日": "days", "天": "days", "日": "days", "周": "weeks", "月": "months", "个月": "months", "季度": "quarters", "个季度": "quarters",
    "年": "years", "倍": "times",
}  # fmt: skip
BLANKS = " ,，、的"
# A cue of several words may hold names; it is one phrase only without them.
CUE_CONFIDENCE = 0.8


def collect_mentions(
    text: str, draft: Draft, reading: expressions.Reading, matches: Iterable[Match], defaults: frozenset[str]
) -> list[Mention]:
    """Return the mentions of a normalised question in their order, unknown words included.

    ``defaults`` are the ids of indicators such as prices, whose names ("return") give way to measures.
    """
    found = resolve_overlaps(
        [*_list_names(text, draft, matches, defaults), *_list_operators(text, draft, reading), *find_terms(text)]
    )
    for finder in (_find_cues, _find_numbers):
        found += [item for item in finder(text) if _is_free(item, found)]
    found = [_trim(item, text) for item in found]
    rest = blank(text, [(item.start, item.end) for item in found])
    found += [Mention(MentionKind.UNKNOWN, *span, "", 0.0) for span in find_content_words(rest)]
    return sorted(found, key=lambda item: (item.start, item.end))


def _trim(mention: Mention, text: str) -> Mention:
    """Return the mention without blanks at its ends, which rules may match."""
    words = text[mention.start : mention.end]
    start = mention.start + len(words) - len(words.lstrip(BLANKS))
    return replace(mention, start=start, end=start + len(words.strip(BLANKS)))


def _is_free(mention: Mention, taken: Iterable[Mention]) -> bool:
    return all(mention.end <= other.start or mention.start >= other.end for other in taken)


def _list_names(text: str, draft: Draft, matches: Iterable[Match], defaults: frozenset[str]) -> Iterator[Mention]:
    """Yield the entities and indicators, those found by likeness too."""
    for item in draft.found:
        yield Mention(MentionKind.ENTITY, item.start, item.end, item.ids[0], item.score)
    if "currency" in draft.kinds:
        # Every rate is per euro, which is no entity of its own.
        for match in EURO.finditer(text):
            yield Mention(MentionKind.ENTITY, *match.span(), "EUR", 0.9)
    aligned = len(draft.mentions) == len(draft.names)
    for at, name in enumerate(draft.mentions):
        value = draft.names[at] if aligned else name.id
        # Below a measure of the same words: "return" is what is computed from prices.
        yield Mention(MentionKind.INDICATOR, name.start, name.end, value, 0.9 if value in defaults else 1.0)
    for taken in matches:
        start = text.find(taken.surface)
        if start >= 0 and taken.id in draft.names:
            yield Mention(MentionKind.INDICATOR, start, start + len(taken.surface), taken.id, min(taken.score, 0.9))


def _list_operators(text: str, draft: Draft, reading: expressions.Reading) -> Iterator[Mention]:
    """Yield the periods, conditions, groupings, rankings and units."""
    transformed = expressions.transform_of(draft.shown)[1] if reading.transform else []
    for period in reading.periods:
        yield Mention(MentionKind.PERIOD, *period.span, _format_interval(period))
    whole = _format_interval(reading.whole)
    for span in reading.spans:
        # Words that only narrowed another period ("Q3" apart from its year) mean the period that results.
        if all(span[1] <= period.span[0] or span[0] >= period.span[1] for period in reading.periods):
            yield Mention(MentionKind.PERIOD, *span, whole)
    for span in transformed:
        yield Mention(MentionKind.MEASURE, *span, str(reading.transform))
    for start, end, value in draft.conditions.labels if draft.conditions else ():
        yield Mention(MentionKind.CONDITION, start, end, value)
    if draft.grouping:
        grouping = draft.grouping
        yield Mention(MentionKind.MEASURE, *grouping.span, str(grouping.inner))
        yield Mention(MentionKind.FREQUENCY, *grouping.span, str(grouping.every))
        yield Mention(MentionKind.CONDITION, *grouping.span, f"{grouping.outer} {grouping.count}")
    if draft.ranking and draft.ranking.span != (0, 0):
        way = "bottom" if draft.ranking.low else "top"
        yield Mention(MentionKind.CONDITION, *draft.ranking.span, f"{way} {draft.ranking.count} {draft.ranking.kind}")
    unit = find_unit(text) if draft.unit else None
    if unit:
        yield Mention(MentionKind.OUTPUT, *unit[1], unit[0])
    rounding = find_rounding(text)
    if rounding:
        yield Mention(MentionKind.OUTPUT, *rounding[1], f"{rounding[0]} decimals")
    if draft.currency_span:
        yield Mention(MentionKind.OUTPUT, *draft.currency_span, draft.currency)


def _format_interval(period: Period) -> str:
    return "/".join(day.isoformat() if day else ".." for day in (period.start, period.end))


def _find_cues(text: str) -> Iterator[Mention]:
    """Yield the phrases that the rules of operators know besides the lexicons."""
    for pattern, transform in expressions.TRANSFORMS:
        yield from _all(pattern, text, MentionKind.MEASURE, str(transform))
    for words, density in cue_words.DENSITIES:
        yield from _all(words, text, MentionKind.FREQUENCY, str(density))
    for words, statistic in cue_words.STATISTICS:
        yield from _all(words, text, MentionKind.MEASURE, str(statistic))
    for words, value in ((cue_words.SPREAD, "spread"), (cue_words.RATIO, "ratio"), (cue_words.RIVALS, "return")):
        yield from _all(words, text, MentionKind.MEASURE, value)
    for words, value in ((cue_words.LAST_DAY, "last"), (cue_words.FIRST_DAY, "first")):
        yield from _all(words, text, MentionKind.CONDITION, value)


def _all(pattern: re.Pattern[str], text: str, kind: MentionKind, value: str) -> Iterator[Mention]:
    for match in pattern.finditer(text):
        if match[0].strip():
            yield Mention(kind, match.start(), match.end(), value, CUE_CONFIDENCE)


def _find_numbers(text: str) -> Iterator[Mention]:
    for word in NUMBER_WORD.finditer(text):
        value = parse_number(word[0])
        if value is not None:
            yield Mention(MentionKind.PARAMETER, *word.span(), str(value), 0.5)
    for match in NUMBER.finditer(text):
        unit = (match["u"] or "").lower()
        unit = UNITS.get(unit.removesuffix("s"), UNITS.get(unit, unit))
        yield Mention(MentionKind.PARAMETER, *match.span(), f"{match['n'].replace(',', '')} {unit}".strip(), 0.5)

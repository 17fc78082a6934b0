"""Words of a follow-up that refer to earlier turns, from the closed class in ``references.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import yaml

from fathom.domain.text.numerals import ONE_TO_NINE
from fathom.domain.text.scripts import HAN
from fathom.services.planner.model.slots import ENTITY, PERIOD, TOPIC, UNKNOWN, Kinds, ReadText, Slot
from fathom.services.planner.questions.periods import Shift, find_shifts

FILE = Path(__file__).parent / "references.yaml"
ONE, SEVERAL, OTHER, RANKED, STATEMENT = "one", "several", "other", "ranked", "statement"
COMPARED, EARLIER, ADD, REMOVE = "compared", "earlier", "add", "remove"
SAME, SHIFTED, THEN = "same_period", "shifted", "then"
HIGHEST, LOWEST = "highest", "lowest"
FOUND = "found"
AROUND, NEUTRAL, CATEGORY = "around", "neutral", "category"
NAMING = (ONE, SEVERAL, OTHER, RANKED, HIGHEST, LOWEST)
LISTED = (ONE, SEVERAL, OTHER, STATEMENT, COMPARED, SAME, EARLIER, ADD, REMOVE, NEUTRAL, THEN)
# These stand before what a reader makes of their words: "Add" is no measure here, 前一年 not the year before today.
# "The one that gained less" has no measure of its own, and "compared with a month earlier" neither.
COMPARING = (COMPARED, HIGHEST, LOWEST, RANKED)
OPERATORS = (HIGHEST, LOWEST, RANKED, SHIFTED, ADD, REMOVE, EARLIER, NEUTRAL, FOUND)
# "its margin", 它的毛利率: what follows tells that the name must be in the genitive.
GENITIVE = frozenset({"its", "their", "his", "her"})
WORD = re.compile(rf"[a-z0-9]+|[{HAN}]+", re.IGNORECASE)
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1, "former": 1, "latter": -1}
CARDINALS = ("one", "two", "three", "four", "five")
CLAUSE = re.compile(r"[,;:，；：。]")
# A word behind a demonstrative says that one figure of an answer is meant.
FIGURE_WORDS = re.compile(r"(?:that|this) \w|[这该]个?[^个么]", re.IGNORECASE)
# What stands before an extreme that an answer has found, "that low", 那个低点, and datafetch's names of extremes.
DEMONSTRATIVE = re.compile(r"(?:\b(?:that|this) |[那这]一?个?)$", re.IGNORECASE)
MAXIMUM, MINIMUM, EXTREMES = "max", "min", frozenset({"max", "min", "extreme"})
LEAST_SEVERAL = 2
OF_SEVERAL = r"(?: of (?:the (?:two|three|four|lot)|them|these|those|all)\b)"
# How a thing did, before the word that ranks it: 表现最好的, 涨得更多的.
OF_KIND_ZH = "(?:表现|涨得|跌得|涨幅|跌幅|收益|波动)?"


@dataclass(frozen=True)
class Reference:
    """Referring words of a text from ``start`` to ``end``; ``rank`` counts from 1, or is -1 for the last one.

    ``extreme`` is the measure that an earlier answer has found, for "that low".
    """

    kind: str
    start: int
    end: int
    text: str
    shift: Shift | None = None
    rank: int = 0
    extreme: str = ""

    @property
    def is_category(self) -> bool:
        """Return whether the words name a kind of thing, as in "the stock" and 那家公司."""
        return any(self.text.lower().endswith(word) for words in load_words()[CATEGORY].values() for word in words)

    @property
    def is_figure(self) -> bool:
        """Return whether the words name one figure, as in "that rate" and 这个数字; "this" may be all of an answer."""
        is_pointing = FIGURE_WORDS.match(self.text) is not None
        return self.kind == STATEMENT and is_pointing

    @property
    def is_genitive(self) -> bool:
        """Return whether the words are an English possessive."""
        return self.text.lower() in GENITIVE


@cache
def load_words() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the words by kind and language."""
    data: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return data


def join_words(kind: str, language: str) -> str:
    """Return the words of a kind as alternatives of a pattern, the longest first."""
    words = load_words()[kind][language]
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


@cache
def compile_kind(kind: str) -> re.Pattern[str]:
    """Return a pattern of the words of a kind; those for one thing include "that bank" and 这只基金."""
    english, chinese = join_words(kind, "en"), join_words(kind, "zh")
    if kind == ONE:
        english += rf"|(?:this|that) (?:{join_words(CATEGORY, 'en')})|the (?:company|firm|stock|bank)"
        # 那家 and 那只 count companies and shares even without the noun.
        chinese = rf"[这那该]一?[家只支个种]?(?:{join_words(CATEGORY, 'zh')})|[这那]一?[家只支](?!人)|{chinese}"
    if kind == REMOVE:
        # "Leave the oil shares out".
        english += r"|(?:leave|take)(?= (?:\S+ ){1,6}out\b)"
    if kind == OTHER:
        english += rf"|the other (?:{join_words(CATEGORY, 'en')})"
        chinese = rf"另外?一?[家只支个种]?(?:{join_words(CATEGORY, 'zh')})|{chinese}"
    return re.compile(rf"\b(?:{english})\b|(?:{chinese})", re.IGNORECASE)


@cache
def compile_ranks() -> re.Pattern[str]:
    """Return a pattern of "the latter", "the second company", 前者 and 第三家."""
    category = join_words(CATEGORY, "en")
    english = rf"the (?P<en>{'|'.join(ORDINALS)})(?: (?:one|{category})\b|{OF_SEVERAL}|(?= *(?:[?.!,]|'s|$)))"
    named = rf"the (?P<named>former|latter)\b|number (?P<number>{'|'.join(CARDINALS)})\b"
    chinese = rf"(?P<zh>前者|后者|最后一?[家个只支]|第[{ONE_TO_NINE[:5]}][家个只支名位](?!月|季)(?:的?那[家个只支])?)"
    return re.compile(rf"\b(?:{named}|{english})|{chinese}", re.IGNORECASE)


@cache
def compile_extreme(kind: str) -> re.Pattern[str]:
    """Return a pattern of "the better one", "the loser", 三家里最好的那家: who has the highest or lowest figure."""
    english, category = join_words(kind, "en"), join_words(CATEGORY, "en")
    chinese = rf"(?:[这那]?[两三四几]者?[家个只]?[里中]?)?{OF_KIND_ZH}(?:{join_words(kind, 'zh')})[那这]?一?[家个只支]"
    nouns = f"{kind}_noun"
    named = rf"the (?:{join_words(nouns, 'en')})\b|(?:{join_words(nouns, 'zh')})"
    clause = rf"the one (?:that|which|who) (?:\w+ ){{0,3}}?(?:{english}|{join_words(nouns, 'en')})"
    named = rf"{clause}\b|{named}"
    return re.compile(
        rf"\bthe (?:{english})(?: (?:one|{category})\b{OF_SEVERAL}?|{OF_SEVERAL})|\b{named}|{chinese}", re.I
    )


def read_rank(match: re.Match[str]) -> int:
    """Return the place that a match of ``compile_ranks`` names."""
    if match["number"]:
        return CARDINALS.index(match["number"].lower()) + 1
    word = match["en"] or match["named"]
    if word:
        return ORDINALS[word.lower()]
    if match["zh"].startswith("第"):
        return ONE_TO_NINE.index(match["zh"][1]) + 1
    return 1 if match["zh"] == "前者" else -1


def list_candidates(text: str) -> Iterator[Reference]:
    """Yield all referring words, which may overlap."""
    for kind in LISTED:
        for match in compile_kind(kind).finditer(text):
            yield Reference(kind, match.start(), match.end(), match.group())
    for match in compile_ranks().finditer(text):
        yield Reference(RANKED, match.start(), match.end(), match.group(), rank=read_rank(match))
    for kind in (HIGHEST, LOWEST):
        for match in compile_extreme(kind).finditer(text):
            yield Reference(kind, match.start(), match.end(), match.group())
    for one in find_shifts(text):
        yield Reference(SHIFTED, one.start, one.end, text[one.start : one.end], one.shift)


def list_found(question: ReadText) -> Iterator[Reference]:
    """Yield the words for extremes that an earlier answer has found: "that low", 那个低点."""
    for slot in question.slots:
        before = DEMONSTRATIVE.search(question.text[: slot.start])
        if before and slot.is_measure and slot.value in EXTREMES:
            yield Reference(FOUND, before.start(), slot.end, before.group() + slot.text, extreme=slot.value)


def find_references(question: ReadText) -> list[Reference]:
    """Return the referring words in order, none inside a slot; of overlapping ones the longest."""
    spans = [*list_candidates(question.text), *list_found(question)]
    found = sorted(spans, key=lambda one: (one.start - one.end, one.start))
    taken: list[tuple[int, int]] = []
    chosen: list[Reference] = []
    for one in found:
        blocking = [slot for slot in question.slots if overlaps(one, slot) and blocks(slot, one, question)]
        if blocking or any(one.start < end and start < one.end for start, end in taken):
            continue
        chosen.append(one)
        taken.append((one.start, one.end))
    chosen = sorted((one for one in chosen if one.kind != NEUTRAL), key=lambda one: one.start)
    return [one for place, one in enumerate(chosen) if not refers_within(one, question, chosen[:place])]


def overlaps(reference: Reference, slot: Slot) -> bool:
    """Return whether words and slot share a character."""
    return reference.start < slot.end and slot.start < reference.end


def blocks(slot: Slot, reference: Reference, question: ReadText) -> bool:
    """Return whether the words belong to the slot and refer to nothing."""
    if slot.kind in UNKNOWN or (slot.is_measure and reference.kind in COMPARING):
        return False
    if reference.is_category and not slot.is_measure:
        # "That stock" is a name, though "stock" by itself is a price.
        return slot.kind in ENTITY
    if reference.kind not in OPERATORS:
        return True
    # "the change from a year earlier in June 2022" has its period; the words are part of a measure.
    dated = any(one.kind in PERIOD and not overlaps(reference, one) for one in question.slots)
    return slot.kind in ENTITY or (reference.kind == SHIFTED and dated)


def refers_within(reference: Reference, question: ReadText, before: Sequence[Reference]) -> bool:
    """Return whether a pronoun stands for something earlier in the same question.

    "Which of them fell further from its peak" has one reference, as "Lilly's price and its volume" has none.
    """
    if reference.kind == SEVERAL:
        # "Rank A, B and C by their return".
        return sum(slot.kind in ENTITY and slot.end <= reference.start for slot in question.slots) >= LEAST_SEVERAL
    if reference.kind != ONE or reference.is_category:
        return False
    if any(one.kind in NAMING for one in before):
        return True
    if reference.is_genitive and any(slot.kind in ENTITY and slot.end <= reference.start for slot in question.slots):
        return True
    ends = [slot.end for slot in question.slots if slot.kind in ENTITY + TOPIC and slot.end <= reference.start]
    return bool(ends) and CLAUSE.search(question.text, min(ends), reference.start) is not None


def drop_overlapped(question: ReadText, references: Sequence[Reference]) -> ReadText:
    """Return the question without the slots that its operators have taken the words of, and without "now"."""
    operators = [one for one in references if one.kind in OPERATORS or one.is_category]
    around = compile_kind(AROUND)
    phrases = [match.span() for match in around.finditer(question.text)]
    has_name = any(slot.kind in ENTITY for slot in question.slots)
    slots = tuple(
        slot
        for slot in question.slots
        if not any(overlaps(one, slot) for one in operators)
        and not (slot.is_measure and around.fullmatch(slot.text) and (slot.start == 0 or has_name))
        # "I mean" computes no mean.
        and not (slot.is_measure and any(start < slot.start and slot.end <= end for start, end in phrases))
    )
    return replace(question, slots=slots)


def list_rest(question: ReadText, references: Sequence[Reference] = ()) -> list[str]:
    """Return the words that neither belong to a slot or reference nor stand around the new part of a follow-up."""
    known = tuple(dict.fromkeys(slot.kind for slot in question.slots if slot.kind not in UNKNOWN))
    return WORD.findall(mask_known(question, references, known))


def mask_known(question: ReadText, references: Sequence[Reference], kinds: Kinds) -> str:
    """Return the text with blanks for slots of some kinds, referring words, and what stands around a new part."""
    text = list(question.text)
    known = [(slot.start, slot.end) for slot in question.slots if slot.kind in kinds]
    for start, end in [*known, *((one.start, one.end) for one in references)]:
        text[start:end] = " " * (end - start)
    return compile_kind(AROUND).sub(" ", "".join(text))

"""Words of comparison in a text: comparatives, superlatives, verbs, with their direction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fathom.domain.text.numerals import ONE_TO_NINE, parse_numeral
from fathom.domain.text.scripts import HAN

FILE = Path(__file__).parent / "relations.yaml"
LEVEL, SIZE, MERIT = "level", "size", "merit"
MORE, LESS = "more", "less"
SIGNS = {MORE: 1, LESS: -1}
# No comparison: "at least", "more than half of", "one of the highest", 最近, 最后.
IDIOM = re.compile(
    r"\bat (?:least|most)\b|\bmost of\b|\bmore than (?:half|\d|a|one|two|three)\b(?!-)|\bmore or less\b|\bno longer\b|"
    r"\bone of the \w+est\b|最大回撤|最近|最后|最终|最新|最多可|至少|至多|大多",
    re.IGNORECASE,
)

# Places in an order before a superlative, and within words of a rank.
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "次": 2}
ORDINAL = re.compile(r"\b(second|third|fourth|fifth)[ -]$", re.IGNORECASE)
ORDINAL_INSIDE = re.compile(rf"(second|third|fourth|fifth|(?<=第)[{ONE_TO_NINE}]|次)", re.IGNORECASE)

# What a comparison begins with: "compared with July, ", 与7月相比.
COMPARED = re.compile(
    r"\b(?:compared (?:with|to)|relative to)\s+(?P<en>[^;；]+?),\s|(?:与|和|跟|同)(?P<zh>[^，；]+?)相比[，,]?",
    re.IGNORECASE,
)
# "more than in any other month", 比其他月份都高: comparatives that make a superlative.
ANY_OTHER = re.compile(r"^\W*than\b(?:\s+\w+){0,2}?\s+any\b(?: other)?|^比(?:其他|其余|任何|所有)", re.IGNORECASE)


@dataclass(frozen=True)
class Relation:
    """Words of comparison at offsets ``start`` to ``end``: ``sign`` 1 for more, -1 for less.

    ``dimension`` is how values are compared. A superlative has ``is_superlative``; ``needs_than`` is True for a
    comparative that compares only with what follows "than".
    """

    start: int
    end: int
    sign: int
    dimension: str
    is_superlative: bool = False
    needs_than: bool = False
    rank: int = 1
    """Place in the order of a superlative: 2 for the second highest."""
    is_rank: bool = False
    """True for words of a rank, such as "came second", whose subject is one of several."""


@dataclass(frozen=True)
class Lexicon:
    """Patterns of the words of comparison, each with its sign, dimension, and whether it is a superlative."""

    patterns: tuple[tuple[re.Pattern[str], int, str, bool, bool], ...]
    statistics: Mapping[str, Sequence[str]]
    ranks: Sequence[str]
    multiples: tuple[tuple[re.Pattern[str], float, bool], ...]
    """Patterns of multiples such as "half" and "doubled", each with its factor, and whether it is a verb."""

    def find_statistic(self, text: str) -> str:
        """Return the statistic that a text or a printed name is about; "" for none."""
        low = text.lower()
        held = (name for name, words in self.statistics.items() if any(begins_word(word, low) for word in words))
        return next(held, "")


def begins_word(word: str, low: str) -> bool:
    """Return whether a word of a text begins so: "gain" is in "gains" and not in "against"."""
    return re.search(rf"(?<![a-z]){word}", low) is not None if word.isascii() else word in low


@cache
def load_lexicon() -> Lexicon:
    """Load the words of comparison."""
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    patterns = [*list_english(data), *list_verbs(data), *list_chinese(data), *list_extremes(data)]
    multiples = tuple(
        (re.compile(rf"\b(?:{word})\b" if word.isascii() else word, re.IGNORECASE), float(factor), kind == "verbs")
        for kind, by_factor in data["multiples"].items()
        for factor, words in by_factor.items()
        for word in words
    )
    compiled = tuple((re.compile(text, re.IGNORECASE), *rest) for text, *rest in patterns)
    return Lexicon(compiled, data["statistics"], data["ranks"], multiples)


def list_english(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the comparatives and superlatives of the adjectives, also with "more" and "less" before them."""
    irregular = {word: [form for form, of in data["irregular"].items() if of == word] for word in ("good", "bad")}
    for dimension, by_side in data["adjectives"].items():
        for side, words in by_side.items():
            sign = SIGNS[side]
            for word in words:
                made = [form for form in irregular.get(word, ())] or [f"{stem}{end}" for stem, end in inflect(word)]
                yield rf"\b(?:{'|'.join(f for f in made if not f.endswith('st'))})\b", sign, dimension, False, True
                yield rf"\b(?:{'|'.join(f for f in made if f.endswith('st'))})\b", sign, dimension, True, False
                for degree, factor in (("more", 1), ("less", -1)):
                    yield rf"\b{degree} {word}(?:ly)?\b", sign * factor, dimension, False, True
                for degree, factor in (("most", 1), ("least", -1)):
                    yield rf"\b{degree} {word}(?:ly)?\b", sign * factor, dimension, True, False
    for side, (comparative, superlative, *others) in data["amounts"].items():
        for word in (comparative, superlative, *others):
            is_superlative = word.endswith("st")
            yield rf"\b{word}\b", SIGNS[side], SIZE, is_superlative, not is_superlative


def inflect(word: str) -> list[tuple[str, str]]:
    """Return stems and endings of the comparative and superlative of a regular adjective."""
    doubled = word + word[-1] if re.search(r"[aeiou][bdgmnt]$", word) and not re.search(r"[aeiou]{2}.$", word) else word
    stem = word.removesuffix("e") if word.endswith("e") else doubled
    return [(stem, "er"), (stem, "est")]


def list_verbs(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield verbs and prepositions of comparison."""
    for dimension, by_side in data["verbs"].items():
        for side, words in by_side.items():
            for word in words:
                # What ends in no letter is a word with what must follow it.
                text = (rf"\b{word}\w*" if word[-1].isalpha() else rf"\b{word}") if word.isascii() else word
                yield text, SIGNS[side], dimension, False, False


def list_extremes(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield verbs and nouns of an extreme value, which say that a period is the highest or lowest one."""
    for word in data["ranks"]:
        yield rf"\b(?:{word})\b" if word.isascii() else word, 1, SIZE, True, False
    for side, words in data["extremes"].items():
        for word in words:
            yield rf"\b{word}" if word.isascii() else word, SIGNS[side], LEVEL, True, False


def list_chinese(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield Chinese adjectives behind 比, 更, 较 and 最."""
    small = "|".join(word for by_side in data["chinese_adjectives"].values() for word in by_side[LESS])
    # 涨得最猛, 跌得最惨: whatever is said of the size of a move, it is the largest, unless it is called small.
    yield rf"(?<=[涨跌升降]得)最(?!{small})[{HAN}]", 1, SIZE, True, False
    for dimension, by_side in data["chinese_adjectives"].items():
        for side, words in by_side.items():
            one = "|".join(words)
            yield rf"(?:最|第[{ONE_TO_NINE}])(?:{one})", SIGNS[side], dimension, True, False
            yield rf"没有[^，。；]{{1,30}}?(?:那么|这么|那样)(?:{one})", -SIGNS[side], dimension, False, False
            yield (
                rf"(?<![环同占])[比较][^，。；比]{{1,30}}?(?:{one})|(?:更|较)(?:{one})",
                SIGNS[side],
                dimension,
                False,
                False,
            )


def find_relations(text: str) -> list[Relation]:
    """Return the words of comparison of a text in order; of overlapping ones the longest."""
    idioms = [match.span() for match in IDIOM.finditer(text)]
    found = [
        Relation(*match.span(), sign, dimension, is_superlative, needs_than)
        for pattern, sign, dimension, is_superlative, needs_than in load_lexicon().patterns
        for match in pattern.finditer(text)
    ]
    found = [one for one in found if not any(start < one.end and one.start < end for start, end in idioms)]
    out: list[Relation] = []
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        if not any(one.start < other.end and other.start < one.end for other in out):
            out.append(one)
    return sorted((raise_degree(read_rank(one, text), text) for one in out), key=lambda one: one.start)


def read_rank(relation: Relation, text: str) -> Relation:
    """Return a superlative with its place in the order: "the second highest", "came third", 排第四."""
    if not relation.is_superlative:
        return relation
    before = ORDINAL.search(text[: relation.start])
    is_rank = any(re.compile(word, re.IGNORECASE).match(text, relation.start) for word in load_lexicon().ranks)
    relation = replace(relation, is_rank=is_rank)
    inside = before or ORDINAL_INSIDE.search(text[relation.start : relation.end])
    if inside is None:
        return relation
    rank = ORDINALS.get(inside[1].lower()) or parse_numeral(inside[1]) or 1
    return replace(relation, rank=rank, start=before.start() if before else relation.start)


def raise_degree(relation: Relation, text: str) -> Relation:
    """Return a comparative as a superlative where it compares with all others."""
    behind = text[relation.end :] if relation.needs_than else text[relation.start : relation.end]
    if relation.needs_than and (than := re.search(r"\bthan\b", behind, re.IGNORECASE)):
        behind = behind[than.start() :]
    return replace(relation, is_superlative=True, needs_than=False) if ANY_OTHER.search(behind) else relation


def is_base_first(words: str) -> bool:
    """Return whether words of comparison begin with what they compare with: 比微软高, 较上年同月的4.24%低; not 较高."""
    return words.startswith("比") or (words.startswith("较") and len(words) > len("较高"))


def split_operands(text: str, relation: Relation) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the spans of what is compared and of what it is compared with; None without the latter."""
    words = text[relation.start : relation.end]
    base = COMPARED.search(text[: relation.start])
    if base and not is_base_first(words) and not re.match(r"[^,;，；]*\bthan\b", text[relation.end :]):
        return (base.end(), relation.start), base.span("zh") if base["zh"] else base.span("en")
    if words.startswith("没有"):
        return (0, relation.start), (relation.start + 2, relation.end)
    if is_base_first(words):
        return (0, relation.start), (relation.start + 1, relation.end)
    if relation.needs_than:
        than = re.search(r"\bthan\b", text[relation.end :], re.IGNORECASE)
        if than is None:
            return None
        return (0, relation.end + than.start()), (relation.end + than.end(), len(text))
    if re.match(rf"[更较][{HAN}]", words):
        return None
    return (0, relation.start), (relation.end, len(text))

"""Words and phrases of questions from YAML files: what each of them means, and words without content of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from fathom.domain.text.numerals import parse_number
from fathom.services.datafetch.catalog.names import Names
from fathom.services.datafetch.catalog.text import CJK, blank, is_chinese
from fathom.services.datafetch.parser.mention import (
    Mention,
    MentionKind,
    is_free,
    list_unread,
    resolve_overlaps,
    select,
)

FOLDER = Path(__file__).resolve().parent
# Reading the words in Python alone takes a third of a second of every start.
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A cue of several words may hold names; it is one phrase only without them.
PHRASE_CONFIDENCE = 0.8
BLANKS = " ,，、的"
# A Latin word with its apostrophes and joints, or a number with its sign of percent.
LATIN_WORD = re.compile(
    r"\d+(?:st|nd|rd|th)\b|(?<!['’])[A-Za-z][A-Za-z0-9'’&./-]*[A-Za-z0-9]|(?<!['’])[A-Za-z]|\d[\d.,:/-]*\d%?|\d%?", re.A
)
# "H1", "3Q", "2nd" select a part, as words of order do.
PART = re.compile(r"[hq][1-4]|[1-4][hq]|\d+(?:st|nd|rd|th)")
# A class of words inside a cue, and a named group.
CLASS, GROUP = re.compile(r"\{([a-z_]+)\}"), re.compile(r"\(\?P<(\w+)>")
CHINESE_RUN = re.compile(f"(?:{CJK.pattern})+")


@cache
def load(name: str) -> Any:
    """Return the content of one file; nobody may change it."""
    return yaml.load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), Loader=FAST)  # noqa: S506 - the safe loader, in C


@cache
def cues(name: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns of an entry of ``cues.yaml`` by their values, in order; the value of a mere list is ""."""
    entry = load("cues")[name]
    return {value: _compile(one) for value, one in (entry if isinstance(entry, dict) else {"": entry}).items()}


def cue(name: str) -> re.Pattern[str]:
    """Return the pattern of a list of phrases in ``cues.yaml``; a point parts an entry and the value in it."""
    entry, _, value = name.partition(".")
    return cues(entry)[value]


def choose(name: str, text: str, *, whole: bool = False) -> str:
    """Return the first value of an entry of ``cues.yaml`` of which a phrase stands in a text, or is ``whole`` of it."""
    return next((value for value, one in cues(name).items() if (one.fullmatch if whole else one.search)(text)), "")


def says(name: str, text: str) -> bool:
    """Return whether a phrase of ``cues.yaml`` stands in a text."""
    return cue(name).search(text) is not None


def find_spans(names: Iterable[str], text: str) -> list[tuple[int, int]]:
    """Return where phrases of some entries of ``cues.yaml``, of any value, stand in a text."""
    patterns = (cues(name).values() if "." not in name else [cue(name)] for name in names)
    return [match.span() for found in patterns for one in found for match in one.finditer(text) if match[0]]


def group(match: re.Match[str], name: str) -> str:
    """Return what a group of a cue matched in any of its alternatives, or ""."""
    return next((text for key, text in match.groupdict().items() if key.rstrip("_") == name and text), "")


def _compile(phrases: list[str]) -> re.Pattern[str]:
    text, classes = "|".join(phrases), load("cues")["classes"]
    while (filled := CLASS.sub(lambda match: classes[match[1]], text)) != text:
        text = filled
    # A pattern cannot use the name of a group twice.
    seen: Counter[str] = Counter()

    def rename(match: re.Match[str]) -> str:
        seen[match[1]] += 1
        return f"(?P<{match[1]}{'_' * (seen[match[1]] - 1)}>"

    return re.compile(GROUP.sub(rename, text), re.IGNORECASE | re.ASCII)


@cache
def list_words(file: str, *classes: str) -> frozenset[str]:
    """Return the words of a file in small letters, or those of some of its classes."""

    def walk(node: Any, wanted: bool) -> Iterator[str]:
        if isinstance(node, dict):
            for name, below in node.items():
                yield from walk(below, wanted or name in classes)
        elif wanted:
            yield from (word.lower() for word in node)

    return frozenset(walk(load(file), not classes))


@cache
def load_known_words() -> frozenset[str]:
    """Return all words of the lexicons in small letters; none of them is a name."""
    terms = (word for file in load("kinds")["files"] for word in list_words(file))
    # 天 and 涨 begin names as well: a single character that counts or measures sets nothing apart.
    apart = {word for term in terms for word in (term, *term.split()) if word.isascii() or len(word) > 1}
    return (list_words("function_words") - list_words("function_words", "量词")) | apart


@cache
def load_vocabulary() -> frozenset[str]:
    """Return all words of the lexicons in small letters."""
    return list_words("function_words") | load_known_words() | list_words("decisive")


def is_decisive(words: str) -> bool:
    """Return whether normalised words hold one without which a question is another one."""
    known = list_words("decisive")
    if is_chinese(words):
        return any(word in words for word in known if is_chinese(word))
    return PART.fullmatch(words) is not None or not known.isdisjoint(words.split())


@cache
def _index_terms(file: str) -> Names:
    return Names((word, value) for value, words in load(file).items() for word in words)


def find_terms(text: str) -> Iterator[Mention]:
    """Yield the words for measures, frequencies, outputs, units and adjustments in a plain text."""
    for file, kind in load("kinds")["files"].items():
        yield from (Mention(MentionKind(kind), one.start, one.end, one.id) for one in _index_terms(file).find(text))


def _find_phrases(text: str) -> Iterator[Mention]:
    """Yield the phrases that operators read besides the terms."""
    for entry, kind in load("kinds")["phrases"].items():
        found = ((value, match) for value, pattern in cues(entry).items() for match in pattern.finditer(text))
        said = ((value, match.span()) for value, match in found if match[0].strip())
        yield from (Mention(MentionKind(kind), *span, value, PHRASE_CONFIDENCE) for value, span in said)


def _find_numbers(text: str) -> Iterator[Mention]:
    """Yield the numbers that no name, period or condition holds, with their unit: "50-day", "2 %", 3倍, 四."""
    for match in cue("plain_number").finditer(text):
        count = group(match, "n").replace(",", "")
        value = count if count[0].isdecimal() else parse_number(count)
        if value is not None:
            unit = choose("counted_units", group(match, "u"), whole=True)
            yield Mention(MentionKind.PARAMETER, *match.span(), f"{value} {unit}".strip(), 0.5)


def find_words(text: str, mentions: Iterable[Mention]) -> list[Mention]:
    """Return what each word of a normalised question means, besides known mentions, in order; unknown words too."""
    # The length of a window before other terms: 20日|均线 is no daily mean (日均).
    windows = [item for item in _find_numbers(text) if item.span in find_spans(["window"], text)]
    named = [item for item in mentions if item.end]
    windows = [replace(item, confidence=1.0) for item in windows if is_free(item.span, named)]
    terms = find_terms(blank(text, [item.span for item in windows]))
    found = resolve_overlaps([*named, *windows, *terms])
    for finder in (_find_phrases, _find_numbers):
        found += [item for item in finder(text) if is_free(item.span, found)]
    found = [_trim(item, text) for item in found]
    rest = blank(text, [item.span for item in found])
    unread = {*find_content_words(rest), *_find_joined_nouns(rest, select(found, MentionKind.ENTITY))}
    return sorted([*found, *list_unread(unread)], key=lambda item: item.span)


def find_joined(text: str, mentions: Iterable[Mention]) -> list[Mention]:
    """Return the entities that a conjunction joins to another one: "Apple and the US"; a comma alone may explain."""
    found = sorted(select(mentions, MentionKind.ENTITY), key=lambda item: item.span)
    pairs = [
        (one, two)
        for one, two in pairwise(found)
        if cue("both").match(text[one.end : two.start]) and text[one.end : two.start].strip(" ,，")
    ]
    return list(dict.fromkeys(item for pair in pairs for item in pair))


def is_shared(text: str, mentions: Iterable[Mention]) -> bool:
    """Return whether one figure is asked of several entities, so that none of them gets another one instead."""
    return says("shared", mark_names(text, mentions))


def mark_names(text: str, mentions: Iterable[Mention]) -> str:
    """Return a text with a mark for each entity and each indicator, as some cues have them."""
    shape, marks = text, {MentionKind.ENTITY: "\1", MentionKind.INDICATOR: "\2"}
    # Defaults that no word names have no place in the text.
    named = (item for item in select(mentions, *marks) if item.end)
    for item in sorted(named, key=lambda one: one.span, reverse=True):
        shape = shape[: item.start] + marks[item.kind] + shape[item.end :]
    return shape


def _find_joined_nouns(rest: str, entities: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Yield words of data that a conjunction joins to an entity; there they are names: "momentum ETFs and value"."""
    # A function word elsewhere: in "the value of gold" it says nothing that the figure does not.
    nouns = list_words("function_words", "data_nouns")
    for item in entities:
        for match in (cue("conjunct").search(rest[: item.start]), cue("joined").match(rest, item.end)):
            if match and match["w"].lower() in nouns:
                yield match.span("w")


def _trim(mention: Mention, text: str) -> Mention:
    """Return the mention without blanks at its ends, which rules may match."""
    words = text[mention.start : mention.end]
    start = mention.start + len(words) - len(words.lstrip(BLANKS))
    return replace(mention, start=start, end=start + len(words.strip(BLANKS)))


def find_content_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of words that are no function words; Chinese runs are cut so that the fewest characters remain.

    NUL characters stand for words that are accounted for.
    """
    known = list_words("function_words")
    for match in LATIN_WORD.finditer(text):
        core = match[0].lower().replace("’", "'").removesuffix("'s")
        # "End-of-quarter" has content only if one of its parts has.
        if core not in known and not known.issuperset(re.split("[-/]", core)):
            yield match.start(), match.start() + len(core)
    for run in CHINESE_RUN.finditer(text):
        yield from ((run.start() + start, run.start() + end) for start, end in _cut_chinese(run[0], known))


def _cut_chinese(run: str, known: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a Chinese run that no cover by function words reaches."""
    longest = max(map(len, known))
    # For each position the number of uncovered characters before it, the negative length of the last word, which is
    # better long, and the uncovered stretches.
    best: list[tuple[int, int, list[tuple[int, int]]]] = [(0, 0, [])]
    for at in range(1, len(run) + 1):
        left, _, spans = best[-1]
        joins = spans and spans[-1][1] == at - 1
        choices = [(left + 1, 0, [*spans[:-1], (spans[-1][0], at)] if joins else [*spans, (at - 1, at)])]
        sizes = (size for size in range(1, min(at, longest) + 1) if run[at - size : at] in known)
        choices += [(best[at - size][0], -size, best[at - size][2]) for size in sizes]
        best.append(min(choices, key=lambda choice: choice[:2]))
    merged: list[tuple[int, int]] = []
    for start, end in best[-1][2]:
        # A single function character inside a word belongs to it: 家 in 国家能源, 时 in 宁德时代.
        joint = not merged or run[start - 1] in list_words("function_words", "助词", "连词")
        if not joint and start - merged[-1][1] == 1 and end - merged[-1][0] > 3:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    nouns, heads = list_words("function_words", "数据名词", "量词"), list_words("function_words", "介词", "量词")
    for start, end in merged:
        # One character that is left was cut out of a word: 国 belongs to 中国 and 值 to 市值, while 的 would not.
        lone = end - start == 1
        begins = lone and start > 0 and run[start - 1] in heads
        yield start - begins, end + (lone and not begins and run[end : end + 1] in nouns)

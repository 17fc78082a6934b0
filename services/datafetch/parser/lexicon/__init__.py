"""Words for measures, frequencies, outputs and units, and words without content of their own, from YAML files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fathom.services.datafetch.catalog.names import Names
from fathom.services.datafetch.catalog.text import CJK, is_chinese
from fathom.services.datafetch.parser.mention import Mention, MentionKind

FOLDER = Path(__file__).resolve().parent
SUBJECTS = {
    "measures": MentionKind.MEASURE,
    "frequencies": MentionKind.FREQUENCY,
    "outputs": MentionKind.OUTPUT,
    "units": MentionKind.OUTPUT,
    "adjustments": MentionKind.PARAMETER,
}
# Reading the words in Python alone takes a third of a second of every start.
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A Latin word with its apostrophes and joints, or a number with its sign of percent.
LATIN_WORD = re.compile(
    r"\d+(?:st|nd|rd|th)\b|(?<!['’])[A-Za-z][A-Za-z0-9'’&./-]*[A-Za-z0-9]|(?<!['’])[A-Za-z]|\d[\d.,:/-]*\d%?|\d%?", re.A
)
# "H1", "3Q", "2nd" select a part, as words of order do.
PART = re.compile(r"[hq][1-4]|[1-4][hq]|\d+(?:st|nd|rd|th)")
# A class of words inside a cue, and a named group.
CLASS, GROUP = re.compile(r"\{([a-z_]+)\}"), re.compile(r"\(\?P<(\w+)>")
CHINESE_RUN = re.compile(f"(?:{CJK.pattern})+")


def _load(name: str) -> Any:
    return yaml.load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), Loader=FAST)  # noqa: S506 - the safe loader, in C


@cache
def cue(name: str) -> re.Pattern[str]:
    """Return the pattern of a list of phrases in ``cues.yaml``."""
    return _compile(_load_cues()[name])


@cache
def cues(name: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the patterns of an entry of ``cues.yaml`` by their values, in order."""
    return tuple((value, _compile(phrases)) for value, phrases in _load_cues()[name].items())


def group(match: re.Match[str], name: str) -> str:
    """Return what a group of a cue matched in any of its alternatives, or ""."""
    return next((text for key, text in match.groupdict().items() if key.rstrip("_") == name and text), "")


@cache
def _load_cues() -> Any:
    return _load("cues")


def _compile(phrases: list[str]) -> re.Pattern[str]:
    text, classes = "|".join(phrases), _load_cues()["classes"]
    while (filled := CLASS.sub(lambda match: classes[match[1]], text)) != text:
        text = filled
    # A pattern cannot use the name of a group twice.
    seen: Counter[str] = Counter()

    def rename(match: re.Match[str]) -> str:
        seen[match[1]] += 1
        return f"(?P<{match[1]}{'_' * (seen[match[1]] - 1)}>"

    return re.compile(GROUP.sub(rename, text), re.IGNORECASE | re.ASCII)


@cache
def load_terms(subject: str) -> Names:
    """Return an index of the words of one file, whose ids are their canonical values."""
    return Names((word, value) for value, words in _load(subject).items() for word in words)


@cache
def load_function_words() -> frozenset[str]:
    """Return the words, in small letters, that carry no content of their own."""
    return frozenset(
        word.lower() for classes in _load("function_words").values() for words in classes.values() for word in words
    )


def list_terms() -> Iterator[tuple[str, str]]:
    """Yield the words for measures and how to show them with their values, and function words with none."""
    for subject in ("measures", "outputs"):
        yield from ((word, value) for value, words in _load(subject).items() for word in words)
    # A word that is most like one of these asks for nothing; those of one character are too like everything.
    yield from ((word, "") for word in sorted(load_function_words()) if len(word) > 1)


def load_vocabulary() -> frozenset[str]:
    """Return all words of the lexicons in small letters."""
    return load_function_words() | load_known_words() | _load_decisive()


@cache
def _load_nouns() -> frozenset[str]:
    classes = _load("function_words")["chinese"]
    return frozenset(classes["数据名词"]) | frozenset(classes["量词"])


@cache
def _load_joints() -> frozenset[str]:
    classes = _load("function_words")["chinese"]
    return frozenset(classes["助词"]) | frozenset(classes["连词"])


@cache
def _load_decisive_class(name: str) -> frozenset[str]:
    return frozenset(_load("decisive")[name])


@cache
def _load_decisive() -> frozenset[str]:
    return frozenset(word for words in _load("decisive").values() for word in words)


@cache
def load_relation(name: str) -> frozenset[str]:
    """Return a set of measures or units of ``relations.yaml``."""
    return frozenset(_load("relations")[name])


@cache
def load_expressions() -> dict[str, frozenset[str]]:
    """Return by measure the measures that a query may express it by."""
    return {measure: frozenset(others) for measure, others in _load("relations")["expressed_by"].items()}


def is_decisive(words: str) -> bool:
    """Return whether normalised words hold one without which a question is another one."""
    known = _load_decisive()
    if is_chinese(words):
        return any(word in words for word in known if is_chinese(word))
    return PART.fullmatch(words) is not None or any(part in known for part in words.split())


def is_comparative(words: str) -> bool:
    """Return whether normalised words only compare: "less", "higher", 更."""
    return words in _load_decisive_class("comparison")


@cache
def load_known_words() -> frozenset[str]:
    """Return all words of the lexicons in small letters; none of them is a name."""
    terms = (word for subject in SUBJECTS for words in _load(subject).values() for word in words)
    counting = _load("function_words")["chinese"]["量词"]
    # 天 and 涨 begin names as well: a single character that counts or measures sets nothing apart.
    apart = {word.lower() for term in terms for word in (term, *term.split()) if word.isascii() or len(word) > 1}
    return (load_function_words() - frozenset(counting)) | apart


def find_terms(text: str) -> Iterator[Mention]:
    """Yield the words for measures, frequencies, outputs, units and adjustments in a plain text."""
    for subject, kind in SUBJECTS.items():
        for match in load_terms(subject).find(text):
            yield Mention(kind, match.start, match.end, match.id)


def find_content_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of words that are no function words; Chinese runs are cut so that the fewest characters remain.

    NUL characters stand for words that are accounted for.
    """
    known = load_function_words()
    for match in LATIN_WORD.finditer(text):
        word = match[0].lower().replace("’", "'")
        core = word.removesuffix("'s")
        # "End-of-quarter" has content only if one of its parts has.
        if core not in known and not all(part in known for part in re.split("[-/]", core)):
            yield match.start(), match.start() + len(core)
    for run in CHINESE_RUN.finditer(text):
        yield from _cut_chinese(text, run.start(), run.end(), known)


def _cut_chinese(text: str, start: int, end: int, known: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a Chinese run that no cover by function words reaches."""
    longest = max(map(len, known))
    # The least number of uncovered characters up to each position, and the length of the last word (0: uncovered).
    best: list[tuple[int, int]] = [(0, 0)]
    for at in range(1, end - start + 1):
        choices = [(best[at - 1][0] + 1, 0)]
        for size in range(1, min(at, longest) + 1):
            if text[start + at - size : start + at] in known:
                choices.append((best[at - size][0], size))
        best.append(min(choices, key=lambda item: (item[0], -item[1])))
    at, last = end - start, None
    spans: list[tuple[int, int]] = []
    while at > 0:
        size = best[at][1]
        if size == 0:
            last = last or start + at
            at -= 1
            if at == 0 or best[at][1]:
                spans.append((start + at, last))
                last = None
        else:
            at -= size
    merged: list[list[int]] = []
    for first, behind in reversed(spans):
        # A single function character inside a word belongs to it: 家 in 国家能源, 时 in 宁德时代.
        inside = merged and first - merged[-1][1] == 1 and text[first - 1] not in _load_joints()
        if inside and behind - merged[-1][0] > 3:
            merged[-1][1] = behind
        else:
            merged.append([first, behind])
    for first, behind in merged:
        # One character that is left was cut out of a word: 值 belongs to 市值, while 的 would not.
        if behind - first == 1 and behind < end and text[behind] in _load_nouns():
            behind += 1
        yield first, behind

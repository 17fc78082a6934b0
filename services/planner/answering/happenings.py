"""Comparison of events in a sentence with passages: directions, opposites, negations, names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from services.planner.answering.evidence import Line, Source
from services.planner.model import Kind

UP = (
    r"(?:rose|risen?|rises|rising|gain(?:ed|s)?|increas(?:e|ed|es|ing)|climb(?:ed|s)?|grew|grown|grows|jumped|surged|soared|"
    r"advanced|appreciated|up|higher|上涨|上升|增长|增加|攀升|走高|提高|涨)"
)
DOWN = (
    r"(?:fell|fallen?|falls|falling|declin(?:e|ed|es|ing)|drop(?:ped|s)?|decreas(?:e|ed|es|ing)|lost|loses|slid|sank|slumped|"
    r"plunged|shrank|tumbled|depreciated|down|lower|cut|下跌|下降|减少|回落|走低|降低|跌)"
)
DIRECTIONS = tuple(
    re.compile(rf"(?<![A-Za-z]){words}(?![A-Za-z])" if words[3].isascii() else words, re.IGNORECASE)
    for words in (UP, DOWN)
)
OPPOSITES = [
    tuple(re.compile(rf"(?<![A-Za-z])(?:{side})(?![A-Za-z])", re.IGNORECASE) for side in pair)
    for pair in (
        (r"cuts?|cutting|reduced|lowered", r"rais(?:e|ed|es|ing)|lifted|hiked"),
        (
            r"accept(?:s|ed)?|approved?|agreed|backed|supports?|supported",
            r"reject(?:s|ed)?|refused?|opposed|opposes|blocked",
        ),
        (r"resign(?:s|ed|ation)|quit|stepped down", r"appointed|sworn in|elected|took office|stayed on"),
        (r"bought|acquired?|buys|purchased", r"sold|sells|divested"),
        (
            r"open(?:s|ed)|launch(?:ed|es)?|start(?:ed)?|began|begun|resumed?",
            r"clos(?:e|ed|es)|ceased|shut|ended|adjourned|suspended",
        ),
        (r"confident|optimistic", r"doubtful|pessimistic|worried|doubts?"),
        (r"improv(?:e|ed|es|ing)", r"deteriorat(?:e|ed|es|ing)|worsen(?:s|ed|ing)?|failing|weaken(?:ed|s|ing)?"),
        (r"won|wins|beat|defeated", r"lost|loses"),
        (r"strong(?:er)?", r"weak(?:er)?"),
        (
            r"increas(?:e|ed|es|ing)|extend(?:ed|s)?|expand(?:ed|s)?|rais(?:e|ed|es|ing)|doubled",
            r"reduc(?:e|ed|es|ing)|limit(?:ed|s)?|shr[aiu]nk|cut(?:s|ting)?|halved|curtailed",
        ),
        (r"profits?", r"loss(?:es)?"),
        ("上调|加息|提高", "下调|降息|降低"),
        ("增持|买入|收购", "减持|卖出|出售"),
        ("批准|同意|通过", "否决|拒绝|反对"),
        ("盈利|扭亏", "亏损"),
        ("上涨|上升|增长|增加", "下跌|下降|减少|下滑"),
    )
]
NEGATION = re.compile(
    r"(?<![A-Za-z])(?:not|no|never|without|neither|nor|cannot|denied|denies|fail(?:ed|s)? to)(?![A-Za-z])|n't\b"
    "|未|没有|并非|不会|否认",
    re.IGNORECASE,
)
CONTRAST = re.compile(r"\b(?:but|although|though|while|whereas|however)\b|;|但|然而|；", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]+|[\u4e00-\u9fff]{2}|\d[\d.,]*")
STOP = frozenset((
    "the", "a", "an", "and", "or", "of", "to", "in", "on", "at", "by", "for", "with", "from", "as", "is", "are",
    "was", "were", "be", "been", "has", "have", "had", "it", "its", "this", "that", "these", "those", "which",
    "who", "whose", "their", "his", "her", "he", "she", "they", "will", "would", "could", "should", "may", "might",
    "than", "then", "there", "also", "after", "before", "over", "into", "about", "says", "said", "say", "not", "no",
    "more", "most", "other", "some", "such", "only", "but", "while", "during", "per",
))  # fmt: skip
NAME = re.compile(
    r"(?<![A-Za-z.])[A-Z][A-Za-z&'’-]*[a-z][A-Za-z&'’-]*(?:\s+(?:of\s+(?:the\s+)?)?[A-Z][A-Za-z&'’-]*[a-z][A-Za-z&'’-]*)*"
)
TOKEN = re.compile(r"[A-Za-z][A-Za-z'’-]*|(?<!\[)\b\d[\d.,%]*")
AROUND, STEM, NEGATED_CHARS = 5, 5, 40
ORDINARY = frozenset((
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "mr", "mrs", "ms",
    "dr", "the", "this", "that", "these", "in", "on", "at",
))  # fmt: skip


def direction_before(text: str, position: int) -> int:
    """Return the direction stated around a position: 1 (up), -1 (down) or 0; the nearest word before it wins."""
    clause = re.split(r"[,;，；。:：]|\b(?:and|but|while|whereas)\b", text[:position])[-1]
    last = [max((match.start() for match in pattern.finditer(clause)), default=-1) for pattern in DIRECTIONS]
    if last[0] != last[1]:
        return 1 if last[0] > last[1] else -1
    tail = re.split(r"[,;，；。]", text[position:])[0][:24]
    after = [pattern.search(tail) for pattern in DIRECTIONS]
    if bool(after[0]) != bool(after[1]):
        return 1 if after[0] else -1
    return 0


def words_of(text: str) -> set[str]:
    """Return the lower-case content words of a text; Chinese text as character bigrams."""
    found = {word.lower().replace("’", "'").removesuffix("'s") for word in WORD.findall(text)}
    for run in re.findall(r"[\u4e00-\u9fff]{2,}", text):
        found |= {run[i : i + 2] for i in range(len(run) - 1)}
    return found - STOP


def nearest_line(text: str, lines: Sequence[Line]) -> tuple[float, Line | None]:
    """Return the line that shares most of the text's words, with the share (0 to 1)."""
    wanted = words_of(text)
    best: tuple[float, Line | None] = (0.0, None)
    for line in lines:
        part = len(wanted & words_of(line.text)) / len(wanted) if wanted else 0.0
        if part > best[0]:
            best = (part, line)
    return best


def contradiction(text: str, sources: Sequence[Source]) -> str:
    """Return how passages contradict the text; "" when no contradiction is found."""
    lines = [line for source in sources if source.kind is Kind.PASSAGE for line in (source.about, *source.lines)]
    part, line = nearest_line(text, lines)
    if line is None or part < 0.5:
        return ""
    for left, right in OPPOSITES:
        for said, held in ((left, right), (right, left)):
            mine, theirs = said.search(text), held.search(line.text)
            if mine and theirs and not held.search(text) and not said.search(line.text):
                return f"the text says {mine.group()!r}, the material {theirs.group()!r}"
    # A "not" in another clause of the line does not concern the text.
    told = nearest_clause(text, line.text)
    if part >= 0.7 and negates(text, told) != negates(told, text):
        return f"one of both negates it: {told.strip()[:160]}"
    return ""


def negates(text: str, other: str) -> bool:
    """Return whether the text negates a word that the other text contains too."""
    shared = words_of(other)
    for match in NEGATION.finditer(text):
        words = WORD.findall(text[match.end() : match.end() + NEGATED_CHARS])
        first = next((word.lower() for word in words if word.lower() not in STOP), "")
        if first in shared:
            return True
    return False


def nearest_clause(text: str, line: str) -> str:
    """Return the clause of a line that shares most words with the text."""
    wanted = words_of(text)
    return max(CONTRAST.split(line), key=lambda clause: len(wanted & words_of(clause)))


def exchanged(text: str, lines: Sequence[Line], corpus: str) -> tuple[re.Match[str], str] | None:
    """Find a word that replaces another one in an otherwise copied line.

    Return its match and the original word, or None. At least ``AROUND`` surrounding words must match, on both sides
    unless the sentence begins or ends there, and the word must not occur in ``corpus`` (lower case). Known synonyms
    (the same direction or side of an opposition) do not count.
    """
    mine = list(TOKEN.finditer(text))
    said = [match.group().lower() for match in mine]
    for line in lines:
        held = [word.lower() for word in TOKEN.findall(line.text)]
        blocks = SequenceMatcher(None, said, held, autojunk=False).get_matching_blocks()
        for left, right in zip([None, *blocks], blocks, strict=False):
            i, k = (left.a + left.size, left.b + left.size) if left else (0, right.b - right.a)
            ends = right.size == 0  # the last block closes both sequences
            j, m = right.a, (k + right.a - i if ends else right.b)
            around = (left.size if left else 0) + right.size
            words = [place for place in range(i, j) if said[place] not in STOP]
            others = [word for word in held[max(k, 0) : m] if word not in STOP]
            if around < AROUND or len(words) != 1 or len(others) != 1 or j - i > 2:
                continue
            if foreign(said[words[0]], others[0], corpus):
                return mine[words[0]], others[0]
    return None


def foreign(word: str, held: str, corpus: str) -> bool:
    """Return whether ``word`` does not occur in the corpus and differs in meaning from ``held``."""
    if not word.isalpha() or not held.isalpha() or word in STOP or held in STOP or word[:STEM] == held[:STEM]:
        return False
    alike = [pattern for pair in (*OPPOSITES, DIRECTIONS) for pattern in pair if pattern.search(word)]
    return not any(pattern.search(held) for pattern in alike) and not re.search(rf"\b{word[:STEM]}", corpus)


def strange_names(text: str, heading: bool, is_name: Callable[[str], bool]) -> list[re.Match[str]]:
    """Return proper names in a sentence.

    Its first word counts when a second capitalised word follows, or when ``is_name`` accepts it.
    """
    if heading:
        return []
    out = []
    opening = re.match(r"[\s\"'“‘(*_>-]*", text)
    first = opening.end() if opening else 0
    for match in NAME.finditer(text):
        words = match.group().split()
        if match.start() <= first and len(words) < 2 and not is_name(bare(words[0])):
            continue
        if all(word.lower() in ORDINARY for word in words):
            continue
        out.append(match)
    return out


def bare(word: str) -> str:
    """Return the word without a possessive ending."""
    return re.sub(r"['’]s?$", "", word)


def unknown_name(name: str, corpus: str) -> bool:
    """Return whether some word of a name is missing from the corpus (lower case)."""
    words = [bare(word).lower() for word in name.split()]
    words = [word for word in words if word not in STOP and word not in ORDINARY]
    return bool(words) and not all(re.search(rf"(?<![a-z]){re.escape(word)}", corpus) for word in words)

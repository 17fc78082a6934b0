"""Comparison of events in a sentence with passages: directions, opposites, negations, names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from fathom.domain.text.months import MONTH_NAMES
from fathom.domain.text.scripts import HAN
from fathom.domain.text.stop_words import FUNCTION_WORDS
from fathom.services.planner.answering.verification.comparison.relations import find_relations
from fathom.services.planner.answering.verification.evidence import Line, Source
from fathom.services.planner.model.episode import MaterialKind

UP = (
    r"(?:rose|risen?|rises|rising|gain(?:ed|s)?|increas(?:e|ed|es|ing)|climb(?:ed|s)?|grew|grown|grows|jumped|surged|soared|"
    r"advanced|appreciated|up(?=\s+(?:by\s+)?[$€£¥]?\d|\s+(?:on|from|to|in)\b)|(?<=[\d%]\s)up|higher|上涨|上升|增长|增加|攀升|走高|提高|涨)"
)
DOWN = (
    r"(?:fell|fallen?|falls|falling|declin(?:e|ed|es|ing)|drop(?:ped|s)?|decreas(?:e|ed|es|ing)|lost|loses|slid|sank|slumped|contracted|"
    r"plunged|shrank|tumbled|depreciated|down(?=\s+(?:by\s+)?[$€£¥]?\d|\s+(?:on|from|to|in)\b)|(?<=[\d%]\s)down|lower|cut|下跌|下降|减少|回落|走低|降低|跌)"
)
# Word boundaries for Latin letters only: Chinese has none.
DIRECTIONS = tuple(
    re.compile(rf"(?<![A-Za-z]){words}(?![A-Za-z])" if words[3].isascii() else words, re.IGNORECASE)
    for words in (UP, DOWN)
)
# Pairs of statements that exclude each other. A pair counts only when each text has one side and not the other.
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
# Words that negate what follows; looked at within NEGATED_CHARS only.
NEGATION = re.compile(
    r"(?<![A-Za-z])(?:not|no|never|without|neither|nor|cannot|denied|denies|fail(?:ed|s)? to)(?![A-Za-z])|n't\b"
    "|未|没有|并非|不会|否认",
    re.IGNORECASE,
)
# Where a clause ends that a negation does not reach beyond.
CONTRAST = re.compile(r"\b(?:but|although|though|while|whereas|however)\b|;|但|然而|；", re.IGNORECASE)
WORD = re.compile(rf"[A-Za-z][A-Za-z'’-]+|[{HAN}]{{2}}|\d[\d.,]*")
STOP = FUNCTION_WORDS | frozenset((
    "were", "been", "had", "these", "those", "which", "who", "whose", "their", "his", "her", "he", "she", "they",
    "would", "could", "should", "may", "might", "than", "also", "after", "before", "over", "into", "about", "says",
    "said", "say", "not", "no", "more", "most", "other", "some", "such", "only", "but", "while", "during", "per",
))  # fmt: skip
# One or more capitalised words, joined by "of" or "of the"; a lower-case letter in each excludes acronyms.
NAME = re.compile(
    r"(?<![A-Za-z.])[A-Z][A-Za-z&'’-]*[a-z][A-Za-z&'’-]*(?:\s+(?:of\s+(?:the\s+)?)?[A-Z][A-Za-z&'’-]*[a-z][A-Za-z&'’-]*)*"
)
TOKEN = re.compile(r"[A-Za-z][A-Za-z'’-]*|(?<!\[)\b\d[\d.,%]*")
# Five equal neighbours make it a copied line; five letters make a word stem, which folds inflections; a negation
# reaches over about six words.
AROUND, STEM, NEGATED_CHARS = 5, 5, 40
# Letters of the shortest name that another one is derived from.
FEWEST_STEM = 4
ORDINARY = frozenset((
    *map(str.lower, MONTH_NAMES), "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
    "mr", "mrs", "ms", "dr", "the", "this", "that", "these", "in", "on", "at",
))  # fmt: skip


def find_direction(text: str, position: int) -> int:
    """Return the direction stated around a position: 1 (up), -1 (down) or 0; the nearest word before it wins."""
    # The direction belongs to the clause of the number: in "Apple fell, Microsoft rose 3 %" it is the second one.
    clause = re.split(r"[,;，；。:：]|\b(?:and|but|while|whereas)\b", text[:position])[-1]
    # "the 20 million jobs lost exceeded the 12 million won back": a verb of comparison parts both sides.
    verbs = [one for one in find_relations(clause) if not one.needs_than and not one.is_superlative]
    clause = clause[verbs[-1].end :] if verbs else clause
    last = [max((match.start() for match in pattern.finditer(clause)), default=-1) for pattern in DIRECTIONS]
    if last[0] != last[1]:
        return 1 if last[0] > last[1] else -1
    # "a 3 % decline": the word may follow, but close by.
    tail = re.split(r"[,;，；。]", text[position:])[0][:24]
    after = [pattern.search(tail) for pattern in DIRECTIONS]
    if bool(after[0]) != bool(after[1]):
        return 1 if after[0] else -1
    return 0


def extract_words(text: str) -> set[str]:
    """Return the lower-case content words of a text; Chinese text as character bigrams."""
    found = {word.lower().replace("’", "'").removesuffix("'s") for word in WORD.findall(text)}
    for run in re.findall(rf"[{HAN}]{{2,}}", text):
        found |= {run[i : i + 2] for i in range(len(run) - 1)}
    return found - STOP


def find_nearest_line(text: str, lines: Sequence[Line]) -> tuple[float, Line | None]:
    """Return the line that shares most of the text's words, with the share (0 to 1)."""
    wanted = extract_words(text)
    best: tuple[float, Line | None] = (0.0, None)
    for line in lines:
        part = len(wanted & extract_words(line.text)) / len(wanted) if wanted else 0.0
        if part > best[0]:
            best = (part, line)
    return best


def find_contradiction(text: str, sources: Sequence[Source]) -> str:
    """Return how passages contradict the text; "" when no contradiction is found."""
    lines = [
        line for source in sources if source.kind is MaterialKind.PASSAGE for line in (source.about, *source.lines)
    ]
    part, line = find_nearest_line(text, lines)
    # Below half of the words it is another statement, and opposites in it mean nothing.
    if line is None or part < 0.5:
        return ""
    for left, right in OPPOSITES:
        for said, held in ((left, right), (right, left)):
            mine, theirs = said.search(text), held.search(line.text)
            if mine and theirs and not held.search(text) and not said.search(line.text):
                return f"the text says {mine.group()!r}, the material {theirs.group()!r}"
    # A "not" in another clause of the line does not concern the text.
    told = find_nearest_clause(text, line.text)
    # Stricter than for opposites: a "not" is frequent, and most of them concern something else.
    if part >= 0.7 and has_negation(text, told) != has_negation(told, text):
        return f"one of both negates it: {told.strip()[:160]}"
    return ""


def has_negation(text: str, other: str) -> bool:
    """Return whether the text negates a word that the other text contains too."""
    shared = extract_words(other)
    for match in NEGATION.finditer(text):
        words = WORD.findall(text[match.end() : match.end() + NEGATED_CHARS])
        first = next((word.lower() for word in words if word.lower() not in STOP), "")
        # Only the first content word behind it is negated for certain.
        if first in shared:
            return True
    return False


def find_nearest_clause(text: str, line: str) -> str:
    """Return the clause of a line that shares most words with the text."""
    wanted = extract_words(text)
    return max(CONTRAST.split(line), key=lambda clause: len(wanted & extract_words(clause)))


def find_exchanged_word(text: str, lines: Sequence[Line], corpus: str) -> tuple[re.Match[str], str] | None:
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
            # Exactly one content word was exchanged in a copied line; more than that is a paraphrase, which is not
            # judged.
            if around < AROUND or len(words) != 1 or len(others) != 1 or j - i > 2:
                continue
            if is_foreign(said[words[0]], others[0], corpus):
                return mine[words[0]], others[0]
    return None


def is_foreign(word: str, held: str, corpus: str) -> bool:
    """Return whether ``word`` does not occur in the corpus and differs in meaning from ``held``."""
    if not word.isalpha() or not held.isalpha() or word in STOP or held in STOP or word[:STEM] == held[:STEM]:
        return False
    alike = [pattern for pair in (*OPPOSITES, DIRECTIONS) for pattern in pair if pattern.search(word)]
    return not any(pattern.search(held) for pattern in alike) and not re.search(rf"\b{word[:STEM]}", corpus)


def find_names(text: str, heading: bool, is_name: Callable[[str], bool]) -> list[re.Match[str]]:
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
        # Every sentence begins with a capital.
        if match.start() <= first and len(words) < 2 and not is_name(strip_possessive(words[0])):
            continue
        if all(word.lower() in ORDINARY for word in words):
            continue
        out.append(match)
    return out


def strip_possessive(word: str) -> str:
    """Return the word without a possessive ending."""
    return re.sub(r"['’]s?$", "", word)


def is_unknown_name(name: str, corpus: str) -> bool:
    """Return whether some word of a name is missing from the corpus (lower case)."""
    words = [strip_possessive(word).lower() for word in name.split()]
    words = [word for word in words if word not in STOP and word not in ORDINARY]
    return bool(words) and not all(has_name(word, corpus) for word in words)


def has_name(word: str, corpus: str) -> bool:
    """Return whether a corpus (lower case) has a word of a name, or what it is derived from: Asia for "Asian"."""
    if re.search(rf"(?<![a-z]){re.escape(word)}", corpus):
        return True
    # Without its ending the word has to be there as a whole: "Indian" is of India, and no "Indi…" is of Indiana.
    return any(
        len(stem) >= FEWEST_STEM and re.search(rf"(?<![a-z]){re.escape(stem)}(?![a-z])", corpus)
        for stem in (word[:-1], word[:-2])
    )

"""Passages of a turn, which become vectors, and its terms: the turn is found by both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fathom.domain.text.scripts import HAN
from fathom.domain.text.terms import list_words

# A passage of one or two sentences has one meaning; a fact in the middle of a page would be lost in the page's own.
PASSAGE_CHARS, MAX_PASSAGES = 320, 12
# Words are read farther than meanings: a table of an answer has its names in its first rows.
MAX_CHARS, MAX_TERMS = 20_000, 400
CHARACTER = re.compile(rf"[{HAN}]")
# A full stop ends a sentence only before a blank: "5.3%" is one number.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])\s*|\n+")
# Code is no dialogue, and a citation's number no word.
UNREAD = re.compile(r"```.*?(?:```|\Z)|\{\{[^{}\n]*\}\}|\[\d+(?:\s*,\s*\d+)*\](?!\()", re.DOTALL)


@dataclass(frozen=True)
class PageText:
    """The passages of a turn, the question first, and how often each of its terms stands in it."""

    passages: tuple[str, ...]
    terms: Mapping[str, int]


def read_turn(question: str, answer: str) -> PageText:
    """Return the passages and terms of a turn; of a long answer only the beginning is read."""
    prose = UNREAD.sub(" ", answer[:MAX_CHARS])
    passages = [cut_passage(question), *join_sentences(SENTENCE_END.split(prose))]
    counted = Counter(list_terms(f"{question[:MAX_CHARS]}\n{prose}"))
    return PageText(tuple(passages[:MAX_PASSAGES]), dict(counted.most_common(MAX_TERMS)))


def list_terms(text: str) -> list[str]:
    """Return the words of a text, and its Chinese characters also singly, whose neighbours are others elsewhere."""
    return [*list_words(text), *CHARACTER.findall(text)]


def join_sentences(sentences: Sequence[str]) -> Iterator[str]:
    """Yield neighbouring sentences joined up to ``PASSAGE_CHARS``; a longer one is cut."""
    held = ""
    for sentence in (" ".join(part.split()) for part in sentences):
        # Rules and rows of dashes are no sentences.
        if not any(character.isalnum() for character in sentence):
            continue
        if held and len(held) + len(sentence) >= PASSAGE_CHARS:
            yield held
            held = ""
        held = cut_passage(f"{held} {sentence}" if held else sentence)
    if held:
        yield held


def cut_passage(text: str) -> str:
    """Return the text on one line, cut to ``PASSAGE_CHARS``."""
    return " ".join(text[: 4 * PASSAGE_CHARS].split())[:PASSAGE_CHARS]

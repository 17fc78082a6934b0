"""Passages of a turn, which become vectors, and its terms: the turn is found by both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fathom.domain.text.scripts import HAN
from fathom.domain.text.terms import list_words

# A passage of one or two sentences has one meaning; a fact in the middle of a page would be lost in the page's own.
PASSAGE_CHARS, MAX_PASSAGES = 320, 12
# Words are read farther than meanings: a table of an answer has its names in its first rows.
MAX_CHARS, MAX_TERMS = 20_000, 400
CHARACTER = re.compile(rf"[{HAN}]")
# Marks what is no word of the text: an id of the catalog, and that a turn was told rather than asked.
NAME_MARK, TOLD = "@", "#told"
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# A full stop ends a sentence only before a blank: "5.3%" is one number.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])\s*|\n+")
# Code is no dialogue, and a citation's number no word.
UNREAD = re.compile(r"```.*?(?:```|\Z)|\{\{[^{}\n]*\}\}|\[\d+(?:\s*,\s*\d+)*\](?!\()", re.DOTALL)


@dataclass(frozen=True)
class PageText:
    """The passages of a turn, the question first, and how often each of its terms stands in it."""

    passages: tuple[str, ...]
    terms: Mapping[str, int]

    def list_texts(self) -> tuple[str, ...]:
        """Return the texts that become vectors: the passages, then the question with the beginning of the answer.

        A short question and a short answer say together what neither says alone.
        """
        question, *answer = self.passages
        joined = cut_passage(f"{question} {answer[0]}") if answer else question
        return self.passages if joined == question else (*self.passages, joined)

    def show(self, row: int) -> str:
        """Return the passage of a vector; of question and answer together the beginning of the answer."""
        if row < len(self.passages):
            return self.passages[row]
        return self.passages[1] if len(self.passages) > 1 else self.passages[0]

    def add_names(self, names: Iterable[Sequence[str]]) -> PageText:
        """Return the turn with the ids that its passages name as further terms, so that any spelling finds them."""
        return replace(self, terms={**self.terms, **Counter(mark_names(ident for ids in names for ident in ids))})


def mark_names(ids: Iterable[str]) -> list[str]:
    """Return ids of the catalog as terms, which no word of a text equals."""
    return [f"{NAME_MARK}{ident}" for ident in ids]


def is_told(question: str, answer: str) -> bool:
    """Return whether a turn states something of the user: it asks nothing, and no number is told in return."""
    asks = question.rstrip().endswith(("?", "？"))
    return not asks and set(NUMBER.findall(answer)) <= set(NUMBER.findall(question))


def read_turn(question: str, answer: str) -> PageText:
    """Return the passages and terms of a turn; of a long answer only the beginning is read."""
    prose = UNREAD.sub(" ", answer[:MAX_CHARS])
    passages = [cut_passage(question), *join_sentences(SENTENCE_END.split(prose))]
    counted = Counter(list_terms(f"{question[:MAX_CHARS]}\n{prose}"))
    told = {TOLD: 1} if is_told(question[:MAX_CHARS], prose) else {}
    return PageText(tuple(passages[:MAX_PASSAGES]), {**dict(counted.most_common(MAX_TERMS)), **told})


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

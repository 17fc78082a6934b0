"""Clauses of an answer, and what could support each: a table, a document only, or the answer itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fathom.services.planner.answering.verification.claims import Sentence, parse_sentences
from fathom.services.planner.classification.classifier import Classifier, Verdict
from fathom.services.planner.classification.examples import CLAUSE, GAP, OWN, SUPPORT

# Punctuation between clauses; a hyphen inside a word is none.
BORDER = re.compile(r"[,;:，、；：。()（）!?！？]|\.(?:\s|$)|\s[–—-]\s|——")
TRIMMED = " \t\n.“”\"'*_>|"
# As many as one request of vectors takes.
BATCH = 64
UNKNOWN = Verdict()


@dataclass(frozen=True)
class Clause:
    """Words between punctuation, ``text`` with a gap for each number and date; ``parts`` are the spans between them."""

    text: str
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ClauseLabels:
    """Verdicts by the words of a clause or a part; ``is_complete`` is False where the classifier did not answer."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    is_complete: bool = True
    told: Mapping[str, float] = field(default_factory=dict)
    """Similarity of the words of a cause to the most similar sentence of the documents that its sentence cites."""

    def find(self, clause: str) -> Verdict:
        """Return the verdict on a clause; an unsure one where there is none."""
        return self.verdicts.get(clause, UNKNOWN)

    def is_own(self, sentence: Sentence) -> bool:
        """Return whether a sentence tells of the answer itself: what it assumes, or lacks."""
        return any(self.has_label(words, OWN) for words in list_texts([sentence]))

    def has_label(self, words: str, label: str) -> bool:
        """Return whether words surely have a label."""
        verdict = self.find(words)
        return verdict.is_sure and verdict.label == label


def list_clauses(sentence: Sentence) -> list[Clause]:
    """Return the clauses of a sentence, which end at punctuation, without those of numbers and dates only."""
    gaps = [(number.start, number.end) for number in sentence.numbers]
    gaps += [(moment.start, moment.stop) for moment in sentence.moments]
    borders = [match.span() for match in BORDER.finditer(sentence.text)]
    borders = [one for one in borders if not any(start <= one[0] and one[1] <= end for start, end in gaps)]
    clauses = []
    for start, end in list_spans(sentence.text, (0, len(sentence.text)), borders):
        inside = [one for one in gaps if start <= one[0] < end]
        if parts := list_spans(sentence.text, (start, end), inside):
            clauses.append(Clause(write_gaps(sentence.text, (start, end), inside), tuple(parts)))
    return clauses


def list_spans(text: str, within: tuple[int, int], cuts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of words between cuts, without blanks and quotation marks around them."""
    out, (at, last) = [], within
    for start, end in [*sorted(cuts), (last, last)]:
        words = text[at:start]
        left, right = at + len(words) - len(words.lstrip(TRIMMED)), at + len(words.rstrip(TRIMMED))
        # A single character, such as a unit, says nothing.
        if right - left > 1:
            out.append((left, right))
        at = max(at, end)
    return out


def write_gaps(text: str, within: tuple[int, int], gaps: Iterable[tuple[int, int]]) -> str:
    """Return the words of a span with an ellipsis for each number and date, as the examples have it."""
    out, at = "", within[0]
    for start, end in sorted(gaps):
        if start >= at:
            out += text[at:start] + GAP
        at = max(at, end)
    return " ".join((out + text[at : within[1]]).split()).strip(TRIMMED)


def list_texts(sentences: Iterable[Sentence]) -> list[str]:
    """Return the words of all clauses of sentences, and of all parts of these, without repetition."""
    texts: dict[str, None] = {}
    for sentence in sentences:
        for clause in list_clauses(sentence):
            texts.update(dict.fromkeys([clause.text, *(sentence.text[slice(*part)] for part in clause.parts)]))
    return list(texts)


async def label_clauses(markdown: str, classifier: Classifier | None) -> ClauseLabels:
    """Return what could support each clause of a text; without a classifier nothing is known of any."""
    if classifier is None:
        return ClauseLabels()
    sentences = [one for one in parse_sentences(markdown) if not one.heading and not one.row]
    texts = list_texts(sentences)
    verdicts: list[Verdict] = []
    for start in range(0, len(texts), BATCH):
        verdicts += await classifier.classify(CLAUSE, texts[start : start + BATCH], SUPPORT)
    return ClauseLabels(dict(zip(texts, verdicts, strict=True)), all(verdict.label for verdict in verdicts))

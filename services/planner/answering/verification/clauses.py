"""Clauses of an answer, and what could support each: a table, a document only, or the answer itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fathom.services.planner.answering.verification.claims import Sentence, parse_sentences
from fathom.services.planner.questions.classifier import Classifier, Verdict
from fathom.services.planner.questions.examples import CLAUSE, OWN, SUPPORT

# Punctuation between clauses; a hyphen inside a word is none.
BORDER = re.compile(r"[,;:，、；：。()（）!?！？]|\.(?:\s|$)|\s[–—-]\s|——")
TRIMMED = " \t\n.“”\"'*_>|"
# As many as one request of vectors takes.
BATCH = 64
UNKNOWN = Verdict()


@dataclass(frozen=True)
class ClauseLabels:
    """Verdicts by the words of a clause; ``is_complete`` is False where the classifier did not answer."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    is_complete: bool = True

    def find(self, clause: str) -> Verdict:
        """Return the verdict on a clause; an unsure one where there is none."""
        return self.verdicts.get(clause, UNKNOWN)

    def is_own(self, sentence: Sentence) -> bool:
        """Return whether a sentence tells of the answer itself: what it assumes, or lacks."""
        verdicts = [self.find(sentence.text[slice(*span)]) for span in list_clauses(sentence)]
        return any(verdict.is_sure and verdict.label == OWN for verdict in verdicts)


def list_clauses(sentence: Sentence) -> list[tuple[int, int]]:
    """Return the spans of a sentence between punctuation, numbers and dates, which no classifier needs to see."""
    cuts = [(match.start(), match.end()) for match in BORDER.finditer(sentence.text)]
    cuts += [(number.start, number.end) for number in sentence.numbers]
    cuts += [(moment.start, moment.stop) for moment in sentence.moments]
    out, at = [], 0
    for start, end in [*sorted(cuts), (len(sentence.text), len(sentence.text))]:
        words = sentence.text[at:start]
        left, right = at + len(words) - len(words.lstrip(TRIMMED)), at + len(words.rstrip(TRIMMED))
        # A single character, such as a unit, says nothing.
        if right - left > 1:
            out.append((left, right))
        at = max(at, end)
    return out


async def label_clauses(markdown: str, classifier: Classifier | None) -> ClauseLabels:
    """Return what could support each clause of a text; without a classifier nothing is known of any."""
    if classifier is None:
        return ClauseLabels()
    sentences = [one for one in parse_sentences(markdown) if not one.heading and not one.row]
    texts = list(dict.fromkeys(one.text[slice(*span)] for one in sentences for span in list_clauses(one)))
    verdicts: list[Verdict] = []
    for start in range(0, len(texts), BATCH):
        verdicts += await classifier.classify(CLAUSE, texts[start : start + BATCH], SUPPORT)
    return ClauseLabels(dict(zip(texts, verdicts, strict=True)), all(verdict.label for verdict in verdicts))

"""Findings from typed claims, and what they settle of the findings that were made by words and patterns alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fathom.services.planner.answering.verification.causes import find_cause
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.answering.verification.typed.claim import Form, TypedClaim
from fathom.services.planner.answering.verification.typed.judge import ClaimJudge, Judgement, Outcome
from fathom.services.planner.model.episode import Finding, FindingKind

# Kinds of findings that a claim about the same words can settle.
SETTLED = frozenset({FindingKind.NUMBER, FindingKind.TIME, FindingKind.EVENT})
NOT_READ = "not checked: no claim was read in it"
Judged = tuple[TypedClaim, Judgement]


@dataclass
class ClaimMarks:
    """Findings of false and of undecided claims, and the spans of words whose claims hold."""

    false: list[Finding] = field(default_factory=list)
    unchecked: list[Finding] = field(default_factory=list)
    computed: list[tuple[int, int]] = field(default_factory=list)
    """Spans that a formula computes, in statements of which every claim holds."""
    quoted: list[tuple[int, int]] = field(default_factory=list)
    """Spans that a document gives, in such statements."""

    def merge(self, found: Sequence[Finding]) -> list[Finding]:
        """Return other findings without those that claims have settled, and with the findings of claims.

        Words that are marked already are not called unchecked as well.
        """
        left = [mark for mark in found if not self._settles(mark)]
        marked = [*left, *self.false]
        return [*marked, *(one for one in self.unchecked if not any(is_overlap(one, mark) for mark in marked))]

    def _settles(self, mark: Finding) -> bool:
        """Return whether claims that hold are about the words of a finding; a formula gives no cause in words."""
        if mark.kind not in SETTLED:
            return False
        spans = self.quoted if find_cause(mark.text) else [*self.computed, *self.quoted]
        return any(mark.start < end and start < mark.end for start, end in spans)


def mark_claims(
    markdown: str, statements: Sequence[Sentence], claims: Sequence[TypedClaim], sources: Sequence[Source]
) -> ClaimMarks:
    """Return the findings of claims, each at its words; ``claims`` number the statements from 1."""
    judge, out = ClaimJudge(sources), ClaimMarks()
    for number, sentence in enumerate(statements, start=1):
        judged = [
            (claim, judge.judge(claim, sentence.text, sentence.cited)) for claim in claims if claim.statement == number
        ]
        add_marks(out, markdown, sentence, judged)
    return out


def add_marks(out: ClaimMarks, markdown: str, sentence: Sentence, judged: Sequence[Judged]) -> None:
    """Add what the claims of one statement give: the first false one, or the first undecided one, or what holds."""
    by_outcome: dict[Outcome, list[Judged]] = {outcome: [] for outcome in Outcome}
    for claim, judgement in judged:
        by_outcome[judgement.outcome].append((claim, judgement))
    for claim, judgement in by_outcome[Outcome.FALSE][:1]:
        out.false.append(make_mark(markdown, sentence, claim.words, FindingKind.EVENT, judgement.why))
    if by_outcome[Outcome.FALSE]:
        return
    if not judged:
        out.unchecked.append(make_mark(markdown, sentence, "", FindingKind.UNCHECKED, NOT_READ))
    for claim, judgement in by_outcome[Outcome.UNDECIDED][:1]:
        why = f"not checked: {judgement.why}"
        out.unchecked.append(make_mark(markdown, sentence, claim.words, FindingKind.UNCHECKED, why))
    if by_outcome[Outcome.UNDECIDED]:
        return
    for claim, _ in by_outcome[Outcome.HOLDS]:
        spans = out.quoted if claim.form is Form.STATED else out.computed
        spans.append(find_span(sentence, claim.words))


def make_mark(markdown: str, sentence: Sentence, words: str, kind: FindingKind, why: str) -> Finding:
    start, end = find_span(sentence, words)
    return Finding(start, end, kind, markdown[start:end], why, sentence.cited)


def find_span(sentence: Sentence, words: str) -> tuple[int, int]:
    """Return the offsets in the answer of some words of a sentence; those of the sentence where they differ from it."""
    place = sentence.text.find(words) if words else -1
    if place >= 0:
        return sentence.start + place, sentence.start + place + len(words)
    blank = len(sentence.text) - len(sentence.text.lstrip())
    return sentence.start + blank, sentence.start + len(sentence.text.rstrip())


def is_overlap(one: Finding, other: Finding) -> bool:
    """Return whether two findings share a character."""
    return one.start < other.end and other.start < one.end

"""Model-free verification of the numbers, dates and events of an answer against the cited material.

Accepted are: values that round to the stated number in any of its units (see ``Number.candidates``), in a cell of the
whole sheet, in printed output or in a passage; numbers and dates of the question; the arithmetic of two accepted
numbers of one sentence; extremes, means and changes of a cited column. Unitless integers up to 12 are counts and not
checked. Statements that cannot be parsed, such as paraphrased events, produce no finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from fathom.services.planner.answering.verification.checking.arithmetic import is_derived, lacks_points
from fathom.services.planner.answering.verification.checking.bases import find_false_bases
from fathom.services.planner.answering.verification.checking.cells import CellCheck
from fathom.services.planner.answering.verification.checking.material import CheckedMaterial
from fathom.services.planner.answering.verification.checking.numbers import NumberCheck, find_times
from fathom.services.planner.answering.verification.checking.periods import verify_date
from fathom.services.planner.answering.verification.checking.statements import StatementCheck
from fathom.services.planner.answering.verification.checking.verdict import Verdict, make_finding
from fathom.services.planner.answering.verification.claims import Sentence, parse_sentences
from fathom.services.planner.answering.verification.clauses import ClauseLabels
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.model.episode import Finding, FindingKind, MaterialKind


class Verifier:
    """Verifier of answers to one question; ``verify`` is pure and accepts any text."""

    def __init__(self, question: str, sources: Sequence[Source], labels: ClauseLabels | None = None) -> None:
        """Create the verifier; without ``labels`` of clauses, causes are found by their conjunctions only."""
        self._material = CheckedMaterial(question, sources)
        self._numbers = NumberCheck(self._material)
        self._cells = CellCheck(self._material, self._numbers)
        self._statements = StatementCheck(self._material, labels or ClauseLabels())

    def verify(self, markdown: str) -> tuple[Finding, ...]:
        """Return all findings in the order of the text."""
        out: list[Finding] = []
        sentences = parse_sentences(markdown)
        for before, sentence in pairwise([None, *sentences]):
            if sentence is not None and not sentence.row:
                is_near = before is not None and before.paragraph == sentence.paragraph
                out.extend(self._verify_sentence(sentence, before if is_near else None))
        for _, cells in groupby((s for s in sentences if s.row), key=lambda cell: cell.paragraph):
            out.extend(self._cells.verify(list(cells)))
        as_written = (replace(mark, text=markdown[mark.start : mark.end]) for mark in out)
        return tuple(sorted(as_written, key=lambda mark: (mark.start, mark.end)))

    def list_unchecked(self, markdown: str, found: Sequence[Finding]) -> tuple[Finding, ...]:
        """Return a finding for each statement that cites material, has no finding, and was not decided."""
        out: list[Finding] = []
        for sentence in parse_sentences(markdown):
            cited = [self._material.sources[number] for number in sentence.cited if number in self._material.sources]
            is_marked = any(mark.start < sentence.end and sentence.start < mark.end for mark in found)
            if cited and not (sentence.row or sentence.heading or is_marked):
                out += self._statements.list_unchecked(sentence, cited)
        return tuple(replace(mark, text=markdown[mark.start : mark.end]) for mark in out)

    def _verify_sentence(self, sentence: Sentence, before: Sentence | None) -> list[Finding]:
        cited = [self._material.sources[number] for number in sentence.cited if number in self._material.sources]
        # Without a citation anything may support the sentence; that it lacks one is a finding of its own.
        read = cited or list(self._material.sources.values())
        marks = [
            mark
            for moment in sentence.moments
            if (mark := verify_date(self._material, moment, sentence, read, bool(cited))) is not None
        ]
        verdicts = [(number, self._numbers.judge(number, sentence, read, before)) for number in sentence.numbers]
        held = [verdict.held for _, verdict in verdicts if verdict.accepted]
        shares = [verdict.held for number, verdict in verdicts if verdict.accepted and number.kind == "%"]
        for number, verdict in verdicts:
            lacking = lacks_points(number, shares)
            made = is_derived(number, held) and not lacking
            if verdict.derived and lacking:
                verdict = Verdict(False, detail="the difference of two percentages is in percentage points")
            if not verdict.accepted and not (verdict.kind is not FindingKind.EVENT and made):
                marks.append(make_finding(sentence, number.start, number.end, verdict))
        marks += find_false_bases(sentence, cited, find_times(sentence))
        marks += self._statements.verify_claims(sentence, read)
        marked = {(mark.start, mark.end) for mark in marks}
        passages = [source for source in cited if source.kind is MaterialKind.PASSAGE]
        # Events are compared only with a passage that the sentence itself cites: words of other passages differ by
        # nature.
        if passages and sentence.own and not sentence.heading:
            marks += [
                mark
                for mark in self._statements.verify_events(sentence, cited, passages)
                if (mark.start, mark.end) not in marked
            ]
        return marks

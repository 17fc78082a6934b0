"""The check of what a sentence says beside its numbers: causes, comparisons, and events of the documents it cites."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.services.planner.answering.verification.causes import (
    explain_missing_cause,
    find_cause,
    find_causes,
    is_named_in,
)
from fathom.services.planner.answering.verification.checking.material import CheckedMaterial
from fathom.services.planner.answering.verification.checking.verdict import Verdict, make_finding
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.clauses import ClauseLabels
from fathom.services.planner.answering.verification.events import (
    find_contradiction,
    find_exchanged_word,
    find_names,
    is_unknown_name,
)
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.model.episode import Finding, FindingKind, MaterialKind

COMPUTABLE = frozenset({MaterialKind.SHEET, MaterialKind.CODE})
NOT_COMPUTED = "not checked: this comparison was not computed"
RESEMBLED = "not checked: the cited document says something like it; whether it gives this cause is for its reader"


class StatementCheck:
    """Check of causes, comparisons and events."""

    def __init__(self, material: CheckedMaterial, labels: ClauseLabels) -> None:
        """Create the check; ``labels`` say what could support each clause."""
        self._material, self._labels = material, labels

    def verify_claims(self, sentence: Sentence, read: Sequence[Source]) -> list[Finding]:
        """Return findings for a cause that no source gives and for a comparison that the numbers contradict."""
        if sentence.heading or sentence.row:
            return []
        marks = []
        has_document = any(source.kind is MaterialKind.PASSAGE for source in read)
        # What cites a missing item alone says what there is not, and lists the nearest names that there are.
        tells_lack = all(source.kind is MaterialKind.MISSING for source in read)
        # Events that cite a document are checked only where their similarity to it is known.
        unknown = has_document and not self._labels.told
        names = "" if has_document else self._material.subjects
        for cause in (
            find_causes(sentence, self._labels, unknown or tells_lack, names) if self._material.sources else ()
        ):
            words = sentence.text[slice(*cause)]
            similarity = self._labels.told.get(words)
            if has_document and similarity is None and find_cause(words) is None:
                continue
            # A list of names says nothing of a cause, whatever the classifier makes of names that it does not know.
            if not is_named_in(words, self._material.names) and (why := explain_missing_cause(words, read, similarity)):
                marks.append(make_finding(sentence, *cause, Verdict(False, FindingKind.EVENT, why)))
        check = self._material.choose_comparisons(read)
        for one in check.judge(sentence):
            if one.why:
                marks.append(make_finding(sentence, one.start, one.end, Verdict(False, FindingKind.EVENT, one.why)))
        return marks

    def list_unchecked(self, sentence: Sentence, read: Sequence[Source]) -> list[Finding]:
        """Return findings for comparisons that nothing decides and for causes that a document only resembles."""
        marks = []
        # What a document compares, its own words say; only columns can be computed.
        if any(source.kind in COMPUTABLE for source in read):
            for one in self._material.choose_comparisons(read).judge(sentence):
                if one.why is None:
                    verdict = Verdict(False, FindingKind.UNCHECKED, NOT_COMPUTED)
                    marks.append(make_finding(sentence, one.start, one.end, verdict))
        for start, end in find_causes(sentence, self._labels, may_tell_events=not self._labels.told):
            words = sentence.text[start:end]
            similarity = self._labels.told.get(words)
            if similarity is not None and explain_missing_cause(words, read):
                marks.append(make_finding(sentence, start, end, Verdict(False, FindingKind.UNCHECKED, RESEMBLED)))
        return marks

    def _is_name(self, word: str) -> bool:
        """Return whether some material capitalises the word inside a sentence."""
        inner = re.compile(rf"(?<=[a-z,] ){re.escape(word)}(?![a-z])")
        return any(inner.search(line.text) for source in self._material.sources.values() for line in source.lines)

    def verify_events(self, sentence: Sentence, cited: Sequence[Source], passages: Sequence[Source]) -> list[Finding]:
        """Return findings for names absent from the cited material and for contradicted statements."""
        marks = []
        corpus = "\n".join(
            [self._material.asked.text.lower(), *(self._material.corpus[source.number] for source in cited)]
        )
        for match in find_names(sentence.text, sentence.heading, self._is_name):
            if is_unknown_name(match.group(), corpus):
                others = tuple(
                    n for n, text in self._material.corpus.items() if not is_unknown_name(match.group(), text)
                )
                detail = f"{match.group()!r} does not occur in the cited material"
                marks.append(
                    make_finding(
                        sentence, match.start(), match.end(), Verdict(False, FindingKind.EVENT, detail, others)
                    )
                )
        why = find_contradiction(sentence.text, passages)
        if why:
            stripped = sentence.text.rstrip()
            start = len(sentence.text) - len(sentence.text.lstrip())
            marks.append(make_finding(sentence, start, len(stripped), Verdict(False, FindingKind.EVENT, why)))
        lines = [line for source in passages for line in source.lines]
        # The weakest sign and the most expensive to compute: only when nothing else was found.
        other = find_exchanged_word(sentence.text, lines, corpus) if not marks else None
        if other is not None:
            word, held = other
            detail = f"the text says {word.group()!r}, the material {held!r}"
            marks.append(make_finding(sentence, word.start(), word.end(), Verdict(False, FindingKind.EVENT, detail)))
        return marks

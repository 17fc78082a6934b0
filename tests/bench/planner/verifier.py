"""Detection of planted errors by the answer's verifier, its false alarms, and what one repair turn mends.

No model is called. The baseline of the same run is the plain check that a number or name of the answer occurs
somewhere in the digests and texts that a model saw. Needs the bundled data (``make data``).
``python -m tests.bench verifier`` runs it.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.model.episode import Finding, FindingKind, Material, MaterialKind
from tests.bench.planner.planted.cases import CASES, CLEAN, FRESH, HELD_OUT, LATER, Planted
from tests.bench.planner.planted.material import Shelf, shelf

TELLING = ("this is the value of", "the text says", "the material has it in the other direction")
QUESTION = "What happened?"
BAR = {"number": 0.9, "time": 0.9}
Check = Callable[[str], tuple[Finding, ...]]


@dataclass
class Score:
    """Found and mended per kind of error, false alarms on true sentences."""

    planted: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    found: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    named: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Found under the right kind."""
    fixed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    missed: list[Planted] = field(default_factory=list)
    alarms: list[tuple[str, Finding]] = field(default_factory=list)
    claims: int = 0


async def run() -> None:
    """Prints the table of both checks and every miss and false alarm of ours."""
    async with shelf() as found:
        started = time.perf_counter()
        sources = await Evidence(found.store).gather(found.material)
        read_s = time.perf_counter() - started
        verifier = Verifier(QUESTION, sources)
        started = time.perf_counter()
        ours = score_check(verifier.verify, CASES, CLEAN)
        check_s = time.perf_counter() - started
        plain = score_check(PlainCheck(found).verify, CASES, CLEAN)
        late = score_check(verifier.verify, HELD_OUT, ())
        later = score_check(verifier.verify, LATER, ())
        fresh = score_check(verifier.verify, FRESH, ())
    count = len(CASES) * 2 + len(CLEAN)
    print(
        f"{len(CASES)} planted errors, {len(CLEAN) + len(trues(CASES))} true texts with {ours.claims} numbers and dates"
    )
    report("verifier", ours)
    print(
        "held out: numbers and times never fitted on; its events, `later` and `fresh` were seen after their first measure"
    )
    report("held out", late)
    report("later", later)
    report("fresh", fresh)
    report("plain occurrence", plain)
    print(f"sheets and texts read in {read_s * 1000:.0f} ms, {check_s / count * 1000:.1f} ms per text")
    for case in (*ours.missed, *late.missed, *later.missed, *fresh.missed):
        print(f"  missed {case.kind}: {case.wrong}")
    for text, mark in (*ours.alarms, *late.alarms, *later.alarms, *fresh.alarms):
        print(f"  false alarm {mark.kind.value} {mark.text!r} in {text!r}: {mark.detail}")


def report(name: str, score: Score) -> None:
    """One line per kind."""
    for kind in score.planted:
        whole = score.planted[kind]
        recall, named, fixed = score.found[kind] / whole, score.named[kind] / whole, score.fixed[kind] / whole
        bar = (
            f" (bar {BAR[kind]:.2f}: {'met' if recall >= BAR[kind] else 'MISSED'})"
            if kind in BAR and name == "verifier"
            else ""
        )
        print(
            f"{name:>16} {kind:>6}: recall {recall:.3f} of {whole}, as that kind {named:.3f}, fix_rate {fixed:.3f}{bar}"
        )
    rate = len(score.alarms) / score.claims if score.claims else 0.0
    print(f"{name:>16}: {len(score.alarms)} false alarms on {score.claims} true numbers and dates: {rate:.3f}")


def trues(cases: Sequence[Planted]) -> list[str]:
    """The true form of each case, once."""
    return list(dict.fromkeys(case.true for case in cases))


def score_check(check: Check, cases: Sequence[Planted], clean: Sequence[str]) -> Score:
    """Score a check over a set."""
    score = Score()
    for case in cases:
        score.planted[case.kind] += 1
        marks = check(case.wrong)
        if not marks:
            score.missed.append(case)
            continue
        score.found[case.kind] += 1
        score.named[case.kind] += any(same_kind(mark.kind, case.kind) for mark in marks)
        score.fixed[case.kind] += not check(mend_draft(case, marks)) and mend_draft(case, marks) == case.true
    for text in (*clean, *trues(cases)):
        score.claims += sum(len(s.numbers) + len(s.moments) for s in parse_sentences(text))
        score.alarms += [(text, mark) for mark in check(text)]
    return score


def same_kind(kind: FindingKind, planted: str) -> bool:
    return kind.value == planted or (kind is FindingKind.UNSUPPORTED and planted == "number")


def mend_draft(case: Planted, marks: tuple[Finding, ...]) -> str:
    """Mend a draft as the scripted fixer: it knows the truth, but writes it only where the list of findings leads it.

    That is: a finding touches the planted words, or says what the value is really of, or which words disagree.
    """
    first = case.true.index(case.old)
    touched = any(mark.start < first + len(case.new) and first < mark.end for mark in marks)
    told = any(mark.detail.startswith(TELLING) for mark in marks)
    return case.true if touched or told else case.wrong


class PlainCheck:
    """The baseline: every number and name of the text must occur, as written, in what the model was shown."""

    def __init__(self, found: Shelf) -> None:
        self._shown = "\n".join(show_material(material) for material in found.material)

    def verify(self, markdown: str) -> tuple[Finding, ...]:
        marks = []
        for match in re.finditer(r"(?<![\w\[])\d[\d,.]*\d|[A-Z][a-z]{2,}(?= [A-Z]|[ ,.'])", markdown):
            if match.group() not in self._shown:
                marks.append(Finding(match.start(), match.end(), FindingKind.NUMBER, match.group(), "does not occur"))
        return tuple(marks)


def show_material(material: Material) -> str:
    """Return what a model sees of a material."""
    item = material.item
    if material.kind is MaterialKind.SHEET:
        return f"{item.title}\n{item.digest}"
    return f"{item.title}\n{item.text}" if material.kind is MaterialKind.PASSAGE else item.stdout

"""Blind claims: planted causes, comparisons and unit errors found by the check of answers, and its false alarms.

Reads ``tests/golden/blind/other/claims_*.jsonl``, or the sets that ``FATHOM_BENCH_CLAIMS`` names, separated by commas.
Their authors knew the material and not the code: each line has a true sentence, the same with a planted error, and the
material that both cite, or else they cite the common shelf (``tests/golden/blind/CLAIMS.md`` has the form). The baseline
of the same run is the plain check that a number or name occurs somewhere in what a model saw. Needs the bundled data
(``make data``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.services.planner.answering.verification.causes import label_answer
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.model.episode import Finding
from tests.bench.planner.first_runs import announce, record
from tests.bench.planner.planted.material import Shelf, shelf
from tests.bench.planner.planted.own import OwnMaterial
from tests.bench.planner.router import make_classifier
from tests.bench.planner.verifier import QUESTION, Check, PlainCheck
from tests.golden.blind.schema import FOLDER, Claim, load_claims

MODEL = "check"


class Outcome(NamedTuple):
    """What a check found in both forms of a claim."""

    claim: Claim
    wrong: tuple[Finding, ...]
    true: tuple[Finding, ...]


async def run() -> None:
    """Print recall by kind and false alarms of the product's check and of the baseline, then each miss."""
    classifier = make_classifier()
    async with shelf() as common:
        own = OwnMaterial(common.servicer, common.store)
        for path in find_sets():
            ours, plain, first = [], [], announce(path, MODEL)
            for claim in load_claims(path):
                found = Shelf(await own.make(claim.material), *common[1:]) if claim.material else common
                sources = await Evidence(found.store).gather(found.material)
                labels = await label_answer(f"{claim.true}\n\n{claim.wrong}", sources, classifier)
                ours.append(judge(claim, Verifier(QUESTION, sources, labels).verify))
                plain.append(judge(claim, PlainCheck(found).verify))
            print_scores(path.stem, ours)
            print_scores("plain occurrence", plain)
            print_faults(ours)
            if first:
                record(path, MODEL, list_figures(ours))


def find_sets() -> list[Path]:
    """Return the files of the sets that were asked for, all of them by default."""
    wanted = [name for name in os.environ.get("FATHOM_BENCH_CLAIMS", "").split(",") if name]
    found = sorted((FOLDER.parent / "other").glob("claims_*.jsonl"))
    return [path for path in found if not wanted or path.stem in wanted]


def judge(claim: Claim, check: Check) -> Outcome:
    """Return what a check finds in both forms of a claim."""
    return Outcome(claim, check(claim.wrong), check(claim.true))


def print_scores(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print a check's recall by kind, and its false alarms on true sentences."""
    found = Counter(one.claim.kind for one in outcomes if one.wrong)
    alarms = sum(bool(one.true) for one in outcomes)
    whole = Counter(one.claim.kind for one in outcomes)
    parts = [f"{kind} {found[kind]}/{count}" for kind, count in whole.items()]
    rate = found.total() / len(outcomes)
    print(
        f"{title:>18}: found {rate:.1%} ({', '.join(parts)}); false alarms {alarms} of {len(outcomes)} true sentences"
    )


def list_figures(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the figures of a run as they are recorded."""
    found, whole = Counter(one.claim.kind for one in outcomes if one.wrong), Counter(one.claim.kind for one in outcomes)
    alarms = sum(bool(one.true) for one in outcomes)
    return {f"{kind} of {count}": str(found[kind]) for kind, count in whole.items()} | {
        f"alarms of {len(outcomes)}": str(alarms)
    }


def print_faults(outcomes: Sequence[Outcome]) -> None:
    """Print each miss and each false alarm."""
    for claim, wrong, true in outcomes:
        if not wrong:
            print(f"  missed {claim.kind} {claim.id}: {claim.wrong}")
        for mark in true:
            print(f"  false alarm {claim.id} {mark.kind.value} {mark.text!r}: {mark.detail} in {claim.true}")

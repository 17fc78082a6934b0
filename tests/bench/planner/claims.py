"""Blind claims: planted causes, comparisons and unit errors found by the check of answers, and its false alarms.

Reads ``tests/golden/blind/other/claims_*.jsonl``, written by somebody who knew the material's description and not the
code: each line has a true sentence and the same with a planted error. The baseline of the same run is the plain check
that a number or name occurs somewhere in what a model saw. Needs the bundled data (``make data``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.services.planner.answering.verification.clauses import label_clauses
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.answering.verification.verifier import Verifier
from tests.bench.planner.planted.material import shelf
from tests.bench.planner.router import make_classifier
from tests.bench.planner.verifier import QUESTION, Check, PlainCheck
from tests.golden.blind.schema import FOLDER


class Claim(NamedTuple):
    """A true sentence, and the same with a planted error of a kind."""

    id: str
    kind: str
    language: str
    true: str
    wrong: str


async def run() -> None:
    """Print recall by kind and false alarms of the product's check and of the baseline, then each miss."""
    for path in sorted((FOLDER.parent / "other").glob("claims_*.jsonl")):
        claims = load_claims(path)
        async with shelf() as found:
            sources = await Evidence(found.store).gather(found.material)
            labels = await label_clauses(
                "\n\n".join(text for c in claims for text in (c.true, c.wrong)), make_classifier()
            )
            check = Verifier(QUESTION, sources, labels).verify
            print_scores(path.stem, check, claims)
            print_scores("plain occurrence", PlainCheck(found).verify, claims)
        print_faults(check, claims)


def load_claims(path: Path) -> list[Claim]:
    """Return the claims of a file in JSON Lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Claim(**json.loads(line)) for line in lines if line.strip()]


def print_scores(title: str, check: Check, claims: Sequence[Claim]) -> None:
    """Print a check's recall by kind, and its false alarms on true sentences."""
    found, alarms = Counter(c.kind for c in claims if check(c.wrong)), sum(bool(check(c.true)) for c in claims)
    parts = [f"{kind} {found[kind]}/{count}" for kind, count in Counter(claim.kind for claim in claims).items()]
    rate = found.total() / len(claims)
    print(f"{title:>18}: found {rate:.1%} ({', '.join(parts)}); false alarms {alarms} of {len(claims)} true sentences")


def print_faults(check: Check, claims: Sequence[Claim]) -> None:
    """Print each miss and each false alarm."""
    for claim in claims:
        if not check(claim.wrong):
            print(f"  missed {claim.kind} {claim.id}: {claim.wrong}")
        for mark in check(claim.true):
            print(f"  false alarm {claim.id} {mark.kind.value} {mark.text!r}: {mark.detail} in {claim.true}")

"""Comparisons from the files of ``fathom eval rank``, and people's grades as it reads them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.core.ids import content_hash
from fathom.operations.ranking.agreement import APART
from fathom.operations.ranking.answers import read_contestants
from fathom.operations.ranking.matches import EVEN, Match, MatchJournal, Pairing, pair_all


def make_comparisons(sources: Sequence[str], matches: Path | None, limit: int, seed: int) -> list[pb.NewReviewItem]:
    """Return drawn pairs of two contestants' answers, with the judge's grade where ``matches`` has one.

    Raises ``InvalidField`` for the files, and ``CorruptData`` for matches that are none.
    """
    if matches is not None and not matches.exists():
        raise InvalidField("matches", f"{matches} is not there")
    pairings = [one for one in pair_all(read_contestants(sources)) if one.left_answer and one.right_answer]
    # Drawn before the judge is looked at, so that people do not only see what the judge could grade.
    random.Random(seed).shuffle(pairings)
    judged = MatchJournal(matches).read().values() if matches is not None else ()
    graded = {(match.question, match.left, match.right): match for match in judged}
    return [make_comparison(sort_sides(one), graded) for one in pairings[:limit]]


def sort_sides(pairing: Pairing) -> Pairing:
    """Return the pairing with its sides in the order of their names, however the files were given."""
    if pairing.left <= pairing.right:
        return pairing
    return Pairing(pairing.question, pairing.right, pairing.left, pairing.right_answer, pairing.left_answer)


def make_comparison(pairing: Pairing, graded: Mapping[tuple[str, str, str], Match]) -> pb.NewReviewItem:
    """Return the item of a pairing; the same answers have the same key."""
    sides = [(pairing.left, pairing.left_answer), (pairing.right, pairing.right_answer)]
    item = pb.NewReviewItem(
        key=f"comparison_{content_hash([pairing.question, *sides])[:32]}",
        kind=pb.REVIEW_KIND_COMPARISON,
        question=pairing.question,
        texts=[pb.ReviewText(text=answer, owner=name) for name, answer in sides],
    )
    match = graded.get((pairing.question, pairing.left, pairing.right))
    turned = graded.get((pairing.question, pairing.right, pairing.left))
    if found := match or turned:
        # Of five, the middle is even: seen from the other side a grade lies as far beyond it.
        grade = (found.grade - EVEN) * (1 if match else -1)
        item.machine.CopyFrom(pb.MachineVerdict(grade=grade, reason=found.reason, by=found.judge))
    return item


def list_grades(
    comparisons: Iterable[pb.ReviewItem], rechecks: Iterable[pb.ReviewItem], left_out: Counter[str]
) -> list[dict[str, Any]]:
    """Return people's grades as ``--human`` reads them; ``comparisons`` come with the newest first.

    A recheck has the last word. What waits for one is left out, and so is all but the newest grade of a pair.
    """
    settled = {item.key: item for item in rechecks}
    found: dict[tuple[str, frozenset[str]], dict[str, Any]] = {}
    for item in comparisons:
        last = settled.get(item.id, item)
        owners = [one.owner for one in last.texts]
        pair = (item.question, frozenset(owners))
        if not all(owners) or len(pair[1]) < len(owners):
            left_out["it does not say whose the two answers are"] += 1
        elif last is item and is_apart(item):
            left_out["it waits for its recheck"] += 1
        elif pair in found:
            # Both would be read as one pair with two grades, which contradict each other.
            left_out["there is a newer grade of the same two on the question"] += 1
        else:
            left, right = owners
            grade = EVEN + last.decision.grade
            found[pair] = {"question": item.question, "left": left, "right": right, "grade": grade}
    return list(found.values())


def is_apart(item: pb.ReviewItem) -> bool:
    """Return whether judge and person graded an item so differently that it is looked at again."""
    return item.machine.HasField("grade") and abs(item.machine.grade - item.decision.grade) >= APART


def list_rechecks(rechecks: Iterable[pb.ReviewItem]) -> list[dict[str, Any]]:
    """Return rechecks with the grades of judge and person, their reasons, and the one that holds."""
    return [
        {
            "question": item.question,
            "left": item.texts[0].owner,
            "right": item.texts[1].owner,
            "grade": EVEN + item.decision.grade,
            "judge_grade": EVEN + item.machine.grade,
            "judge_reason": item.machine.reason,
            "human_grade": EVEN + item.previous.grade,
            "human_reason": item.previous.reason,
            "reason": item.decision.reason,
        }
        for item in rechecks
    ]

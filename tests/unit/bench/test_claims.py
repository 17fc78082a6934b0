"""The benchmark of claims with a model: how sentences become answers, and how findings are counted."""

from __future__ import annotations

from fathom.services.planner.model.episode import Finding, FindingKind
from tests.bench.planner.claims import (
    CITATION,
    SENTENCES,
    Outcome,
    count_outcomes,
    divide_findings,
    group_forms,
    is_unread,
    move_citations,
)
from tests.golden.blind.schema import Claim

CLAIMS = [
    Claim(id=f"x-{place}", kind="unit", language="en", true=f"{place} dollars [1].", wrong=f"{place} euros [1].")
    for place in range(20)
]
FALSE = Finding(2, 5, FindingKind.EVENT, "fell", "the numbers say the opposite")
OPEN = Finding(2, 5, FindingKind.UNCHECKED, "fell", "not checked")


def test_the_two_forms_of_a_case_are_never_in_one_answer() -> None:
    groups = group_forms(CLAIMS)
    assert all(len({claim.id for claim, _ in group}) == len(group) <= SENTENCES for group in groups)
    assert sorted((claim.id, is_wrong) for group in groups for claim, is_wrong in group) == sorted(
        (claim.id, is_wrong) for claim in CLAIMS for is_wrong in (True, False)
    )
    assert any(len({is_wrong for _, is_wrong in group}) == 2 for group in groups)


def test_citations_move_with_their_material() -> None:
    assert CITATION.sub(move_citations(4), "It rose [1], said both [1, 2].") == "It rose [5], said both [5][6]."


def test_findings_belong_to_the_paragraph_of_their_words() -> None:
    late = Finding(10, 14, FindingKind.NUMBER, "four", "not found")
    assert divide_findings("It fell.\n\nfour.", [FALSE, late]) == [(FALSE,), (late,)]
    # What is said at the end of a text is said of all of it.
    whole = Finding(15, 15, FindingKind.UNCHECKED, "", "no model answered")
    assert divide_findings("It fell.\n\nfour.", [whole]) == [(whole,), (whole,)]
    assert (is_unread([whole]), is_unread([OPEN]), is_unread([FALSE])) == (True, False, False)


def test_what_is_not_checked_is_neither_found_nor_an_alarm() -> None:
    outcomes = [Outcome(CLAIMS[0], (OPEN,), (OPEN,)), Outcome(CLAIMS[1], (FALSE, OPEN), (FALSE,))]
    whole, found, alarms, unchecked = count_outcomes(outcomes)
    assert (whole["unit"], found["unit"], alarms, unchecked) == (2, 1, 1, 2)

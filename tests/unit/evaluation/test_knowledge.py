"""The probe for narrow hallucination: its questions, what counts as right, and its test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from scipy import stats

from fathom.core.errors import CorruptData, NotFound
from fathom.operations.evaluation.knowledge import (
    Comparison,
    Fact,
    Share,
    find_mcnemar_p,
    is_right_reply,
    load_facts,
)

FACTS = load_facts()


def fact(*accepted: str) -> Fact:
    return Fact(id="a", topic="t", question="What?", accepted=accepted)


def test_the_questions_are_of_several_topics_in_both_languages_and_give_nothing_away() -> None:
    assert len(FACTS) == 115
    topics = Counter(one.topic for one in FACTS)
    assert min(topics.values()) >= 15
    assert Counter(one.language for one in FACTS) == {"en": 100, "zh": 15}
    for one in FACTS:
        assert not is_right_reply(one, one.question), one.id
        assert all(is_right_reply(one, f"Well, it is {accepted}, I think.") for accepted in one.accepted), one.id


@pytest.mark.parametrize(
    ("accepted", "reply", "is_right"),
    [
        ("Au", "The symbol is Au.", True),
        ("Au", "Because of its colour.", False),
        ("New York", "It is in new york city", True),
        ("New York", "York is new to me", False),
        ("4", "2 + 2 = 4", True),
        ("4", "It is 44.", False),
        ("H2O", "Water is H2O!", True),
        ("日元", "日本的货币是日元。", True),
        ("日元", "日本用美元", False),
        ("Paris", "", False),
    ],
)
def test_whole_words_count_wherever_they_stand(accepted: str, reply: str, is_right: bool) -> None:
    assert is_right_reply(fact(accepted), reply) is is_right


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (1, 0), (3, 1), (12, 5), (5, 12), (30, 8), (9, 9)])
def test_the_p_is_mcnemars_exact_one(lost: int, gained: int) -> None:
    # By definition a sign test of the pairs that changed; scipy computes that by itself.
    known = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert find_mcnemar_p(lost, gained) == pytest.approx(known)


def test_a_comparison_sorts_facts_by_both_replies() -> None:
    facts = tuple(Fact(id=name, topic=name[0], question=name, accepted=("yes",)) for name in ("a1", "a2", "b1", "b2"))
    before = {"a1": "yes", "a2": "yes", "b1": "no", "b2": "no"}
    after = {"a1": "yes", "a2": "no", "b1": "yes", "b2": "no"}
    found = Comparison(facts, before, after)
    assert [one.id for one in found.list_lost()] == ["a2"]
    assert [one.id for one in found.list_gained()] == ["b1"]
    assert (found.count_known(before), found.count_known(after)) == (Share(2, 4), Share(2, 4))
    assert [one.id for one in found.choose_topic("b").list_lost()] == []
    assert Share(0, 0).describe() == "0 of 0, no share [0.0%, 100.0%]"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (None, NotFound, "facts.yaml"),
        ("[]", CorruptData, "has no question"),
        ("3", CorruptData, "facts.yaml"),
        ("- {id: a, topic: t, question: q}", CorruptData, "accepted"),
        ("- &x {id: a, topic: t, question: q, accepted: [y]}\n- *x", CorruptData, "'a' stands twice"),
        ("- {id: a, topic: t, question: q, accepted: [y], more: 1}", CorruptData, "more"),
        ("{", CorruptData, "facts.yaml"),
    ],
)
def test_a_broken_file_is_refused(text: str | None, error: type[Exception], said: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=said):
        load_facts(path)

"""BRPO with a deterministic judge: draws, rewards by hand, dropped groups, failures."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.planner.v1.trajectory_pb2 import Answer, Trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.trainers.algorithms.brpo import (
    BRPO,
    Comparison,
    PairwiseGrader,
    broadcast,
    draw_comparisons,
    judge_pairs,
    pairwise_rewards,
    read_outcome,
)
from fathom.trainers.config.brpo import BrpoConfig
from fathom.trainers.interfaces import Role
from fathom.trainers.rollouts.groups import Group
from fathom.transport.rpc.dispatch import Dispatcher
from tests.unit.reward.house import House
from tests.unit.reward.scripted_policy import ScriptedPolicy
from tests.unit.trainers.algorithms.scripted import Scene

UIDS = ["a"] * 4 + ["b"] * 4


# Stands for the judge where only what follows from its verdicts is on trial: the longer answer wins, ties are 0.
def longer(answers: list[str], compared: list[Comparison]) -> list[float | None]:
    """A judge by length."""
    lengths = [len(answer) for answer in answers]
    return [
        float((lengths[one.row] > lengths[one.reference]) - (lengths[one.row] < lengths[one.reference]))
        for one in compared
    ]


def test_each_row_meets_its_own_groups_reference_and_no_reference_itself() -> None:
    found = draw_comparisons(UIDS, seed=3)
    # One reference per group of four leaves three comparisons each.
    assert len(found) == 6
    for group in (range(4), range(4, 8)):
        references = {one.reference for one in found if one.row in group}
        assert len(references) == 1
        assert references < set(group)
        assert {one.row for one in found if one.row in group} == set(group) - references
    assert draw_comparisons(UIDS, seed=3) == found
    # The draw of a group depends on the seed and its own rows alone, not on which groups are beside it.
    assert draw_comparisons(UIDS[4:], seed=3) == [
        Comparison(one.row - 4, one.reference - 4) for one in found if one.row > 3
    ]


def test_every_member_is_drawn_as_often() -> None:
    drawn = Counter(draw_comparisons(["a"] * 4, seed=seed)[0].reference for seed in range(2_000))
    # 2,000 draws of 4: 500 expected, with a standard deviation of 19; five of those on either side.
    assert all(400 < drawn[row] < 600 for row in range(4))


@pytest.mark.parametrize("references", [0, 4, 9])
def test_references_must_leave_somebody_to_compare(references: int) -> None:
    with pytest.raises(InvalidField, match="references"):
        draw_comparisons(UIDS, references=references)


def test_rewards_by_hand() -> None:
    """Reference is row 1: rows 0 and 3 win, row 2 loses; the advantage is the outcome itself."""
    compared = [Comparison(row, 1) for row in (0, 2, 3)]
    found = pairwise_rewards(["a"] * 4, compared, [1.0, -1.0, 1.0])
    assert found.advantages.tolist() == [1.0, 0.0, -1.0, 1.0]
    assert found.kept.all()
    # (1 + 0 - 1 + 1) / 4: no mean is taken off, as the method's bootstrapped reference is the baseline already.
    assert found.metrics["brpo/advantage_mean"] == 0.25


def test_several_references_are_averaged_and_meet_each_other() -> None:
    compared = draw_comparisons(["a"] * 4, references=2, seed=1)
    first, second = sorted({one.reference for one in compared})
    assert Comparison(first, second) in compared
    assert Comparison(second, first) in compared
    answers = ["x", "xx", "xxx", "xxxx"]
    found = pairwise_rewards(["a"] * 4, compared, longer(answers, compared), skew=1.0)
    # A reference is compared with the other one only: one comparison, not two.
    for row in range(4):
        others = [one for one in (first, second) if one != row]
        expected = sum((len(answers[row]) > len(answers[one])) * 2 - 1 for one in others) / len(others)
        assert found.advantages[row] == expected


@pytest.mark.parametrize(
    ("outcomes", "kept"),
    [([1.0, 1.0, 1.0], False), ([-1.0, -1.0, -1.0], False), ([1.0, 1.0, -1.0], True), ([1.0, 1.0, 0.0], True), ([1.0, 1.0, 0.5], False)],
)  # fmt: skip
def test_a_skewed_group_is_dropped_whole(outcomes: list[float | None], kept: bool) -> None:
    """|sum| / 4 above 0.6 says that the reference is extreme, not that the others are good."""
    found = pairwise_rewards(["a"] * 4, [Comparison(row, 0) for row in (1, 2, 3)], outcomes)
    assert bool(found.kept.all()) is kept
    assert bool(found.kept.any()) is kept
    assert (found.advantages != 0).any().item() is kept
    assert found.metrics["brpo/groups_skewed"] == float(not kept)


def test_the_bound_itself_is_kept() -> None:
    found = pairwise_rewards(["a"] * 5, [Comparison(row, 0) for row in (1, 2, 3, 4)], [1.0, 1.0, 1.0, 0.0])
    # Four comparisons for five members: the reference counts in the denominator, with an outcome of 0.
    assert found.kept.all(), "3 / 5 is not above 0.6"


def test_failures_are_0_never_a_loss_and_too_many_drop_the_group() -> None:
    compared = [Comparison(row, 0) for row in range(1, 6)]
    # The first comparison failed: row 1 gets 0, no verdict, and the others keep theirs.
    one = pairwise_rewards(["a"] * 6, compared, [None, 1.0, -1.0, 1.0, -1.0])
    assert one.advantages.tolist() == [0.0, 0.0, 1.0, -1.0, 1.0, -1.0]
    assert one.kept.all(), "one of five is not more than a fifth"
    two = pairwise_rewards(["a"] * 6, compared, [None, None, -1.0, 1.0, -1.0])
    assert not two.kept.any()
    assert two.advantages.abs().sum() == 0
    assert two.metrics["brpo/groups_failed"] == 1.0
    # Two of five comparisons.
    assert two.metrics["brpo/judge_failed"] == pytest.approx(0.4)


def test_groups_are_judged_apart() -> None:
    compared = [Comparison(row, 0) for row in (1, 2, 3)] + [Comparison(row, 4) for row in (5, 6, 7)]
    found = pairwise_rewards(UIDS, compared, [1.0, 1.0, 1.0, 1.0, -1.0, 0.0])
    # The first group's three wins out of four members are 0.75 in size: its reference was simply bad.
    assert found.kept.tolist() == [False] * 4 + [True] * 4
    assert found.advantages.tolist() == [0.0] * 4 + [0.0, 1.0, -1.0, 0.0]


@pytest.mark.parametrize(
    ("compared", "outcomes", "word"),
    [([Comparison(1, 0)], [], "0 entries for 1"), ([Comparison(1, 0)], [2.0], "outcomes"), ([Comparison(1, 0)], [float("nan")], "outcomes"), ([Comparison(5, 0)], [1.0], "two groups")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(compared: list[Comparison], outcomes: list[float | None], word: str) -> None:
    with pytest.raises(InvalidField, match=word):
        pairwise_rewards(UIDS, compared, outcomes)


@given(st.lists(st.sampled_from([1.0, -1.0, 0.0, None]), min_size=7, max_size=7), st.integers(0, 100))
def test_turned_outcomes_turn_advantages(outcomes: list[float | None], seed: int) -> None:
    compared = draw_comparisons(["a"] * 8, seed=seed)
    there = pairwise_rewards(["a"] * 8, compared, outcomes)
    # If the judge had said the opposite of everything, the policy should move the opposite way.
    back = pairwise_rewards(["a"] * 8, compared, [None if one is None else -one for one in outcomes])
    assert torch.equal(there.kept, back.kept)
    assert torch.equal(there.advantages, -back.advantages)


def test_broadcast_stands_on_sampled_tokens_only() -> None:
    mask = torch.tensor([[1, 0, 1], [1, 1, 0]])
    assert broadcast(torch.tensor([1.0, -0.5]), mask).tolist() == [[1.0, 0.0, 1.0], [-0.5, -0.5, 0.0]]


@pytest.mark.parametrize(
    ("grade", "tie", "outcome"),
    [(pb.GRADE_UNSPECIFIED, 0.0, None), (pb.GRADE_BAD, 0.0, -1.0), (pb.GRADE_RATHER_BAD, 0.0, -1.0), (pb.GRADE_EVEN, 0.0, 0.0), (pb.GRADE_EVEN, -1.0, -1.0), (pb.GRADE_RATHER_GOOD, 0.0, 1.0), (pb.GRADE_GOOD, 0.0, 1.0)],
)  # fmt: skip
def test_grades_become_outcomes(grade: Any, tie: float, outcome: float | None) -> None:
    assert read_outcome(pb.Judgement(grade=grade), tie) == outcome


def judge_of(reply: Callable[[policy.GenerateRequest], str | Exception]) -> Clients:
    """The reward service's judge, whose model answers so."""
    house = House(peers={"policy": ScriptedPolicy(reply)})
    dispatcher = Dispatcher(house.service, house.telemetry)
    dispatcher.ready = True
    return Clients({"reward": "inproc://reward"}, house.telemetry, dispatchers={"reward": dispatcher})


async def test_through_the_real_judge() -> None:
    """The whole way with a judge by length: JudgePairs in batches, both orders, one pair that fails."""

    def reply(request: policy.GenerateRequest) -> str | Exception:
        shown = re.findall(r"answer\n<quoted>\n(.*?)\n</quoted>", request.messages[1].content, re.DOTALL)
        # A reply that is no JSON, as a model gives now and then; the pair has no outcome, the batch goes on.
        if "poison" in shown:
            return "unreadable"
        # The judge is asked in both orders; lengths do not depend on the order, so the two always agree.
        return json.dumps({"first": min(10, len(shown[0])), "second": min(10, len(shown[1]))})

    clients = judge_of(reply)
    uids = [f"g{group}" for group in range(60) for _ in range(6)]
    # Lengths 1 to 6 within each group of 6, so that every reference from shortest to longest is drawn.
    answers = ["x" * (1 + row % 6) for row in range(360)]
    compared = draw_comparisons(uids, seed=1)
    # One answer, and it is no reference: exactly one comparison fails.
    answers[next(one.row for one in compared)] = "poison"
    assert len(compared) == 300
    outcomes = await judge_pairs(clients, ["q"] * 360, answers, compared)
    assert [one for one, _ in zip(outcomes, compared, strict=True)].count(None) == 1
    expected = longer(answers, compared)
    assert [one for one in outcomes if one is not None] == [
        b for a, b in zip(outcomes, expected, strict=True) if a is not None
    ]
    found = pairwise_rewards(uids, compared, outcomes)
    assert 0 < found.metrics["brpo/groups_skewed"] < 1


async def test_groups_of_episodes_get_their_judgements_as_rewards() -> None:
    """As ``fathom train brpo`` grades: the longer answer wins; a validation's group of one is compared with nobody."""

    def reply(request: policy.GenerateRequest) -> str | Exception:
        shown = re.findall(r"answer\n<quoted>\n(.*?)\n</quoted>", request.messages[1].content, re.DOTALL)
        return json.dumps({"first": min(10, len(shown[0])), "second": min(10, len(shown[1]))})

    def episode(answer: str) -> Trajectory:
        # The reward and the component from before must be replaced, not added to.
        return Trajectory(answer=Answer(markdown=answer), reward=9.0, reward_components={"old": 1.0})

    groups = [
        Group({"uid": "a", "question": "q"}, tuple(map(episode, ("xxxx [1]", "x", "xxx", "xx")))),
        Group({"uid": "alone", "question": "q"}, (episode("x"),)),
    ]
    # A skew of 1 keeps every group; dropping groups is another test's.
    grader = PairwiseGrader(judge_of(reply), BrpoConfig(style="pairwise", skew=1.0), 5)
    (several, alone), metrics = await grader(groups)
    lengths = (4, 1, 3, 2)
    [reference] = {one.reference for one in draw_comparisons(["a"] * 4, seed=5)}
    wanted = [float((length > lengths[reference]) - (length < lengths[reference])) for length in lengths]
    assert [one.reward for one in several.episodes] == wanted
    assert dict(several.episodes[0].reward_components) == {"pairwise": wanted[0], "kept": 1.0}
    assert alone.episodes[0].reward == 0.0
    assert metrics["brpo/judge_failed"] == 0
    assert (await grader(groups[1:]))[1] == {}


def test_a_rewards_is_its_advantage_and_observations_have_none(tmp_path: Path) -> None:
    """No mean is taken off. The scripted episodes' scores are 0 and 1, an observation in the middle."""
    scene = Scene(tmp_path, "trainer.total_training_steps=1", algorithm=BRPO)
    scene.trainer.fit()
    [batch] = scene.groups[Role.ACTOR].trained
    # The score is the advantage; the observation in the middle column has none.
    assert batch.tensor("advantages").tolist() == [[0.0] * 3, [1.0, 0.0, 1.0]] * 2
    with pytest.raises(InvalidField, match=r"brpo\.references"):
        Scene(tmp_path, "brpo.references=2", algorithm=BRPO)

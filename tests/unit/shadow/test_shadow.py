"""Shadow evaluation: the interval, the gate, and mirrored questions that leave nothing behind."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1.policy_pb2 import ToolSpec
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.core.errors import InvalidField
from fathom.domain.consent import SHADOW_PREFIX, Consent, ConsentRecords
from fathom.operations.shadow.gate import Decision, Gate, Outcome, judge, judge_as_they_come, wilson
from fathom.operations.shadow.mirror import READING, Experiment, Mirror, Side
from fathom.transport.store.memory import MemoryStore

WIN, TIE, LOSS, FAILED = Outcome.WIN, Outcome.TIE, Outcome.LOSS, Outcome.FAILED


# Computed by hand from the formula; the first three stand in Newcombe (1998), table I.
@pytest.mark.parametrize(
    ("wins", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilsons_interval(wins: int, count: int, low: float, high: float) -> None:
    assert wilson(wins, count) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 500), st.data())
def test_the_interval_holds_the_rate_and_mirrors_itself(count: int, data: st.DataObject) -> None:
    wins = data.draw(st.integers(0, count))
    low, high = wilson(wins, count)
    assert 0 <= low <= wins / count <= high <= 1
    assert wilson(count - wins, count) == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize(
    ("outcomes", "gate", "decision"),
    [
        ([WIN] * 40 + [LOSS] * 10, Gate(), Decision.PROMOTE),
        ([WIN] * 10 + [LOSS] * 40, Gate(), Decision.REJECT),
        ([WIN] * 26 + [LOSS] * 24, Gate(), Decision.UNDECIDED),
        # Too few, however clear; and what is even, or failed, adds nothing.
        ([WIN] * 29, Gate(), Decision.UNDECIDED),
        ([WIN] * 29 + [TIE] * 100 + [FAILED] * 100, Gate(), Decision.UNDECIDED),
        ([WIN] * 29, Gate(least=29), Decision.PROMOTE),
        # Not worse by more than a tenth.
        ([WIN] * 52 + [LOSS] * 48, Gate(threshold=0.4), Decision.PROMOTE),
        ([], Gate(), Decision.UNDECIDED),
    ],
)
def test_the_gate(outcomes: list[Outcome], gate: Gate, decision: Decision) -> None:
    assert judge(outcomes, gate).decision is decision


def test_the_first_look_that_decides_stands() -> None:
    better, worse = [WIN] * 28 + [LOSS] * 2, [LOSS] * 200
    assert judge_as_they_come(better[:29], Gate()).decision is Decision.UNDECIDED, "there is no look before the first"
    first = judge_as_they_come(better, Gate())
    assert first.decision is Decision.PROMOTE
    assert judge_as_they_come(better + worse, Gate()) == first, "what comes after the decision does not change it"
    # 21 of 30 would do for a single look at the end, and does not for the first of many.
    close = [WIN] * 21 + [LOSS] * 9
    assert judge(close, Gate()).decision is Decision.PROMOTE
    assert judge_as_they_come(close, Gate()).decision is Decision.UNDECIDED
    assert judge_as_they_come(close + [TIE] * 40 + close, Gate()).decision is Decision.PROMOTE, "the second look"


def test_looking_often_decides_wrongly_in_less_than_a_twentieth() -> None:
    draw = random.Random(1)
    decided = {True: 0, False: 0}
    for _ in range(300):
        even = [draw.choice((WIN, LOSS)) for _ in range(480)]
        decided[False] += any(judge(even[:n], Gate()).decision is not Decision.UNDECIDED for n in range(30, 481, 15))
        decided[True] += judge_as_they_come(even, Gate()).decision is not Decision.UNDECIDED
    assert decided[True] <= 0.05 * 300 < decided[False]


class House:
    """A planner whose episodes answer with their model's name, and a reward service that ranks these names."""

    def __init__(self, values: dict[str, float], failing: Sequence[str] = ()) -> None:
        self.values, self.failing = values, failing
        self.asked: list[pb.RolloutRequest] = []
        self.run: dict[str, Any] = {}
        """Fields that are particular to the run."""
        self.planner = self.reward = self

    async def list_tools(self, request: Any) -> pb.ListToolsResponse:
        names = ("search", "fetch", "delegate", "crm_update", "finish")
        return pb.ListToolsResponse(tools=[ToolSpec(name=name) for name in names])

    async def get_run(self, request: pb.GetRunRequest) -> pb.GetRunResponse:
        found = trajectory.Trajectory(
            run_id=request.run_id, question="and in 2020?", understood="What was it in 2020?",
            protocol=trajectory.PROTOCOL_RESEARCH, **self.run,
        )  # fmt: skip
        return pb.GetRunResponse(trajectory=found)

    async def rollout(self, request: pb.RolloutRequest, timeout_s: float) -> AsyncIterator[pb.RolloutResponse]:
        self.asked.append(request)
        played = trajectory.Trajectory(stop_reason=trajectory.STOP_REASON_FINISHED)
        played.answer.markdown = request.model if request.model != "silent" else " "
        if request.model in self.failing:
            played.stop_reason, played.error = trajectory.STOP_REASON_FAILED, "policy: is away"
        yield pb.RolloutResponse(trajectory=played)

    async def score(self, request: reward.ScoreRequest, timeout_s: float) -> reward.ScoreResponse:
        return reward.ScoreResponse(scores=[reward.Score(value=self.values[item.answer]) for item in request.items])

    async def judge_pairs(self, request: reward.JudgePairsRequest, timeout_s: float) -> reward.JudgePairsResponse:
        (pair,) = request.pairs
        ahead = self.values[pair.left] - self.values[pair.right]
        grade = reward.GRADE_RATHER_GOOD if ahead > 0 else reward.GRADE_BAD if ahead < 0 else reward.GRADE_EVEN
        return reward.JudgePairsResponse(judgements=[reward.Judgement(grade=grade, reason=pair.question)])

    async def mirror_runs(self, store: MemoryStore, experiment: Experiment, *run_ids: str) -> list[Outcome]:
        mirror = Mirror(SimpleNamespace(planner=self, reward=self), store, experiment)  # type: ignore[arg-type]
        return [result.outcome async for result in mirror.results(run_ids)]


def experiment(candidate: str, **more: Any) -> Experiment:
    return Experiment("e", Side.parse(candidate, "candidate"), Side("old"), **{"grader": "f1", **more})


@pytest.mark.parametrize("grader", ["f1", "judge"])
@pytest.mark.parametrize(("candidate", "outcome"), [("good", WIN), ("bad", LOSS), ("even", TIE), ("silent", LOSS)])
async def test_both_models_play_the_question_and_are_compared(grader: str, candidate: str, outcome: Outcome) -> None:
    house = House({"good": 0.9, "old": 0.5, "even": 0.5, "bad": 0.1})
    assert await house.mirror_runs(MemoryStore(), experiment(f"{candidate}@7", grader=grader), "run_1") == [outcome]
    new, old = house.asked
    assert [(request.model, request.policy_version) for request in (new, old)] == [(candidate, 7), ("old", 0)]
    for request in (new, old):
        # Whole, without its conversation; with tools that read alone; and never taken for a training's rollout.
        assert [task.question for task in request.tasks] == ["What was it in 2020?"]
        assert list(request.tools) == ["fetch", "finish", "search"]
        assert request.request_id.startswith(SHADOW_PREFIX)
    assert new.request_id != old.request_id
    assert not READING & {"delegate"}


async def test_grades_within_the_margin_are_even() -> None:
    house = House({"good": 0.9, "old": 0.5})
    assert await house.mirror_runs(MemoryStore(), experiment("good", margin=0.5), "run_1") == [TIE]


async def test_a_run_is_mirrored_once_and_what_failed_again() -> None:
    house, store = House({"good": 0.9, "old": 0.5}, failing=["good"]), MemoryStore()
    assert await house.mirror_runs(store, experiment("good"), "run_1") == [FAILED]
    house.failing = ()
    assert await house.mirror_runs(store, experiment("good"), "run_1", "run_2") == [WIN, WIN]
    played = len(house.asked)
    assert await house.mirror_runs(store, experiment("good"), "run_1", "run_2") == [WIN, WIN]
    assert len(house.asked) == played
    # Another version under the same name of the experiment is another comparison.
    await house.mirror_runs(store, experiment("good@8"), "run_1")
    assert len(house.asked) == played + 2


async def test_recorded_results_are_replayed_strictly() -> None:
    house = House({"good": 0.9, "old": 0.5})
    await house.mirror_runs(MemoryStore(), experiment("good", recording="monday"), "run_1")
    assert {(r.recording.name, r.recording.mode) for r in house.asked} == {("monday", pb.RECORDING_MODE_REPLAY_STRICT)}


@pytest.mark.parametrize(
    "run",
    [
        {"given": [trajectory.Material(number=1)]},
        {"parent_run_id": "run_0"},
        {"lane": common.LANE_TRAINING},
        {"consent": trajectory.CONSENT_REFUSED},
    ],
    ids=["with tables", "part of another", "a trainer's", "refused"],
)
async def test_some_runs_are_not_mirrored(run: dict[str, Any]) -> None:
    house = House({"good": 0.9, "old": 0.5})
    house.run = run
    assert await house.mirror_runs(MemoryStore(), experiment("good"), "run_1") == [FAILED]
    assert not house.asked


async def test_what_is_refused_later_is_not_mirrored_either() -> None:
    house, store = House({"good": 0.9, "old": 0.5}), MemoryStore()
    await ConsentRecords(store).put_run("run_1", Consent.REFUSED, "ann")
    assert await house.mirror_runs(store, experiment("good"), "run_1", "run_2") == [FAILED, WIN]


def test_a_side_that_is_no_model_is_named() -> None:
    assert str(Side.parse("tiny@3", "candidate")) == "tiny@3"
    for wrong in ("", "@3", "tiny@latest"):
        with pytest.raises(InvalidField, match="candidate"):
            Side.parse(wrong, "candidate")

"""The interpreter's rewards by episode, its rules against hacking, and advantages by component."""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

import numpy as np
import pytest
import torch

from fathom.api.datafetch.v1.datafetch_pb2 import QueryRequest, QueryResponse, Sheet
from fathom.api.planner.v1.trajectory_pb2 import Answer, CodeRecord, Material, Step, Trajectory
from fathom.api.reward.v1.reward_pb2 import Score, ScoreRequest, ScoreResponse
from fathom.core.errors import DependencyFailed, InvalidField
from fathom.domain.grading.episodes import cells
from fathom.domain.grading.graders import GRADERS, Item
from fathom.trainers.algorithms.code_interpreter import (
    CodeGrader,
    Interpreter,
    attach_sheets,
    epoch_warning,
    falling_length,
)
from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.config.sections import CollapseConfig, InterpreterConfig
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.monitor.collapse import CollapseDetector, TrainingCollapsed
from fathom.trainers.objectives.masked import whiten
from fathom.trainers.rollouts.groups import Group

GOOD = """def growth(frame):
    prices = frame.dropna()
    first = prices.iloc[0]
    last = prices.iloc[-1]
    change = last / first - 1
    rows = len(prices)
    return {"change": change, "rows": rows}
result = growth(sheet_1)
print(result)"""
PEEK = "print(sheet_1.head())"


class Graders:
    """The reward service's graders, called here."""

    def __init__(self, lost: int = 0) -> None:
        self.reward, self.requests, self.lost = self, list[ScoreRequest](), lost

    async def score(self, request: ScoreRequest, *, timeout_s: float) -> ScoreResponse:
        self.requests.append(request)
        scores = []
        for item in request.items[self.lost :]:
            grader = GRADERS[item.grader]
            parameters = {name: one.default for name, one in grader.parameters.items()} | dict(item.parameters)
            found = grader.grade(Item(item.answer, list(item.references), parameters, item.response))
            scores.append(Score(value=found.value, components=dict(found.components), reason=found.reason))
        return ScoreResponse(scores=scores)


def episode(*ran: tuple[str, bool, str], answer: str = "") -> Trajectory:
    found = Trajectory(run_id="r", answer=Answer(markdown=answer), reward=9.0, reward_components={"old": 1.0})
    for code, ok, stdout in ran:
        step = Step()
        step.material.append(Material(code=CodeRecord(code=code, ok=ok, stdout=stdout)))
        found.steps.append(step)
    return found


def grade_episodes(
    *episodes: Trajectory, row: dict[str, Any] | None = None, **settings: Any
) -> tuple[list[Trajectory], dict[str, float]]:
    grader = CodeGrader(cast(Any, Graders()), InterpreterConfig(**settings))
    group = Group({"uid": "a", **(row or {})}, episodes)
    [found], metrics = asyncio.run(grader([group]))
    return list(found.episodes), metrics


def test_an_episodes_reward_is_the_mean_over_its_cells_less_their_cost() -> None:
    ran = ((GOOD, True, "{'change': 0.1}"), (PEEK, True, "table"), (GOOD, False, ""))
    [found], metrics = grade_episodes(episode(*ran), cost_per_call=0.01)
    parts = dict(found.reward_components)
    assert parts["style"] == pytest.approx(2 / 3)
    assert parts["execution"] == pytest.approx(1 / 3)
    assert parts["hack_dataframe_only"] == pytest.approx(1 / 3)
    assert parts["code"] == pytest.approx((1.0 - 0.5 + 0.0) / 3), "running well pays, looking costs, failing gives none"
    assert found.reward == pytest.approx(parts["code"] - 0.03)
    assert "old" not in parts
    assert metrics["code/length"] == pytest.approx((6 + 0 + 6) / 3, abs=1.0)
    assert metrics["code/error_rate"] == pytest.approx(1 / 3)
    assert metrics["code/hack_rate"] == pytest.approx(1 / 3)
    assert metrics["code/cells"] == 3


def test_a_well_written_cell_beats_every_short_cut_and_writing_none() -> None:
    shortcuts = [
        (PEEK, True, "table"), ('print("done")', True, "done"), ("x = 1", True, ""),
        ("def f(t):\n    return 1\nprint(f(sheet_1))", True, "1"), (GOOD, False, "half"),
    ]  # fmt: skip
    found, _ = grade_episodes(episode((GOOD, True, "out")), episode(), *(episode(one) for one in shortcuts))
    rewards = [one.reward for one in found]
    assert rewards[0] == max(rewards)
    assert rewards[0] > 0.9
    assert rewards[1] == 0.0
    assert max(rewards[2:]) < 0.6


def test_the_answer_counts_where_the_task_has_one() -> None:
    row = {"reward_model": {"ground_truth": {"target": ["12.5"]}}}
    right, wrong = grade_episodes(episode(answer="It is 12.5"), episode(answer="It is 99"), row=row, task_weight=0.4)[0]
    assert right.reward == pytest.approx(0.4)
    assert right.reward_components["correct"] == 1.0
    assert wrong.reward == 0.0
    without = grade_episodes(episode(answer="It is 12.5"), row=row, task_weight=0.0)[0][0]
    assert without.reward == 0.0
    assert "correct" not in without.reward_components


def test_a_delegated_runs_cells_are_not_the_episodes_own() -> None:
    own = episode((GOOD, True, "out"))
    own.steps[0].material.append(Material(code=CodeRecord(code=PEEK, run_id="child")))
    assert [cell.code for cell in cells(own)] == [GOOD]


def test_fewer_scores_than_items_are_an_error_and_not_shifted_rewards() -> None:
    grader = CodeGrader(cast(Any, Graders(lost=1)), InterpreterConfig())
    with pytest.raises(DependencyFailed, match="gave 1 scores for 2 items"):
        asyncio.run(grader([Group({"uid": "a"}, (episode((GOOD, True, "x"), (PEEK, True, "y")),))]))


def test_code_that_shortens_while_the_reward_rises_ends_the_training() -> None:
    def run(lengths: list[float], rewards: list[float]) -> int:
        detector = CollapseDetector(CollapseConfig(window=2, patience=2), (falling_length(InterpreterConfig()),))
        for step, (length, reward) in enumerate(zip(lengths, rewards, strict=True), 1):
            detector(step, {"code/length": length, "critic/score/mean": reward})
        return detector.last_good

    rising, falling = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0.7, 0.69, 0.68, 0.67, 0.66, 0.65, 0.64]
    with pytest.raises(TrainingCollapsed) as bad:
        run([12.0, 12.0, 9.0, 4.0, 3.0, 2.0, 2.0], rising)
    assert bad.value.signal == "code length"
    assert bad.value.last_good == 4
    assert run([12.0, 12.0, 9.0, 4.0, 3.0, 2.0, 2.0], falling) == 7, "short code that pays less is no hack"
    assert run([12.0, 10.0, 11.0, 13.0, 9.0, 12.0, 10.0], rising) == 7, "gentle fluctuation is as observed"


def test_one_epoch_is_the_default_and_more_is_warned_of() -> None:
    assert load_settings("interpreter", [], []).trainer.total_epochs == 1
    assert epoch_warning(load_settings("interpreter", [], [])) == ""
    said = epoch_warning(load_settings("interpreter", [], ["trainer.total_epochs=3"]))
    assert "total_epochs is 3" in said
    assert "hacked" in said


def test_components_are_compared_each_by_itself() -> None:
    """Hand-computed: in a group of two each component gives ±1/sqrt(2), whatever its range; the sum is whitened."""
    tensors = {"response_mask": torch.tensor([[1, 0, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]])}
    arrays = {
        "uid": ["a", "a", "b", "b"],
        "reward/style": [0.0, 1.0, 0.5, 0.5],
        "reward/execution": [100.0, 0.0, 0.0, 1.0],
    }
    data = DataProto.from_dict(
        tensors, {name: torch.tensor(v).numpy() if name != "uid" else v for name, v in arrays.items()}
    )
    config = load_config(
        overrides=[
            *("interpreter.normalise=components", "interpreter.style_weight=0.5", "interpreter.length_weight=0"),
            "interpreter.task_weight=0",
        ]
    )
    zeros = {"reward/length": np.zeros(4), "reward/answer": np.zeros(4)}
    data = DataProto(data.batch, data.non_tensor_batch | zeros)
    found = Interpreter(config).advantages(data).tensor("advantages")
    # Execution pays 100 for the first of "a", style half as much for the second: -0.5 and 1 of 1/sqrt(2), added up.
    unit = 1 / math.sqrt(2)
    sums = [[0.5 * unit, 0, 0.5 * unit], [-0.5 * unit, -0.5 * unit, 0], [-unit, -unit, -unit], [unit, 0, 0]]
    assert torch.allclose(found, whiten(torch.tensor(sums), data.tensor("response_mask")), atol=1e-4)
    # However many groups are interleaved: rows belong together by their names.
    order = [0, 2, 1, 3]
    assert torch.allclose(Interpreter(config).advantages(data.reorder(order)).tensor("advantages"), found[order])
    del data.non_tensor_batch["reward/answer"]
    with pytest.raises(InvalidField, match="has no component; there are execution, length, style"):
        Interpreter(config).advantages(data)


def test_tasks_get_the_tables_that_their_questions_need() -> None:
    class Datafetch:
        def __init__(self) -> None:
            self.datafetch, self.asked, self.requests = self, list[str](), list[QueryRequest]()

        async def query(self, request: Any, *, timeout_s: float) -> QueryResponse:
            self.asked.append(request.question)
            self.requests.append(request)
            return QueryResponse(sheets=[] if "nothing" in request.question else [Sheet(id="s", rows=3)])

    house: Any = Datafetch()
    own = {"question": "c", "sheets": (Sheet(id="own"),)}
    rows = [{"question": "a"}, {"question": "b", "extra_info": {"data_query": "a"}}, own]
    found = asyncio.run(attach_sheets(rows, house))  # type: ignore[arg-type]
    assert [row["sheets"][0].id for row in found] == ["s", "s", "own"]
    assert house.asked == ["a"], "each question once"
    with pytest.raises(InvalidField, match="row 1: there are no tables for 'nothing here'"):
        asyncio.run(attach_sheets([{"question": "a"}, {"question": "nothing here"}], house))
    asyncio.run(attach_sheets([{"question": "x", "extra_info": {"data_query": '{"entities": ["AAPL"]}'}}], house))
    assert list(house.requests[-1].typed.entities) == ["AAPL"]
    with pytest.raises(InvalidField, match=r"rows\[0\]\.extra_info\.data_query"):
        asyncio.run(attach_sheets([{"question": "x", "extra_info": {"data_query": '{"entitties": 1}'}}], house))

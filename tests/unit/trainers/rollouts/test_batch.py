"""Trajectories to tensors; what cannot train is refused by field; the tiny model survives its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.api.planner.v1.trajectory_pb2 import (
    STOP_REASON_FAILED,
    STOP_REASON_FINISHED,
    Segment,
    Step,
    Trajectory,
)
from fathom.api.policy.v1.policy_pb2 import Completion
from fathom.core.errors import InvalidField
from fathom.trainers.data.comparison import comparison_tasks, split, vocabulary
from fathom.trainers.learners import tiny
from fathom.trainers.rollouts.groups import Group, to_data


def trajectory(task: int, sample: int, **changes: Any) -> Trajectory:
    fields: dict[str, Any] = {
        "run_id": f"r-{task}-{sample}", "task_index": task, "sample_index": sample, "token_ids": [5, 6, 7],
        "mask": [0, 1, 1], "log_probs": [0.0, -0.5, -0.25], "reward": float(sample), "exact": True,
        "version_min": 3, "version_max": 3, "stop_reason": STOP_REASON_FINISHED,
    }  # fmt: skip
    return Trajectory(**(fields | changes))


def make_compacted(task: int, sample: int, **changes: Any) -> Trajectory:
    """Make an episode whose view was compacted once: two segments, the flat ids are the last one's."""
    segments = [
        # 5 and 8 stand in both segments: sampled once, 8 is rendered again in the second and must not be trained twice.
        Segment(last_step=1, token_ids=[5, 6, 7, 8], mask=[0, 1, 0, 1], log_probs=[0.0, -0.5, 0.0, -0.25]),
        Segment(first_step=2, last_step=2, token_ids=[5, 8, 9], mask=[0, 0, 1], log_probs=[0.0, 0.0, -0.125]),
    ]
    steps = [
        # The steps say which ids were sampled in all: 6, 8 and 9, the witness against the segments' masks.
        Step(index=index, completion=Completion(sampled_token_ids=[token]))
        for index, token in enumerate((6, 8, 9))
    ]
    last = {"token_ids": [5, 8, 9], "mask": [0, 0, 1], "log_probs": [0.0, 0.0, -0.125]}
    return trajectory(task, sample, **({"segments": segments, "steps": steps} | last | changes))


def group(*episodes: Trajectory) -> list[Group]:
    return [Group({"uid": "g"}, episodes)]


def test_each_segment_is_a_row_of_its_episode() -> None:
    data = to_data(group(trajectory(0, 0), make_compacted(0, 1)))
    assert data.tensor("prompts").tolist() == [[0, 5], [0, 5], [5, 8]]
    # The first episode is one row; the compacted one is a row per segment, padded to the longest.
    assert data.tensor("responses").tolist() == [[6, 7, 0], [6, 7, 8], [9, 0, 0]]
    assert data.array("episode").tolist() == ["g/0", "g/1", "g/1"]
    # Both rows of an episode carry its score; the trainer counts it once, by the name of the episode.
    assert data.tensor("token_level_scores").sum(dim=1).tolist() == [0.0, 1.0, 1.0]
    mask = data.tensor("response_mask").bool()
    assert data.tensor("responses")[mask].tolist() == [6, 7, 6, 8, 9], "every sampled id once, none only rendered"
    assert data.tensor("rollout_log_probs")[mask].tolist() == [-0.5, -0.25, -0.5, -0.25, -0.125]
    with pytest.raises(InvalidField, match="each of 3 sampled ids"):
        # Without the first segment two of the three sampled ids are in no row.
        to_data(group(trajectory(0, 0), make_compacted(0, 1, segments=make_compacted(0, 1).segments[1:])))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"exact": False}, "trajectory.exact"),
        ({"mask": [0, 1]}, "trajectory.mask"),
        ({"mask": [0, 0, 0]}, "trajectory.mask"),
        # A mask has two values; 2 would count a token double.
        ({"mask": [0, 1, 2]}, "trajectory.mask"),
        ({"log_probs": [0.0, float("-inf"), 0.0]}, "trajectory.log_probs"),
        ({"reward": float("nan")}, "trajectory.reward"),
        ({"stop_reason": STOP_REASON_FAILED}, "trajectory.stop_reason"),
    ],
)
def test_what_cannot_train_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as bad:
        to_data(group(trajectory(0, 0), trajectory(0, 1, **changes)))
    assert bad.value.field == field


def test_tasks_are_split_without_overlap_and_reproducibly() -> None:
    tasks = comparison_tasks(6)
    training, held_out = split(tasks, 0.2, 7)
    # 30 pairs of digits 0 to 5, a fifth of them held out.
    assert (len(training), len(held_out)) == (24, 6)
    assert not {task.id for task in training} & {task.id for task in held_out}
    assert split(tasks, 0.2, 7) == (training, held_out)
    assert split(tasks, 0.2, 8) != (training, held_out)
    # "larger of 1 and 3": every second word from the third on is a digit.
    assert all(max(task.question.split()[2::2]) == task.references[0] for task in tasks)


def test_the_tiny_model_survives_its_files(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    words = vocabulary(comparison_tasks(4))
    model, tokenizer = tiny.build_model(words, 32, 1, 7), tiny.build_tokenizer(words)
    tiny.save(model, tokenizer, tmp_path)
    again, read = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    # Words of the closed vocabulary only; one that it lacks would come back as unknown.
    ids = read.encode("larger of 1 and 3 <answer>", add_special_tokens=False, return_tensors="pt")
    assert read.decode(ids[0]) == "larger of 1 and 3 <answer>"
    assert torch.equal(model(ids).logits, again(ids).logits)
    same = tiny.build_model(words, 32, 1, 7)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), same.parameters(), strict=True))


def test_settings_and_tasks_need_no_torch() -> None:
    # In a process of its own: this one has imported torch long ago.
    probe = "import fathom.trainers.config, fathom.trainers.data.comparison, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "False"

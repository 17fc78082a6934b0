"""Groups of one score are replaced by further prompts; lengths are punished; the loop counts what it has drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fathom.trainers.algorithms.dynamic_sampling import join_draws, select_informative
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import punish_length
from fathom.trainers.interfaces import Metrics, Role
from fathom.trainers.objectives.filters import share
from tests.unit.trainers.algorithms.scripted import Scene

REFILL = ("data.refill_draws=2", "trainer.val_before_train=false")


def even(*groups: int) -> Callable[[DataProto], DataProto]:
    """Make the episodes of these groups, counted over a training, score alike."""
    seen: list[str] = []

    def change(batch: DataProto) -> DataProto:
        uids = [str(uid) for uid in batch.array("uid")]
        seen.extend(dict.fromkeys(uids))
        flat = torch.tensor([seen.index(uid) in groups for uid in uids])
        acc = torch.where(flat, 1.0, batch.tensor("acc"))
        scores = batch.tensor("token_level_scores").clone()
        scores[:, -1] = acc
        return batch.with_tensors(acc=acc, token_level_scores=scores)

    return change


def test_a_step_draws_until_it_has_enough(tmp_path: Path) -> None:
    """Two groups are wanted; of the first two one scores alike: a second draw, of which one group is used."""
    scene = Scene(tmp_path, *REFILL, "trainer.total_training_steps=1", change=even(1))
    metrics = scene.trainer.fit()
    [batch] = scene.groups[Role.ACTOR].trained
    assert list(dict.fromkeys(batch.array("uid"))) == ["0-0", "1-0"]
    assert scene.calls.count("generate") == 2
    assert (metrics["filter/draws"], metrics["filter/informative"], metrics["filter/filled"]) == (2, 0.75, 0)
    # Of all eight episodes drawn, one right in each group and both in the even one: not that of those trained on.
    assert metrics["acc"] == metrics["filter/score"] == pytest.approx(5 / 8)
    assert (batch.tensor("advantages").abs().sum(dim=-1) > 0).all()


def test_after_the_last_draw_the_rest_is_filled(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *REFILL, "trainer.total_training_steps=1", change=even(0, 1, 2, 3, 5))
    metrics = scene.trainer.fit()
    [batch] = scene.groups[Role.ACTOR].trained
    assert scene.calls.count("generate") == 3
    # The third draw's first group is the only one whose scores differ; the first of all fills up.
    assert list(dict.fromkeys(batch.array("uid"))) == ["0-0", "2-0"]
    assert metrics["filter/filled"] == 1
    assert share(batch.tensor("advantages").abs().sum(dim=-1) > 0) == 0.5


@pytest.mark.parametrize("ahead", [0, 1])
def test_what_was_drawn_is_counted_also_over_a_resume(tmp_path: Path, ahead: int) -> None:
    """Every position of the prompts is drawn once, in order, whether a step takes one or two, and where it stops."""
    whole = Scene(tmp_path / "whole", *REFILL, "trainer.total_training_steps=4", ahead=ahead, change=even(1, 5))
    whole.trainer.fit()
    drawn = [batch.array("uid")[0] for batch in whole.source.seen]
    assert drawn == [f"{position}-0" for position in range(6)]
    assert len({batch.meta_info["seed"] for batch in whole.source.seen}) == 6, "no two draws share a seed"
    root, settings = tmp_path / "cut", (*REFILL, "trainer.save_freq=1")
    first = Scene(root, *settings, "trainer.total_training_steps=4", ahead=ahead, change=even(1, 5))
    first.trainer.init_workers()
    for _ in range(ahead):
        first.source.submit(first.trainer.next_prompts())
    first.trainer.run_step()
    second = Scene(root, *settings, "trainer.total_training_steps=4", ahead=ahead, change=even(3))
    second.trainer.fit()
    again = [batch.array("uid")[0] for batch in (*first.source.seen, *second.source.seen)]
    assert again == drawn


def test_draws_of_different_widths_become_one_batch() -> None:
    def draw(prompt: int, width: int, uid: str, **arrays: float) -> DataProto:
        tensors = {
            "prompts": torch.full((2, prompt), 3), "responses": torch.full((2, width), 4),
            "input_ids": torch.cat([torch.full((2, prompt), 3), torch.full((2, width), 4)], dim=1),
            "attention_mask": torch.ones(2, prompt + width, dtype=torch.int64),
            "response_mask": torch.ones(2, width, dtype=torch.int64), "acc": torch.tensor([0.0, 1.0]),
            "token_level_scores": torch.eye(2, width),
        }  # fmt: skip
        found = {name: np.full(2, value) for name, value in arrays.items()}
        return DataProto(tensors, {"uid": np.array([uid, uid], dtype=object), **found})

    whole = join_draws([draw(2, 3, "a"), draw(4, 2, "b", **{"reward/valid": 1.0})])
    assert whole.tensor("input_ids").tolist() == [[0, 0, 3, 3, 4, 4, 4]] * 2 + [[3, 3, 3, 3, 4, 4, 0]] * 2
    assert whole.tensor("attention_mask").sum(dim=-1).tolist() == [5, 5, 6, 6]
    assert whole.tensor("response_mask").tolist() == [[1, 1, 1]] * 2 + [[1, 1, 0]] * 2
    assert whole.array("reward/valid").tolist() == [0, 0, 1, 1]
    metrics: Metrics = {}
    one = select_informative([draw(2, 3, "a")], wanted=2, is_last=False, metrics=metrics)
    assert (one, metrics) == (None, {}), "too few yet, and nothing to report"


def test_an_episodes_length_is_that_of_all_its_segments() -> None:
    """Of at most 10 tokens with a ramp of 4: row one and two are one episode of 8 words, half way up the ramp."""
    mask = torch.zeros(3, 6, dtype=torch.int64)
    mask[0, :5], mask[1, [0, 2, 4]], mask[2, :6] = 1, 1, 1
    batch = DataProto(
        {"response_mask": mask, "token_level_rewards": torch.zeros(3, 6)},
        {"episode": np.array(["a/0", "a/0", "a/1"], dtype=object)},
    )
    found = punish_length(batch, 10, 4, 2.0)
    assert found.array("reward/overlong").tolist() == pytest.approx([-1.0, -1.0, 0.0])
    rewards = found.tensor("token_level_rewards")
    assert (float(rewards[0, 4]), float(rewards[1, 4]), float(rewards.sum())) == (-1.0, -1.0, -2.0)

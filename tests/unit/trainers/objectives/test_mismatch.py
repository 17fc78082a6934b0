"""Learner and sampler disagree: by how much, measured also where nothing is recomputed, and said once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.interfaces import Role
from fathom.trainers.learners.actor import Actor
from fathom.trainers.learners.networks import Placement
from fathom.trainers.objectives.mismatch import FIRST_PASS, Mismatch, mismatch_metrics
from fathom.trainers.objectives.old_policy import MOST_OUTSIDE, warning
from tests.unit.trainers.algorithms.scripted import Scene
from tests.unit.trainers.learners.test_learners import batch, model, settings

BYPASS = ("algorithm.bypass_mode=true", "trainer.val_before_train=false")
# Just above each threshold at which a training is warned.
DISAGREEING = {"mismatch/outside_clip": 0.11, "mismatch/prob_diff/mean": 0.07, "mismatch/kl_k3": 0.02}


def test_figures_by_hand_and_in_parts() -> None:
    rollout = torch.tensor([[-1.0, -2.0, -9.0], [-0.5, -0.5, -0.5]])
    learner = rollout + torch.tensor([[0.1, -0.3, 5.0], [0.3, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    whole = Mismatch.of(rollout, learner, mask, 0.2, 0.28)
    found = whole.metrics()
    assert whole.tokens == 4
    assert found["mismatch/outside_clip"] == 0.5, "0.74 < 0.8 and 1.35 > 1.28; 1.11 is within"
    # k1 of the sampler's words: the mean of log p_sampler - log p_learner on the four trained tokens.
    assert found["mismatch/kl"] == pytest.approx(-(0.1 - 0.3 + 0.3) / 4)
    # The largest is at the first token of row two: e^-0.2 - e^-0.5 = 0.8187 - 0.6065.
    assert found["mismatch/prob_diff/max"] == pytest.approx(0.2122, abs=1e-4)
    # Ranks measure their own rows and add up: sums are kept, ratios are taken at the end.
    parts = [Mismatch.of(rollout[at : at + 1], learner[at : at + 1], mask[at : at + 1], 0.2, 0.28) for at in (0, 1)]
    assert (parts[0] + parts[1]).metrics() == pytest.approx(found)
    assert set(Mismatch().metrics().values()) == {0.0}


def sharp(config: Any) -> Any:
    """A model that is sure of what it says: it is there that a short mantissa costs most."""
    language_model = model(config)
    with torch.no_grad():
        for parameter in language_model.parameters():
            parameter.mul_(16.0)
    return language_model


def measure_update(dtype: Any = "float32", *overrides: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return metrics of an update in bypass mode on a float32 sampler's words, and those of a pass made before it."""
    config = settings("actor.ppo_mini_batch_size=2", "actor.ppo_epochs=2", "actor.use_kl_loss=false", *overrides)
    sampler = Actor(config.actor, sharp(config)).compute_log_prob(batch()).tensor("old_log_probs")
    actor = Actor(config.actor, sharp(config), replace(Placement(), dtype=dtype))
    data = batch().with_tensors(rollout_log_probs=sampler, old_log_probs=sampler)
    first = data[torch.arange(4)]  # the first mini-batch: two groups of two
    before = first.with_tensors(old_log_probs=actor.compute_log_prob(first).tensor("old_log_probs"))
    return actor.update_policy(data.with_meta(**{FIRST_PASS: True})), mismatch_metrics(before)


@pytest.mark.parametrize("micro", [1, 3, 8])
def test_the_first_pass_measures_what_a_pass_before_it_would_have(micro: int) -> None:
    """Of the rows of the first mini-batch before any step, however they are cut, though it is taught in two epochs."""
    found, before = measure_update("bfloat16", f"actor.ppo_micro_batch_size_per_gpu={micro}")
    # Otherwise there would be nothing to measure: the case must be one that is warned of.
    assert before["mismatch/outside_clip"] > MOST_OUTSIDE
    for name, value in before.items():
        assert found[name] == pytest.approx(value, rel=1e-3, abs=1e-6), name


def test_one_arithmetic_agrees_and_a_short_one_does_not() -> None:
    same, short = measure_update("float32")[0], measure_update("bfloat16")[0]
    assert same["mismatch/prob_diff/max"] < 1e-5
    assert same["mismatch/outside_clip"] == 0.0
    # bfloat16 has 8 bits of mantissa, float32 24: the error is thousands of times larger.
    assert short["mismatch/prob_diff/mean"] > 100 * same["mismatch/prob_diff/mean"]


def test_nothing_is_measured_where_it_was_before() -> None:
    config, data = settings("actor.use_kl_loss=false"), batch()
    actor = Actor(config.actor, model(config))
    # Recomputed by the learner itself, the old log-probabilities agree by construction.
    data = data.with_tensors(old_log_probs=actor.compute_log_prob(data).tensor("old_log_probs"))
    assert not [name for name in actor.update_policy(data) if name.startswith("mismatch/")]


def scene(root: Path, metrics: dict[str, float], *overrides: str, age: float = 0.0) -> list[str]:
    """Return what a training of three steps is warned of, whose updates measure this."""
    heard: list[str] = []

    def set_age(data: DataProto) -> DataProto:
        return data.with_meta(metrics={"rollout/age/max": age})

    found = Scene(root, *BYPASS, "trainer.total_training_steps=3", *overrides, change=set_age)
    found.trainer.context = replace(found.trainer.context, warn=heard.append)
    make = found.trainer.group_factory

    def make_group(worker: Any, config: Any, ranks: int) -> Any:
        group: Any = make(worker, config, ranks)
        group.metrics = metrics if worker == Role.ACTOR else {}
        return group

    found.trainer.group_factory = make_group
    found.trainer.fit()
    assert found.groups[Role.ACTOR].trained[0].meta_info[FIRST_PASS]
    # Bypass mode takes the sampler's log-probabilities as the old ones, to save this pass.
    assert "old_log_prob" not in found.calls, "no forward pass more"
    return heard


def test_a_training_is_warned_once_with_figures_and_remedy(tmp_path: Path) -> None:
    [said] = scene(tmp_path / "short", DISAGREEING, "model.dtype=bfloat16")
    for part in ("11.0%", "0.07", "model.dtype=bfloat16", "model.dtype=float32", "algorithm.bypass_mode=false"):
        assert part in said
    # The bound itself is not above the bound.
    few = DISAGREEING | {"mismatch/outside_clip": MOST_OUTSIDE}
    assert scene(tmp_path / "few", few) == []
    assert scene(tmp_path / "old", DISAGREEING, age=1.0) == [], "older weights may differ"


def test_importance_weights_answer_for_a_mismatch() -> None:
    plain, weighted = load_config(), load_config(overrides=["rollout.importance_cap=2.0"])
    # A weight of each sample's own corrects for the difference, so a warning would be noise.
    assert "or rollout.importance_cap" in warning(DISAGREEING, plain)
    assert warning(DISAGREEING, weighted) == ""
    assert warning({}, plain) == ""

"""The presets of today's algorithms: what makes each what it is, its first step, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from fathom.core.config import ConfigError
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.ppo import PPO, RayPPOTrainer
from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import ResourcePoolManager, Role
from fathom.trainers.jobs.registry import build_algorithm, load_settings
from fathom.trainers.learners.actor import Actor
from fathom.trainers.learners.ranks.groups import LocalGroup
from fathom.trainers.learners.workers import ActorWorker, ReferenceWorker
from fathom.trainers.objectives.mismatch import Mismatch
from fathom.trainers.objectives.old_policy import old_log_probs
from fathom.trainers.objectives.policy_loss import Totals, cispo_loss, log_ratios, policy_loss
from tests.support.training.read_settings import keep_read
from tests.unit.trainers.algorithms.scripted import RECORDS, ScriptedSource
from tests.unit.trainers.learners.test_learners import batch, model, settings, with_old

PRESETS = ("dr_grpo", "dapo", "gspo", "cispo", "reinforce_pp", "gdpo")
ONE = torch.ones(1, 2)


def with_components(rows: DataProto) -> DataProto:
    """The components that search_r1's grader gives: right answers, and tags that differ within a group."""
    valid = np.array([float(row % 2 == 0) for row in range(len(rows))])
    arrays = {"reward/correct": rows.tensor("acc").numpy().astype(float), "reward/valid": valid}
    return DataProto(rows.batch, rows.non_tensor_batch | arrays, rows.meta_info)


@pytest.mark.parametrize("name", PRESETS)
def test_each_takes_its_first_step_with_a_real_model(name: str) -> None:
    torch.set_num_threads(1)
    small = (
        "data.train_batch_size=2", "rollout.n=2", "trainer.total_training_steps=1", "model.hidden=16", "model.layers=1",
        "actor.ppo_mini_batch_size=1", "trainer.val_before_train=false",
    )  # fmt: skip
    config = load_settings(name, (), keep_read(name, small))
    # The scripted episodes have ids of a vocabulary that the model must know.
    config = config.model_copy(update={"model": settings().model})
    roles = {Role.ACTOR: ActorWorker, Role.REF_POLICY: ReferenceWorker}
    trainer = RayPPOTrainer(
        config, None, roles, ResourcePoolManager({"all": 1}, dict.fromkeys(roles, "all")), LocalGroup,
        context=TrainingContext(ScriptedSource([], change=with_components), Prompts(RECORDS, seed=3)),
        algorithm=build_algorithm(name, config),
    )  # fmt: skip
    assert type(trainer.algorithm) is PPO, "presets of one loop, not trainers of their own"
    metrics = trainer.fit()
    assert all(math.isfinite(value) for value in metrics.values())
    assert metrics["actor/grad_norm"] > 0
    assert ("filter/draws" in metrics) is ("reward/overlong" in metrics) is (name == "dapo")
    assert ("actor/reward_kl_penalty" in metrics) is (name == "reinforce_pp")
    # Whitened over the batch: their mean is 0, and no group of two has the same pair of them.
    if name in ("reinforce_pp", "gdpo"):
        assert metrics["critic/advantages/mean"] == pytest.approx(0.0, abs=1e-5)


def test_ratios_of_tokens_and_of_sequences_by_hand() -> None:
    """Log-ratios 0.3 and -0.1 on the mask: the sequence's is their mean, 0.1; what is off the mask is in none."""
    now, old = torch.tensor([[-1.0, -2.0, 7.0]], requires_grad=True), torch.tensor([[-1.3, -1.9, float("nan")]])
    mask = torch.tensor([[1, 1, 0]])
    assert log_ratios(now, old, mask)[0].tolist() == pytest.approx([0.3, -0.1, 0.0], abs=1e-6)
    slopes = {"sequence": [1.0, 1.0, 0.0], "sequence_token": [3.0, -1.0, 0.0]}
    for level, slope in slopes.items():
        found = log_ratios(now, old, mask, level)  # type: ignore[arg-type]
        assert found[0].tolist() == pytest.approx([0.1, 0.1, 0.0], abs=1e-6)
        # Weighted by 3 and -1: the sequence's slope spreads over both tokens alike, the token's stays its own.
        [gradient] = torch.autograd.grad((found * torch.tensor([3.0, -1.0, 5.0])).sum(), now)
        assert gradient[0].tolist() == pytest.approx(slope)


def test_what_is_clipped_by_hand() -> None:
    """Ratios e^0.5 = 1.65 and e^-0.5 = 0.61, advantage 1: PPO drops the first token's gradient, CISPO weighs it 1.28."""
    old = torch.tensor([[-1.0, -1.0]])
    for loss, expected in ((policy_loss, [0.0, -math.exp(-0.5) / 2]), (cispo_loss, [-1.28 / 2, -0.8 / 2])):
        now = torch.tensor([[-0.5, -1.5]], requires_grad=True)
        found = loss(now, old, ONE, ONE, Totals.of(ONE), clip_low=0.2, clip_high=0.28)
        [gradient] = torch.autograd.grad(found.loss, now)
        assert gradient[0].tolist() == pytest.approx(expected)
    # The row's ratio is 1 for both: as a sequence nothing is clipped.
    now = torch.tensor([[-0.5, -1.5]], requires_grad=True)
    whole = policy_loss(now, old, ONE, ONE, Totals.of(ONE), clip_low=0.01, clip_high=0.01, level="sequence")
    assert whole.loss.item() == pytest.approx(-1.0)
    assert whole.clip_fraction.item() == 0


def test_the_mismatch_is_that_of_the_ratio_that_is_clipped() -> None:
    """Tokens 0.5 above and below: each is outside the range, the row they make up is not."""
    rollout, learner = torch.tensor([[-1.0, -1.0]]), torch.tensor([[-0.5, -1.5]])
    assert Mismatch.of(rollout, learner, ONE, 0.2, 0.28).outside == 2
    assert Mismatch.of(rollout, learner, ONE, 0.2, 0.28, "sequence").outside == 0


def test_a_constant_divisor_does_not_depend_on_the_padding() -> None:
    """Dr. GRPO: the loss of the same rows is the same however wide the longest row of the batch is."""

    def first_loss(*overrides: str) -> float:
        config = settings("actor.loss_agg_mode=seq-mean-token-sum-norm", "actor.ppo_mini_batch_size=8", *overrides)
        actor = Actor(config.actor, model(config))
        return actor.update_policy(with_old(actor, batch()))["actor/pg_loss"]

    width = batch().tensor("responses").shape[1]
    assert first_loss("actor.loss_scale_factor=14") == pytest.approx(first_loss() * width / 14)


@pytest.mark.parametrize(
    ("name", "override", "why"),
    [
        ("cispo", "actor.clip_ratio_c=5.0", "actor.loss_mode clip"),
        ("grpo", "actor.loss_scale_factor=16", "loss_agg_mode seq-mean-token-sum-norm"),
        ("grpo", "algorithm.gdpo_components=[correct]", "adv_estimator gdpo"),
        ("gdpo", "algorithm.gdpo_weights=[1.0]", "not one for each component"),
        ("ppo", "algorithm.whiten_advantages=true", "adv_estimator grpo, rloo or reinforce"),
        ("gdpo", "algorithm.whiten_advantages=true", "adv_estimator grpo, rloo or reinforce"),
        ("prime", "data.refill_draws=1", "RL except prime"),
        ("prime", "algorithm.overlong_share=0.1", "RL except prime"),
        ("grpo", "algorithm.overlong_penalty=0.5", "overlong_share above 0"),
        ("grpo", "rollout.importance_mode=mask", "rollout.importance_cap"),
        ("gdpo", "algorithm.gdpo_components=[]", "must name the rewards"),
        ("reinforce_pp", "data.refill_draws=1", "rollout.n must be >= 2"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(name: str, override: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_settings(name, [], ["data.train_files=[rows.parquet]", override])


def test_weights_of_samples_are_not_read_where_nothing_is_recomputed() -> None:
    more = ["data.train_files=[rows.parquet]", "algorithm.bypass_mode=true", "rollout.importance_cap=2.0"]
    with pytest.raises(ConfigError, match=r"rollout\.importance_cap: is not read"):
        load_settings("grpo", [], more)
    with pytest.raises(ConfigError, match="gdpo reads components"):
        load_settings("gdpo", [], [more[0], "algorithm.use_kl_in_reward=true", "actor.use_kl_loss=false"])
    with pytest.raises(ConfigError, match="importance_floor is above"):
        load_config(overrides=["rollout.importance_cap=2.0", "rollout.importance_floor=3.0"])


@pytest.mark.parametrize(("level", "masked"), [("token", 2 / 3), ("sequence", 0.0)])
def test_masked_samples_are_left_out_of_the_loss(level: str, masked: float) -> None:
    """Learner and sampler differ by 1, -1 and 0.1: bounds of 0.5 and 2 leave one token, or the row as a whole."""

    class Learner:
        def compute_log_prob(self, data: DataProto) -> DataProto:
            return DataProto({"old_log_probs": torch.tensor([[-1.0, -2.0, -0.9]])})

    config = load_config(
        overrides=[
            *("rollout.importance_cap=2.0", "rollout.importance_floor=0.5", "rollout.importance_mode=mask"),
            f"rollout.importance_level={level}",
        ]
    )
    rows = DataProto({"response_mask": torch.ones(1, 3), "rollout_log_probs": torch.tensor([[-2.0, -1.0, -1.0]])})
    learner: Any = Learner()
    found, metrics = old_log_probs(rows, learner, config)
    assert metrics["mismatch/importance/masked"] == pytest.approx(masked)
    expected = [0.0, 0.0, math.exp(0.1)] if level == "token" else [math.exp(0.1)] * 3
    assert found.tensor("rollout_is_weights")[0].tolist() == pytest.approx(expected)

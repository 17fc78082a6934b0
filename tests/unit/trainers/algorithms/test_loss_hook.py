"""The policy loss is the algorithm's: a user's own is sent to the learner, trains, and fails clearly when it is wrong."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.grpo import GRPO
from fathom.trainers.algorithms.ppo import PPO, RayPPOTrainer
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import Metrics, ResourcePoolManager, Role
from fathom.trainers.learners.actor import Actor
from fathom.trainers.learners.ranks.groups import LocalGroup
from fathom.trainers.learners.workers import ActorWorker
from fathom.trainers.objectives.policy_loss import Totals
from fathom.trainers.objectives.terms import LossInput, LossTerm, clipped_loss, entropy_bonus, regularisers
from tests.unit.trainers.algorithms.scripted import RECORDS, Scene, ScriptedSource
from tests.unit.trainers.learners.test_learners import batch, model, settings, with_old

EXAMPLE = Path(__file__).parents[4] / "examples" / "train" / "grpo_minimal.py"


# GSPO stands for any loss that is not a sum over tokens: per row one ratio, so it cannot be had by other settings.
def sequence_objective(given: LossInput, *, clip: float) -> tuple[Tensor, dict[str, float]]:
    """Clip one ratio per row, the geometric mean of its tokens' (GSPO, arXiv 2507.18071)."""
    mask = given.rows.tensor("response_mask").bool()
    lengths = mask.sum(dim=-1).clamp(min=1)
    change = torch.where(mask, given.log_probs - given.rows.tensor("old_log_probs"), 0.0).sum(dim=-1) / lengths
    advantage = torch.where(mask, given.rows.tensor("advantages"), 0.0).sum(dim=-1) / lengths
    ratio = change.exp()
    terms = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    loss = -terms.sum() / given.totals.rows
    return loss, {"actor/sequence_loss": float(loss.detach())}


SEQUENCE_LOSS = (LossTerm(partial(sequence_objective, clip=0.1), needs_advantage=True),)


class SequenceGRPO(GRPO):
    """GRPO with ratios of whole sequences: an algorithm as a user would write it."""

    def loss(self) -> Sequence[LossTerm]:
        return (*SEQUENCE_LOSS, *regularisers(self.config.actor))


def fit(config: TrainConfig, algorithm: Algorithm) -> tuple[Metrics, list[Tensor]]:
    """One step of the loop with a real actor on scripted episodes; returns its metrics and the parameters."""
    torch.set_num_threads(1)
    workers: list[ActorWorker] = []

    # The group hides its worker from the loop; the test wants the parameters after the step.
    def make(worker: Any, config: TrainConfig, ranks: int) -> LocalGroup:
        group = LocalGroup(worker, config, ranks)
        workers.append(group.worker)
        return group

    trainer = RayPPOTrainer(
        config, None, {Role.ACTOR: ActorWorker}, ResourcePoolManager({"all": 1}, {Role.ACTOR: "all"}), make,
        context=TrainingContext(ScriptedSource([]), Prompts(RECORDS, seed=3)), algorithm=algorithm,
    )  # fmt: skip
    metrics = trainer.fit()
    return metrics, [parameter.detach() for parameter in workers[0].learner.model.parameters()]


def one_step(*overrides: str) -> TrainConfig:
    # Two epochs: the second begins with moved weights, so that the ratios differ from one.
    return settings("data.train_batch_size=2", "trainer.total_training_steps=1", "actor.ppo_epochs=2", *overrides)


def test_an_algorithm_trains_with_a_loss_of_its_own() -> None:
    config = one_step()
    metrics, parameters = fit(config, SequenceGRPO(config))
    _, others = fit(config, GRPO(config))
    assert {"actor/sequence_loss", "actor/grad_norm"} <= metrics.keys()
    assert "actor/pg_loss" not in metrics, "the built-in loss is replaced, not added to"
    # Settings fix the seed of the weights, so this is the model that both trainings began with.
    start = list(model(config).parameters())
    assert any(not torch.equal(one, other) for one, other in zip(start, parameters, strict=True))
    # The same data and seed with the built-in loss end elsewhere: the own one was really used.
    assert any(not torch.equal(one, other) for one, other in zip(others, parameters, strict=True))


def test_the_settings_regularisers_join_a_loss_of_ones_own() -> None:
    config = one_step("actor.entropy_coeff=0.01")
    metrics, _ = fit(config, SequenceGRPO(config))
    assert {"actor/sequence_loss", "actor/entropy_loss"} <= metrics.keys()


def test_the_examples_loss_is_one_that_an_algorithm_can_return() -> None:
    terms = run_path(str(EXAMPLE))["LOSS"]

    class Example(GRPO):
        def loss(self) -> Sequence[LossTerm]:
            return terms  # type: ignore[no-any-return]

    config = one_step()
    metrics, _ = fit(config, Example(config))
    assert {"actor/pg_loss", "actor/entropy_loss"} <= metrics.keys()


def test_the_loop_sends_the_loss_before_the_first_update(tmp_path: Path) -> None:
    # Learners live in other processes as a rule: the loss must reach them before they first need it.
    scene = Scene(tmp_path, "trainer.total_training_steps=1", algorithm=SequenceGRPO)
    scene.trainer.fit()
    assert scene.groups[Role.ACTOR].terms == SEQUENCE_LOSS


def micro_batch(config: TrainConfig, entropy: Tensor | None = None) -> LossInput:
    """The input of a term, with log-probabilities that have moved since the rollout."""
    data = with_old(Actor(config.actor, model(config)), batch())
    # A sine moves some tokens up and some down by at most 0.3, past the clip of 0.1 and within it.
    moved = (data.tensor("old_log_probs") + 0.3 * torch.sin(torch.arange(56.0)).view(8, 7)).requires_grad_()
    return LossInput(data, moved, entropy, Totals.of(data.tensor("response_mask")))


@pytest.mark.parametrize("terms", [SEQUENCE_LOSS, clipped_loss(settings().actor)], ids=["own", "built in"])
def test_a_loss_computes_the_same_after_it_was_sent_to_another_process(terms: tuple[LossTerm, ...]) -> None:
    # Pickled as Ray would: a closure or a lambda would fail here and not on the cluster.
    given, sent = micro_batch(settings()), pickle.loads(pickle.dumps(terms))
    assert [term(given)[1] for term in sent] == [term(given)[1] for term in terms]


def test_the_settings_say_which_terms_the_built_in_loss_has() -> None:
    def names(*overrides: str) -> list[str]:
        config = settings(*overrides)
        return [term.function.func.__name__ for term in PPO(config).loss()]  # type: ignore[attr-defined]

    assert names() == ["clipped_objective"]
    both = names("actor.entropy_coeff=0.01", "actor.use_kl_loss=true")
    assert both == ["clipped_objective", "entropy_bonus", "kl_penalty"]


def test_rows_without_advantage_are_left_out_only_for_terms_that_need_one() -> None:
    config = settings()
    actor, data = Actor(config.actor, model(config)), batch()
    # Only the first group, two rows, has an advantage.
    data = data.with_tensors(advantages=data.tensor("advantages") * (torch.arange(8) < 2).unsqueeze(-1))
    actor.use_loss(SEQUENCE_LOSS)
    assert len(actor.with_gradient(data)) == 2
    actor.use_loss([LossTerm(partial(sequence_objective, clip=0.1))])
    # This term does not say that it needs an advantage; KL or entropy may pull on every row.
    assert len(actor.with_gradient(data)) == 8


def per_row(given: LossInput) -> tuple[Tensor, dict[str, float]]:
    return given.log_probs.sum(dim=-1), {}


def test_a_wrong_loss_is_named() -> None:
    # The mistakes of who writes a first loss: none, a bare function, a value per row, a need that is not declared.
    config = settings()
    actor = Actor(config.actor, model(config))
    with pytest.raises(InvalidField, match="has no term"):
        actor.use_loss([])
    with pytest.raises(InvalidField, match="is not a LossTerm"):
        actor.use_loss([per_row])  # type: ignore[list-item]
    with pytest.raises(InvalidField, match=r"per_row returned shape \[8\]"):
        LossTerm(per_row)(micro_batch(config))
    with pytest.raises(InvalidField, match="set needs_entropy"):
        LossTerm(partial(entropy_bonus, weight=0.1))(micro_batch(config))


def test_a_failing_batch_names_the_field_that_the_loss_misses() -> None:
    config = settings()
    actor = Actor(config.actor, model(config))
    actor.use_loss(SEQUENCE_LOSS)
    # Without a forward pass before the update there are none.
    with pytest.raises(InvalidField, match="old_log_probs"):
        actor.update_policy(DataProto({k: v for k, v in batch().batch.items()}, {}, {"temperature": 1.0}))

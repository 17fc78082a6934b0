"""Two ranks make the step of one: copied, sharded, or sharing sequences; and each goes on from its own part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.learners.forward import split_largest
from fathom.trainers.learners.ranks.fsdp import rank, whole_state, world
from fathom.trainers.learners.ranks.groups import shard_by_group
from fathom.trainers.learners.workers import ActorWorker, CriticWorker
from fathom.trainers.objectives.mismatch import FIRST_PASS
from fathom.trainers.objectives.terms import LossTerm
from tests.unit.trainers.algorithms.test_loss_hook import SEQUENCE_LOSS
from tests.unit.trainers.learners.ranks import as_ranks
from tests.unit.trainers.learners.test_learners import batch, settings

# Each way of sharing the work between two ranks; all must give what one rank gives.
KINDS = {
    "copies": ["trainer.strategy=replicate"],
    "shards": [],
    "shares sequences": ["actor.ulysses_sequence_parallel_size=2", "critic.ulysses_sequence_parallel_size=2"],
    "shares sequences, copies": [
        "actor.ulysses_sequence_parallel_size=2",
        "critic.ulysses_sequence_parallel_size=2",
        "trainer.strategy=replicate",
    ],
    "recomputes": [
        "model.enable_gradient_checkpointing=true",
        "actor.ulysses_sequence_parallel_size=2",
        "critic.ulysses_sequence_parallel_size=2",
    ],
    "by tokens": ["actor.use_dynamic_bsz=true", "actor.ppo_max_token_len_per_gpu=20"],
    "packed": [
        "actor.use_remove_padding=true",
        "critic.use_remove_padding=true",
        "actor.use_dynamic_bsz=true",
        "actor.ppo_max_token_len_per_gpu=12",
    ],
    "adapters": ["model.lora_rank=2"],
}


def make_settings(*overrides: str) -> TrainConfig:
    fixed = ["actor.ppo_mini_batch_size=2", "critic.ppo_mini_batch_size=2", "actor.entropy_coeff=0.01"]
    # Clipping by norm would hide a gradient that is wrong by a factor; 1000 leaves it off.
    return settings(*fixed, "actor.optim.grad_clip=1000", "actor.optim.lr=0.001", "critic.optim.lr=0.001", *overrides)


def own_rows(data: DataProto, sharing: int) -> DataProto:
    return data[shard_by_group(data, world() // sharing)[rank() // sharing]]


def steps(config: TrainConfig, folder: Path | None = None, terms: Sequence[LossTerm] = ()) -> dict[str, Tensor | float]:
    """Two steps of actor and critic; with a folder, the second from a checkpoint of the first."""
    torch.set_num_threads(1)
    actor, critic = ActorWorker(config), CriticWorker(config)
    if terms:
        actor.use_loss(terms)
    data = own_rows(batch(), actor.sharing)
    found: dict[str, Tensor | float] = {}
    for step in range(2):
        if step and folder is not None:
            actor.save_checkpoint(folder)
            actor = ActorWorker(config)
            actor.load_checkpoint(folder)
        data = data.with_tensors(old_log_probs=actor.compute_log_prob(data).tensor("old_log_probs"))
        data = data.with_tensors(values=critic.compute_values(data).tensor("values"))
        # 2 % off the learner's own, so that the mismatch measured is not zero on both sides of the comparison.
        sampler = data.with_tensors(rollout_log_probs=1.02 * data.tensor("old_log_probs")).with_meta(
            **{FIRST_PASS: True}
        )
        found |= actor.update_policy(sampler) | critic.update_critic(data)
    for name, value in whole_state(actor.learner.network).items():
        found[f"actor.{name}"] = value
    for name, value in whole_state(critic.learner.model).items():
        found[f"critic.{name}"] = value
    return found


def all_kinds(folder: Path, own_loss: Sequence[LossTerm]) -> dict[str, dict[str, Tensor | float]]:
    """Of each kind its two steps, those of shards with a checkpoint between, and those with a loss of one's own."""
    # One start of two processes for all kinds: starting them takes longer than the steps.
    found = {kind: steps(make_settings(*overrides)) for kind, overrides in KINDS.items()}
    return found | {"resumed": steps(make_settings(), folder), "own loss": steps(make_settings(), terms=own_loss)}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Tensor | float]]:
    """What rank 0 of two found: one start of processes for all kinds."""
    folder = tmp_path_factory.mktemp("ranks")
    first: dict[str, dict[str, Tensor | float]] = as_ranks(2, folder, all_kinds, folder / "checkpoint", SEQUENCE_LOSS)[
        0
    ]
    return first


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_two_ranks_make_the_steps_of_one(kind: str, together: dict[str, dict[str, Tensor | float]]) -> None:
    # One rank has nobody to share a sequence with.
    assert_equal_steps(steps(make_settings(*(one for one in KINDS[kind] if "ulysses" not in one))), together[kind])


def assert_equal_steps(alone: dict[str, Tensor | float], together: dict[str, Tensor | float]) -> None:
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        if isinstance(value, Tensor):
            # Sums in another order differ in the last bits of float32.
            assert torch.allclose(value, torch.as_tensor(together[name]), atol=2e-5), name
        elif name != "critic/vf_explained_var":  # a ratio of each rank's rows
            assert together[name] == pytest.approx(value, rel=2e-3, abs=2e-5), name


@pytest.mark.slow
def test_two_ranks_make_the_steps_of_one_with_a_loss_that_was_sent_to_them(
    together: dict[str, dict[str, Tensor | float]],
) -> None:
    assert "actor/sequence_loss" in together["own loss"]
    assert_equal_steps(steps(make_settings(), terms=SEQUENCE_LOSS), together["own loss"])


@pytest.mark.slow
def test_a_sharded_learner_goes_on_from_its_parts_bit_by_bit(together: dict[str, dict[str, Tensor | float]]) -> None:
    for name, value in together["shards"].items():
        # No tolerance: a resume must be the same training, not a similar one.
        found = together["resumed"][name]
        assert torch.equal(value, torch.as_tensor(found)) if isinstance(value, Tensor) else value == found, name


def test_all_ranks_get_as_many_passes() -> None:
    # Every rank must make as many passes as the others, or a collective call waits forever: rank 1 has one row less.
    assert split_largest([[3, 1], [0]], 2) == [[3, 1], [0]]
    assert sorted(row for part in split_largest([[3, 1, 2], [0]], 4) for row in part) == [0, 1, 2, 3]
    # Three passes out of one row each cannot be had.
    with pytest.raises(InvalidField, match="uid"):
        split_largest([[1], [0]], 3)


def test_heads_and_ranks_must_be_shared_evenly() -> None:
    with pytest.raises(InvalidField, match="does not divide 1 ranks"):
        # Two ranks share a sequence, and there is one.
        ActorWorker(make_settings("actor.ulysses_sequence_parallel_size=2"))

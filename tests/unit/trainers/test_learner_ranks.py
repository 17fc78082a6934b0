"""Two ranks make the step of one: copied, sharded, or sharing sequences; and each goes on from its own part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from fathom.errors import InvalidField
from tests.unit.trainers.ranks import as_ranks
from tests.unit.trainers.test_learners import batch, settings
from trainers.config import TrainConfig
from trainers.data_proto import DataProto
from trainers.learners.forward import divided
from trainers.learners.fsdp import rank, whole_state, world
from trainers.learners.workers import ActorWorker, CriticWorker
from trainers.mismatch import FIRST_PASS
from trainers.workers import deal

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
    "adapters": ["model.lora_rank=2"],
}


def given(*overrides: str) -> TrainConfig:
    fixed = ["actor.ppo_mini_batch_size=2", "critic.ppo_mini_batch_size=2", "actor.entropy_coeff=0.01"]
    return settings(*fixed, "actor.optim.grad_clip=1000", "actor.optim.lr=0.001", "critic.optim.lr=0.001", *overrides)


def own_rows(data: DataProto, sharing: int) -> DataProto:
    return data[deal(data, world() // sharing)[rank() // sharing]]


def steps(config: TrainConfig, folder: Path | None = None) -> dict[str, Tensor | float]:
    """Two steps of actor and critic; with a folder, the second from a checkpoint of the first."""
    torch.set_num_threads(1)
    actor, critic = ActorWorker(config), CriticWorker(config)
    data = own_rows(batch(), actor.sharing)
    found: dict[str, Tensor | float] = {}
    for step in range(2):
        if step and folder is not None:
            actor.save_checkpoint(folder)
            actor = ActorWorker(config)
            actor.load_checkpoint(folder)
        data = data.with_tensors(old_log_probs=actor.compute_log_prob(data).tensor("old_log_probs"))
        data = data.with_tensors(values=critic.compute_values(data).tensor("values"))
        sampler = data.with_tensors(rollout_log_probs=1.02 * data.tensor("old_log_probs")).with_meta(
            **{FIRST_PASS: True}
        )
        found |= actor.update_policy(sampler) | critic.update_critic(data)
    for name, value in whole_state(actor.learner.network).items():
        found[f"actor.{name}"] = value
    for name, value in whole_state(critic.learner.model).items():
        found[f"critic.{name}"] = value
    return found


def all_kinds(folder: Path) -> dict[str, dict[str, Tensor | float]]:
    """Of each kind its two steps, and those of shards with a checkpoint between."""
    found = {kind: steps(given(*overrides)) for kind, overrides in KINDS.items()}
    return found | {"resumed": steps(given(), folder)}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Tensor | float]]:
    """What rank 0 of two found: one start of processes for all kinds."""
    folder = tmp_path_factory.mktemp("ranks")
    first: dict[str, dict[str, Tensor | float]] = as_ranks(2, folder, all_kinds, folder / "checkpoint")[0]
    return first


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", list(KINDS))
def test_two_ranks_make_the_steps_of_one(kind: str, together: dict[str, dict[str, Tensor | float]]) -> None:
    alone = steps(given(*(one for one in KINDS[kind] if "ulysses" not in one)))
    assert alone.keys() == together[kind].keys()
    for name, value in alone.items():
        if isinstance(value, Tensor):
            assert torch.allclose(value, torch.as_tensor(together[kind][name]), atol=2e-5), name
        elif name != "critic/vf_explained_var":  # a ratio of each rank's rows
            assert together[kind][name] == pytest.approx(value, rel=2e-3, abs=2e-5), name


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_sharded_learner_goes_on_from_its_parts_bit_by_bit(together: dict[str, dict[str, Tensor | float]]) -> None:
    for name, value in together["shards"].items():
        found = together["resumed"][name]
        assert torch.equal(value, torch.as_tensor(found)) if isinstance(value, Tensor) else value == found, name


def test_all_ranks_get_as_many_passes() -> None:
    assert divided([[3, 1], [0]], 2) == [[3, 1], [0]]
    assert sorted(row for part in divided([[3, 1, 2], [0]], 4) for row in part) == [0, 1, 2, 3]
    with pytest.raises(InvalidField, match="uid"):
        divided([[1], [0]], 3)


def test_heads_and_ranks_must_be_shared_evenly() -> None:
    with pytest.raises(InvalidField, match="does not divide 1 ranks"):
        ActorWorker(given("actor.ulysses_sequence_parallel_size=2"))

"""Two ranks make the step of one: copied, sharded, or sharing sequences; and each goes on from its own part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.learners.forward import split_largest
from fathom.trainers.learners.ranks.fsdp import rank, sum_over_ranks, whole_state, world
from fathom.trainers.learners.ranks.groups import shard_by_group
from fathom.trainers.learners.tiny import build_tokenizer
from fathom.trainers.learners.workers import ActorWorker, CriticWorker, ReferenceWorker
from fathom.trainers.objectives.mismatch import FIRST_PASS
from fathom.trainers.objectives.terms import LossTerm
from tests.unit.trainers.algorithms.test_loss_hook import SEQUENCE_LOSS
from tests.unit.trainers.learners.ranks import as_ranks
from tests.unit.trainers.learners.test_learners import WORDS, batch, settings

QWEN3 = "model.path=qwen3"
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
    "offloaded": ["trainer.cpu_offload=true", "trainer.world_size=2"],
    "divides layers": ["actor.tensor_parallel_size=2", "critic.tensor_parallel_size=2"],
    "divides layers, packed, recomputes, offloaded": [
        "actor.tensor_parallel_size=2",
        "critic.tensor_parallel_size=2",
        "actor.use_remove_padding=true",
        "model.enable_gradient_checkpointing=true",
        "trainer.cpu_offload=true",
        "trainer.world_size=2",
    ],
    # Its norms of queries and keys are whole on both ranks, and serve each one's heads.
    "divides layers with norms in them": ["actor.tensor_parallel_size=2", "critic.tensor_parallel_size=2", QWEN3],
}
RESUMED = ("shards", "offloaded", "divides layers")
# What one rank cannot do, and has nobody to do it with.
TOGETHER_ONLY = ("ulysses", "tensor_parallel", "trainer.")


def make_settings(*overrides: str) -> TrainConfig:
    fixed = ["actor.ppo_mini_batch_size=2", "critic.ppo_mini_batch_size=2", "actor.entropy_coeff=0.01"]
    # Clipping by norm would hide a gradient that is wrong by a factor; 1000 leaves it off.
    return settings(*fixed, "actor.optim.grad_clip=1000", "actor.optim.lr=0.001", "critic.optim.lr=0.001", *overrides)


def own_rows(data: DataProto, sharing: int) -> DataProto:
    return data[shard_by_group(data, world() // sharing)[rank() // sharing]]


def steps(config: TrainConfig, folder: Path | None = None, terms: Sequence[LossTerm] = ()) -> dict[str, Tensor | float]:
    """Two steps of actor and critic; with a folder, the second from a checkpoint of the first."""
    torch.set_num_threads(1)
    actor, critic, reference = ActorWorker(config), CriticWorker(config), ReferenceWorker(config)
    if terms:
        actor.use_loss(terms)
    data = own_rows(batch(), actor.sharing)
    frozen = float(reference.compute_ref_log_prob(data).tensor("ref_log_prob").sum())
    # Of all rows: ranks that share theirs have each the whole of it.
    found: dict[str, Tensor | float] = {"ref_log_prob": sum_over_ranks([frozen / actor.sharing])[0]}
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
    """Of each kind its two steps, of some also with a checkpoint between, and those with a loss of one's own."""
    # One start of two processes for all kinds: starting them takes longer than the steps.
    found = {kind: steps(make_settings(*place_model(overrides, folder))) for kind, overrides in KINDS.items()}
    for kind in RESUMED:
        found[f"{kind}, resumed"] = steps(make_settings(*KINDS[kind]), folder / kind.replace(" ", "-"))
    return found | {"own loss": steps(make_settings(), terms=own_loss)}


def place_model(overrides: Sequence[str], folder: Path) -> list[str]:
    return [f"model.path={folder / 'qwen3'}" if one == QWEN3 else one for one in overrides]


def save_qwen3(folder: Path) -> None:
    """Save a small random Qwen3 with the words of these tests."""
    torch.manual_seed(2)
    shape = Qwen3Config(
        vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=4, max_position_embeddings=32,
    )  # fmt: skip
    Qwen3ForCausalLM(shape).save_pretrained(folder)
    build_tokenizer(WORDS).save_pretrained(folder)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Tensor | float]]:
    """Return what rank 0 of two found: one start of processes for all kinds."""
    folder = tmp_path_factory.mktemp("ranks")
    save_qwen3(folder / "qwen3")
    found: list[dict[str, dict[str, Tensor | float]]] = as_ranks(2, folder / "run", all_kinds, folder, SEQUENCE_LOSS)
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_two_ranks_make_the_steps_of_one(
    kind: str, together: dict[str, dict[str, Tensor | float]], tmp_path: Path
) -> None:
    save_qwen3(tmp_path / "qwen3")
    alone = [one for one in place_model(KINDS[kind], tmp_path) if not any(name in one for name in TOGETHER_ONLY)]
    assert_equal_steps(steps(make_settings(*alone)), together[kind])


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
@pytest.mark.parametrize("kind", RESUMED)
def test_a_divided_learner_goes_on_from_its_parts_bit_by_bit(
    kind: str, together: dict[str, dict[str, Tensor | float]]
) -> None:
    for name, value in together[kind].items():
        # No tolerance: a resume must be the same training, not a similar one.
        found = together[f"{kind}, resumed"][name]
        assert torch.equal(value, torch.as_tensor(found)) if isinstance(value, Tensor) else value == found, name


def test_all_ranks_get_as_many_passes() -> None:
    # Every rank must make as many passes as the others, or a collective call waits forever: rank 1 has one row less.
    assert split_largest([[3, 1], [0]], 2) == [[3, 1], [0]]
    assert sorted(row for part in split_largest([[3, 1, 2], [0]], 4) for row in part) == [0, 1, 2, 3]
    # Three passes out of one row each cannot be had.
    with pytest.raises(InvalidField, match="uid"):
        split_largest([[1], [0]], 3)


def divide_and_shard() -> dict[str, Tensor | float | tuple[int, ...]]:
    """Steps of a model whose layers two ranks share, and whose parameters two such pairs divide."""
    config = make_settings("actor.tensor_parallel_size=2", "critic.tensor_parallel_size=2")
    found: dict[str, Tensor | float | tuple[int, ...]] = dict(steps(config))
    layer = ActorWorker(config).learner.model.get_decoder().layers[0]
    own = {"queries": layer.self_attn.q_proj, "result": layer.self_attn.o_proj}
    return found | {f"shape of {name}": tuple(module.weight.to_local().shape) for name, module in own.items()}


@pytest.mark.slow
def test_four_ranks_share_layers_by_two_and_divide_parameters_by_two(tmp_path: Path) -> None:
    found = as_ranks(4, tmp_path, divide_and_shard)[0]
    # Of 16 x 16: half of the heads, and of these half of the rows. The result's matrix is divided the other way.
    assert found.pop("shape of queries") == (4, 16)
    assert found.pop("shape of result") == (8, 8)
    assert_equal_steps(steps(make_settings()), found)


def test_what_ranks_cannot_share_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="tensor_parallel_size and ulysses"):
        make_settings("actor.tensor_parallel_size=2", "actor.ulysses_sequence_parallel_size=2")
    with pytest.raises(ConfigError, match=r"tensor_parallel_size divides no adapters.*model\.lora_rank"):
        make_settings("actor.tensor_parallel_size=2", "model.lora_rank=2")
    with pytest.raises(ConfigError, match=r"trainer\.cpu_offload needs trainer\.strategy fsdp2"):
        make_settings("trainer.cpu_offload=true")
    with pytest.raises(InvalidField, match="tensor_parallel_size: 2 does not divide 1 ranks"):
        ActorWorker(make_settings("actor.tensor_parallel_size=2"))


def test_heads_and_ranks_must_be_shared_evenly() -> None:
    with pytest.raises(InvalidField, match="does not divide 1 ranks"):
        # Two ranks share a sequence, and there is one.
        ActorWorker(make_settings("actor.ulysses_sequence_parallel_size=2"))

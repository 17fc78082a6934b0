"""Packed rows: the same probabilities, values and steps as padded ones, and no token that meets another row's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.models.falcon_h1.configuration_falcon_h1 import FalconH1Config
from transformers.models.falcon_h1.modeling_falcon_h1 import FalconH1ForCausalLM
from transformers.models.mistral.configuration_mistral import MistralConfig
from transformers.models.mistral.modeling_mistral import MistralForCausalLM

from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig, load_config
from fathom.trainers.learners.forward import passes
from fathom.trainers.learners.networks import Placement, PolicyNetwork, choose_packing
from fathom.trainers.learners.packing import fill_passes, find_prompt_heads
from fathom.trainers.learners.workers import ActorWorker, CriticWorker, ReferenceWorker
from tests.unit.trainers.learners.test_learners import LENGTHS, batch, gradient, settings

PACKED = ["actor.use_remove_padding=true", "critic.use_remove_padding=true"]
# 20 tokens: several passes of several rows each.
BY_TOKENS = [f"{role}.{setting}" for role in ("actor", "critic")
             for setting in ("use_dynamic_bsz=true", "ppo_max_token_len_per_gpu=20")]  # fmt: skip


def grouped_heads(window: int | None) -> Any:
    """A model whose key heads serve two query heads each, with a window shorter than the longest rows, or without."""
    torch.manual_seed(3)
    shape = MistralConfig(
        vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=window, max_position_embeddings=64,
    )  # fmt: skip
    return MistralForCausalLM(shape).train()


@pytest.mark.parametrize("window", [None, 4])
def test_packed_rows_have_the_probabilities_and_gradients_of_padded_ones(window: int | None) -> None:
    found = []
    for overrides in ([], PACKED):
        network = PolicyNetwork(grouped_heads(window), Placement(), settings(*overrides).actor)
        seen = network(batch(), 0.7, entropy=True)
        slope = gradient(network, (seen.log_probs.sum() + seen.entropy.sum()).backward)
        found.append((seen.log_probs, seen.entropy, slope))
    for padded, packed in zip(*found, strict=True):
        torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)
    if window is not None:
        # A window that were ignored on both sides would agree as well.
        wide = PolicyNetwork(grouped_heads(None), Placement(), settings().actor)(batch(), 0.7).log_probs
        assert float((wide - found[0][0]).detach().abs().max()) > 1e-4


def test_no_token_meets_those_of_another_row() -> None:
    network = PolicyNetwork(grouped_heads(None), Placement(), settings(*PACKED).actor).eval()
    data = batch()
    before = network(data, 1.0).log_probs
    ids = data.tensor("input_ids").clone()
    # Every token of row 2, which has neighbours on both sides.
    ids[2] = 15 - ids[2]
    after = network(data.with_tensors(input_ids=ids), 1.0).log_probs
    others = [row for row in range(len(LENGTHS)) if row != 2]
    # Bit for bit: a share of another row, however small, would show.
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[2], after[2])


def two_steps(config: TrainConfig, data: DataProto | None = None) -> dict[str, torch.Tensor]:
    actor, critic, reference = ActorWorker(config), CriticWorker(config), ReferenceWorker(config)
    data = data or batch()
    data = data.union(reference.compute_ref_log_prob(data))
    for _ in range(2):
        data = data.with_tensors(old_log_probs=actor.compute_log_prob(data).tensor("old_log_probs"))
        data = data.with_tensors(values=critic.compute_values(data).tensor("values"))
        actor.update_policy(data)
        critic.update_critic(data)
    weights = dict(actor.learner.model.named_parameters()) | dict(critic.learner.model.named_parameters())
    return {"ref_log_prob": data.tensor("ref_log_prob")} | {name: one.detach() for name, one in weights.items()}


@pytest.mark.parametrize("more", [[], BY_TOKENS, ["model.enable_gradient_checkpointing=true"], ["model.lora_rank=2"]])
def test_packed_steps_end_with_the_weights_of_padded_ones(more: list[str]) -> None:
    fixed = ["actor.entropy_coeff=0.01", "actor.use_kl_loss=true", "actor.optim.lr=0.001", "critic.optim.lr=0.001"]
    lora = [one for one in more if "lora" in one]
    padded, packed = two_steps(settings(*fixed, *lora)), two_steps(settings(*fixed, *PACKED, *more))
    for name, value in padded.items():
        torch.testing.assert_close(packed[name], value, atol=2e-5, rtol=1e-4, msg=name)


def test_passes_are_filled_with_real_tokens() -> None:
    assert fill_passes([5, 3, 7, 2, 9, 1], 10) == [[4, 5], [2, 1], [0, 3]]
    # Longer than the limit: alone, since it cannot be cut.
    assert fill_passes([12, 4, 4], 10) == [[0], [1, 2]]
    # The same limit: 20 padded tokens are fewer rows than 20 real ones.
    by_tokens = settings(*BY_TOKENS).actor
    padded, packed = (passes(batch(), by_tokens, is_packed=is_packed) for is_packed in (False, True))
    assert len(packed) < len(padded)
    lengths = [prompt + response for prompt, response in LENGTHS]
    assert all(sum(lengths[row] for row in rows.tolist()) <= 20 for rows in packed)
    assert sorted(torch.cat(packed).tolist()) == list(range(8))


def test_what_cannot_be_packed_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="use_remove_padding and ulysses"):
        settings(*PACKED, "actor.ulysses_sequence_parallel_size=2")
    data, network = batch(), PolicyNetwork(grouped_heads(None), Placement(), settings(*PACKED).actor)
    hidden = data.tensor("attention_mask").clone()
    # The prompt of row 3 is one token: without it nothing predicts the response's first.
    hidden[3, 5] = 0
    with pytest.raises(InvalidField, match="attention_mask: row 3"):
        network(data.with_tensors(attention_mask=hidden), 1.0)
    # A recurrence beside the attention would run on from one row into the next.
    mixed = make_mixed_model()
    with pytest.raises(InvalidField, match="use_remove_padding"):
        PolicyNetwork(mixed, Placement(), settings(*PACKED).actor)


def make_mixed_model() -> Any:
    """A model with a recurrence beside its attention."""
    return FalconH1ForCausalLM(
        FalconH1Config(vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
                       num_key_value_heads=2, mamba_d_ssm=16, mamba_n_heads=4, mamba_d_head=4)
    )  # fmt: skip


def test_rows_are_joined_by_default_where_the_model_allows_it() -> None:
    default = ["actor.use_remove_padding=null", "critic.use_remove_padding=null"]
    actor = settings(*default).actor
    network = PolicyNetwork(grouped_heads(None), Placement(), actor)
    counted = count_tokens(network)
    found = network(batch(), 0.7).log_probs
    assert counted == [int(batch().tensor("attention_mask").sum())], "no padding"
    padded = PolicyNetwork(grouped_heads(None), Placement(), settings().actor)(batch(), 0.7).log_probs
    torch.testing.assert_close(found, padded, atol=1e-5, rtol=1e-5)
    # Padded, and not refused: nobody has asked for it.
    assert not PolicyNetwork(make_mixed_model(), Placement(), actor).packed
    assert not PolicyNetwork(grouped_heads(None), Placement(), settings().actor).packed
    shared = settings(*default, "actor.ulysses_sequence_parallel_size=2").actor
    assert not choose_packing(grouped_heads(None), shared)
    assert load_config([], []).actor.use_remove_padding is None


def with_shared_prompts() -> DataProto:
    """The batch with one prompt for rows 0 to 2, one for 4 and 6, and the others' own."""
    data = batch()
    parts = {name: data.tensor(name).clone() for name in ("prompts", "input_ids", "attention_mask", "position_ids")}
    for row, head in ((1, 0), (2, 0), (6, 4)):
        parts["prompts"][row] = parts["prompts"][head]
        parts["input_ids"][row, :6] = parts["input_ids"][head, :6]
        parts["attention_mask"][row, :6] = parts["attention_mask"][head, :6]
    parts["position_ids"] = (parts["attention_mask"].cumsum(1) - 1).clamp(min=0)
    return data.with_tensors(**parts)


def count_tokens(network: PolicyNetwork) -> list[int]:
    """Return a list to which every pass of the trunk adds the number of its tokens."""
    counted: list[int] = []
    network.language_model.get_decoder().register_forward_pre_hook(
        lambda _, positional, named: counted.append(named["input_ids"].numel()), with_kwargs=True
    )
    return counted


@pytest.mark.parametrize("window", [None, 4])
def test_equal_prompts_are_computed_once_with_the_same_result(window: int | None) -> None:
    data = with_shared_prompts()
    found = []
    for overrides in ([], PACKED):
        network = PolicyNetwork(grouped_heads(window), Placement(), settings(*overrides).actor)
        counted = count_tokens(network)
        seen = network(data, 0.7, entropy=True)
        slope = gradient(network, (seen.log_probs.sum() + seen.entropy.sum()).backward)
        found.append((seen.log_probs, seen.entropy, slope))
    for padded, packed in zip(*found, strict=True):
        torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)
    # Two rows without the three tokens of row 0's prompt, one without the four of row 4's.
    assert counted == [int(data.tensor("attention_mask").sum()) - 2 * 3 - 4]


def test_rows_of_one_prompt_do_not_meet() -> None:
    network = PolicyNetwork(grouped_heads(None), Placement(), settings(*PACKED).actor).eval()
    data = with_shared_prompts()
    before = network(data, 1.0).log_probs
    ids = data.tensor("input_ids").clone()
    # The response of row 0, which has the prompt for rows 1 and 2.
    ids[0, 6:] = 15 - ids[0, 6:]
    after = network(data.with_tensors(input_ids=ids), 1.0).log_probs
    assert torch.equal(before[1:], after[1:])
    assert not torch.equal(before[0], after[0])


@pytest.mark.parametrize("more", [BY_TOKENS, ["model.enable_gradient_checkpointing=true"]])
def test_steps_on_equal_prompts_end_with_the_weights_of_padded_ones(more: list[str]) -> None:
    fixed = ["actor.entropy_coeff=0.01", "actor.use_kl_loss=true", "actor.optim.lr=0.001", "critic.optim.lr=0.001"]
    padded, packed = (two_steps(settings(*fixed, *ways), with_shared_prompts()) for ways in ([], [*PACKED, *more]))
    for name, value in padded.items():
        torch.testing.assert_close(packed[name], value, atol=2e-5, rtol=1e-4, msg=name)


def test_equal_words_at_other_places_are_not_shared() -> None:
    data = with_shared_prompts()
    places = data.tensor("position_ids").clone()
    places[1] += 5
    assert find_prompt_heads(data) == [0, 0, 0, 3, 4, 5, 4, 7]
    assert find_prompt_heads(data.with_tensors(position_ids=places)) == [0, 1, 0, 3, 4, 5, 4, 7]


def test_a_shared_prompt_counts_once_in_a_pass() -> None:
    # Rows 0, 2 and 3 share four tokens: 9 + 4 + 3 of the limit of 16, where without it they were 24.
    heads, prompts = [0, 1, 0, 0], [4, 2, 4, 4]
    assert fill_passes([9, 5, 8, 7], 16, heads, prompts) == [[0, 2, 3], [1]]
    assert fill_passes([9, 5, 8, 7], 16) == [[0, 3], [2, 1]]
    # What does not fit begins a pass with the prompt anew, beside others.
    assert fill_passes([9, 5, 8, 7], 13, heads, prompts) == [[0, 2], [3, 1]]

"""Learners on tiny models: log-probs and values against brute force, gradients that no cut changes, exact resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig, load_config
from fathom.trainers.learners import checkpoint
from fathom.trainers.learners.actor import Actor
from fathom.trainers.learners.critic import Critic
from fathom.trainers.learners.forward import crop_padding, mini_batches, passes, response_tokens
from fathom.trainers.learners.models import load_model, load_tokenizer
from fathom.trainers.learners.ranks.groups import LocalGroup, shard_by_group
from fathom.trainers.learners.reference import Reference
from fathom.trainers.learners.stepping import learning_rate
from fathom.trainers.learners.workers import ActorWorker
from fathom.trainers.objectives.mismatch import FIRST_PASS, OLD_IS_FIRST_PASS
from fathom.trainers.objectives.policy_loss import Totals

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
# Tokens of prompt and response per row: no two rows padded alike, responses of one token, prompts of one token.
LENGTHS = [(3, 5), (2, 2), (5, 4), (1, 6), (4, 1), (5, 6), (2, 3), (3, 3)]


def settings(*overrides: str) -> TrainConfig:
    # A hundred times the usual rate: one step of so small a model must show.
    fixed = ["model.hidden=16", "model.layers=1", "model.window=32", f"model.vocabulary={WORDS}", "rollout.n=2"]
    # Padded, as the brute force that steps are held against, which calls the model itself.
    fixed += ["actor.use_remove_padding=false", "critic.use_remove_padding=false"]
    return load_config([], [*fixed, "actor.optim.lr=0.01", "critic.optim.lr=0.01", *overrides])


def batch(temperature: float = 1.0) -> DataProto:
    """Eight rows in four groups, prompts and responses of all lengths, observations in between."""
    generator = torch.Generator().manual_seed(3)
    rows, width, height = len(LENGTHS), 6, 7
    prompts, responses = torch.zeros(rows, width, dtype=torch.int64), torch.zeros(rows, height, dtype=torch.int64)
    attention = torch.zeros(rows, width + height, dtype=torch.int64)
    mask = torch.zeros(rows, height, dtype=torch.int64)
    for row, (prompt, response) in enumerate(LENGTHS):
        prompts[row, width - prompt :] = torch.randint(8, 16, (prompt,), generator=generator)
        responses[row, :response] = torch.randint(8, 16, (response,), generator=generator)
        attention[row, width - prompt : width + response] = 1
        mask[row, :response] = 1
        if response > 3:
            # An observation at places 1 and 2 of each longer response.
            mask[row, 1:3] = 0
    shape = (rows, height)
    tensors = {
        "prompts": prompts, "responses": responses, "input_ids": torch.cat([prompts, responses], dim=1),
        "attention_mask": attention, "position_ids": (attention.cumsum(1) - 1).clamp(min=0), "response_mask": mask,
        "advantages": torch.randn(shape, generator=generator) * mask,
        # No generated text stands behind these: only shapes and masks matter to a learner.
        "returns": torch.randn(shape, generator=generator) * mask, "values": torch.zeros(shape),
    }  # fmt: skip
    uids = [f"g{row // 2}" for row in range(rows)]
    return DataProto.from_dict(tensors, {"uid": uids}, {"temperature": temperature, "n": 2})


def model(config: TrainConfig) -> Any:
    return load_model(config.model, 5)


def with_old(actor: Actor, data: DataProto) -> DataProto:
    return data.union(actor.compute_log_prob(data).select(["old_log_probs"]))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_and_entropies_are_those_of_each_row_alone(temperature: float) -> None:
    config, data = settings(), batch(temperature)
    found = Actor(config.actor, model(config)).compute_log_prob(data)
    # In training mode, as the learner's update sees it: dropout would show as a difference.
    network = model(config).train()
    for row, (prompt, response) in enumerate(LENGTHS):
        # Each row alone and without padding: what the padded batch must agree with.
        ids = torch.cat([data.tensor("prompts")[row, 6 - prompt :], data.tensor("responses")[row, :response]])
        logits = network(input_ids=ids.unsqueeze(0)).logits[0].float() / temperature
        for column in range(response):
            # The logits at a position are about the token after it, hence the minus one.
            spread = torch.log_softmax(logits[prompt + column - 1], dim=-1)
            assert found.tensor("old_log_probs")[row, column] == pytest.approx(
                float(spread[ids[prompt + column]].detach()), abs=1e-5
            )
            entropy = float(-(spread.exp() * spread).sum().detach())
            assert found.tensor("entropys")[row, column] == pytest.approx(entropy, abs=1e-5)
        assert found.tensor("old_log_probs")[row, response:].eq(0).all()


def test_values_are_of_the_state_before_each_token() -> None:
    config, data = settings(), batch()
    critic = Critic(config.critic, model(config))
    value = critic.model
    # A new head is zero, and so would be every value: any weights will do.
    torch.nn.init.normal_(value.head.weight, generator=torch.Generator().manual_seed(1))
    found = critic.compute_values(data).tensor("values")
    for row, (prompt, response) in enumerate(LENGTHS):
        ids = torch.cat([data.tensor("prompts")[row, 6 - prompt :], data.tensor("responses")[row, :response]])
        hidden = value.trunk(input_ids=ids.unsqueeze(0)).last_hidden_state[0]
        # The value before the first response token is that of the prompt's last one.
        wanted = value.head(hidden[prompt - 1 : prompt + response - 1]).squeeze(-1)
        assert torch.allclose(found[row, :response], wanted, atol=1e-5)


def gradient(module: torch.nn.Module, run: Any) -> torch.Tensor:
    """All gradients as one vector, taken before a step."""
    for parameter in module.parameters():
        parameter.grad = None
    run()
    return torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"])
@pytest.mark.parametrize(
    "cut", ["ppo_micro_batch_size_per_gpu=1", "ppo_micro_batch_size_per_gpu=3", "use_dynamic_bsz=true"]
)
def test_a_gradient_does_not_depend_on_how_the_batch_is_cut(mode: str, cut: str) -> None:
    whole = settings(f"actor.loss_agg_mode={mode}", "actor.entropy_coeff=0.01", "actor.ppo_micro_batch_size_per_gpu=8")
    parts = settings(
        f"actor.loss_agg_mode={mode}",
        "actor.entropy_coeff=0.01",
        f"actor.{cut}",
        "actor.ppo_max_token_len_per_gpu=20",
    )
    found = []
    for config in (whole, parts):
        actor = Actor(config.actor, model(config))
        data = with_old(actor, batch())
        totals = Totals.of(data.tensor("response_mask"))
        rows = passes(data, config.actor, is_packed=False)
        # Every row in exactly one pass.
        assert sorted(torch.cat(rows).tolist()) == list(range(8))
        found.append(
            gradient(
                actor.model,
                lambda a=actor, d=data, r=rows, t=totals: [a.backward(crop_padding(d[i]), t, 1.0) for i in r],
            )
        )
    assert torch.allclose(found[0], found[1], atol=1e-6)
    # Two vectors of zeros would agree as well.
    assert found[0].abs().max() > 1e-4


def test_what_stands_off_the_mask_changes_nothing() -> None:
    config = settings()
    data = with_old(Actor(config.actor, model(config)), batch())
    off = data.tensor("response_mask") == 0
    dirty = data.with_tensors(
        advantages=data.tensor("advantages").masked_fill(off, 7.0),
        # NaN off the mask: multiplied by a mask of 0 it would still be NaN.
        old_log_probs=data.tensor("old_log_probs").masked_fill(off, float("nan")),
    )
    ends = []
    for given in (data, dirty):
        actor = Actor(config.actor, model(config))
        metrics = actor.update_policy(given)
        assert all(value == value for value in metrics.values())
        ends.append(torch.cat([p.detach().flatten() for p in actor.model.parameters()]))
    assert torch.equal(ends[0], ends[1])


def test_a_step_makes_good_tokens_likelier_and_values_closer() -> None:
    config, data = settings("actor.ppo_epochs=4", "critic.ppo_epochs=20"), batch()
    actor = Actor(config.actor, model(config))
    old = with_old(actor, data)
    metrics = actor.update_policy(old)
    new = actor.compute_log_prob(data).tensor("old_log_probs")
    # To first order the step raises the sum of advantage times log-probability.
    gain = ((new - old.tensor("old_log_probs")) * data.tensor("advantages")).sum()
    assert gain > 0
    assert metrics["actor/grad_norm"] > 0
    critic = Critic(config.critic, model(config))
    first = critic.update_critic(data)["critic/vf_loss"]
    assert critic.update_critic(data.union(DataProto()))["critic/vf_loss"] < first


def test_kl_against_the_start_is_zero_at_the_start_and_holds_back() -> None:
    config = settings("actor.use_kl_loss=true", "actor.kl_loss_coef=0.5")
    actor, reference = Actor(config.actor, model(config)), Reference(config.actor, model(config))
    data = with_old(actor, batch())
    data = data.union(reference.compute_ref_log_prob(data))
    # Actor and reference are loaded from the same weights, so their difference is exactly none.
    assert torch.allclose(data.tensor("ref_log_prob"), data.tensor("old_log_probs"), atol=1e-6)
    # The first update's metric is of before its step; only the second sees weights that have moved.
    assert actor.update_policy(data)["actor/kl_loss"] == pytest.approx(0.0, abs=1e-6)
    assert actor.update_policy(data)["actor/kl_loss"] > 0
    assert not any(parameter.requires_grad for parameter in reference.model.parameters())


def test_mini_batches_are_whole_groups_in_order() -> None:
    data = batch()
    parts = mini_batches(data, 3)
    # Three prompts of two rows each, and what is left; a group is never split, for its advantages belong together.
    assert [len(part) for part in parts] == [6, 2]
    assert [part.array("uid").tolist() for part in parts][1] == ["g3", "g3"]
    # Groups go to ranks in turn: g0 and g2 to the first, g1 and g3 to the second.
    assert torch.cat(shard_by_group(data, 2)).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]


def run_steps(worker: ActorWorker, count: int) -> None:
    for _ in range(count):
        data = batch()
        worker.update_policy(data.union(worker.compute_log_prob(data).select(["old_log_probs"])))


def test_a_resumed_learner_ends_bit_for_bit_where_an_unbroken_one_does(tmp_path: Path) -> None:
    config = settings("actor.optim.lr_warmup_steps=3", "trainer.total_training_steps=4")
    straight, first, second = ActorWorker(config), ActorWorker(config), ActorWorker(config)
    run_steps(straight, 4)
    run_steps(first, 2)
    first.save_checkpoint(tmp_path / "actor")
    # Another random state, and a step of its own: everything that counts must come from the checkpoint.
    torch.manual_seed(99)
    run_steps(second, 1)
    second.load_checkpoint(tmp_path / "actor")
    run_steps(second, 2)
    for one, other in zip(straight.learner.model.parameters(), second.learner.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert straight.learner.stepper.lr == second.learner.stepper.lr


def test_random_state_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    worker = ActorWorker(settings())
    worker.save_checkpoint(tmp_path)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    # The checkpoint was written before the numbers were drawn, so loading it draws the same ones again.
    worker.load_checkpoint(tmp_path)
    assert torch.equal(torch.rand(3), wanted)
    with pytest.raises(FileNotFoundError):
        checkpoint.load(tmp_path / "nothing", worker.learner.stepper.state())


def test_what_is_exported_is_what_was_trained(tmp_path: Path) -> None:
    config = settings()
    group = LocalGroup(ActorWorker, config, 1)
    run_steps(group.worker, 1)
    group.export(tmp_path / "model")
    loaded = load_model(settings(f"model.path={tmp_path / 'model'}").model, 0)
    for (name, one), (_, other) in zip(
        group.worker.learner.model.named_parameters(), loaded.named_parameters(), strict=True
    ):
        assert torch.equal(one, other), name
    tokens = load_tokenizer(settings(f"model.path={tmp_path / 'model'}").model)
    assert tokens("a b")["input_ids"] == load_tokenizer(config.model)("a b")["input_ids"]


def test_schedules() -> None:
    warm = settings("actor.optim.lr_warmup_steps=4").actor.optim
    # A quarter more per step over four steps, the first one included; then constant.
    assert [learning_rate(warm, None, step) for step in (0, 3, 4, 100)] == [0.2, 0.8, 1.0, 1.0]
    cosine = settings("actor.optim.lr_scheduler_type=cosine", "actor.optim.min_lr_ratio=0.1").actor.optim
    assert learning_rate(cosine, 10, 0) == pytest.approx(1.0)
    # Halfway between 1 and 0.1.
    assert learning_rate(cosine, 10, 5) == pytest.approx(0.55)
    assert learning_rate(cosine, 10, 10) == pytest.approx(0.1)


def test_gradient_checkpointing_changes_no_gradient() -> None:
    plain, less = settings(), settings("model.enable_gradient_checkpointing=true")
    found = []
    for config in (plain, less):
        network = model(config)
        found.append(gradient(network, lambda n=network: response_tokens(n, batch(), 1.0).log_probs.sum().backward()))
    assert torch.allclose(found[0], found[1], atol=1e-6)


def test_rows_without_advantage_cost_no_pass_and_change_no_gradient() -> None:
    """Groups of equal rewards: the same weights as with all rows, from half of the passes."""
    config, data = settings("actor.ppo_micro_batch_size_per_gpu=1", "actor.ppo_mini_batch_size=4"), batch()
    # The first of each two groups has advantages, the second has none.
    data = data.with_tensors(advantages=data.tensor("advantages") * (torch.arange(8) % 4 < 2).unsqueeze(-1))
    found = []
    for leaves_out in (True, False):
        actor = Actor(config.actor, model(config))
        rows = with_old(actor, data)
        kept = actor.with_gradient(rows)
        assert len(kept) == 4
        if not leaves_out:
            actor.with_gradient = lambda mini: mini  # type: ignore[method-assign]
        metrics = actor.update_policy(rows)
        found.append((metrics["actor/pg_loss"], [parameter.detach() for parameter in actor.model.parameters()]))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    # With an entropy bonus every row has a gradient.
    assert len(Actor(settings("actor.entropy_coeff=0.1").actor, model(config)).with_gradient(data)) == 8


@pytest.mark.parametrize(
    "more", [[], ["actor.use_kl_loss=true"], ["actor.entropy_coeff=0.01", "actor.loss_mode=cispo"]]
)
def test_old_log_probs_of_the_updates_own_pass_make_the_same_step(more: list[str]) -> None:
    # Several passes of one update; PPO's ratios are 1 in either way, to the rounding of another split.
    config = settings("actor.ppo_micro_batch_size_per_gpu=3", "data.train_batch_size=4", *more)
    reference = torch.zeros_like(batch().tensor("advantages"))
    data = batch().with_tensors(ref_log_prob=reference)
    separate, own = Actor(config.actor, model(config)), Actor(config.actor, model(config))
    known = data.union(separate.compute_log_prob(data).select(["old_log_probs"]))
    wanted = separate.update_policy(known)
    sampled = known.tensor("old_log_probs") + 0.1
    found = own.update_policy(
        data.with_tensors(rollout_log_probs=sampled).with_meta(**{OLD_IS_FIRST_PASS: True, FIRST_PASS: True})
    )
    for name, value in separate.model.state_dict().items():
        torch.testing.assert_close(own.model.state_dict()[name], value, atol=1e-6, rtol=1e-5, msg=name)
    assert found["actor/pg_loss"] == pytest.approx(wanted["actor/pg_loss"], abs=1e-6)
    assert found["mismatch/kl"] == pytest.approx(0.1, abs=1e-6), "as before, of the policy before the update"


def test_a_second_update_needs_log_probs_of_before_the_first() -> None:
    config = settings("actor.ppo_mini_batch_size=2", "data.train_batch_size=4")
    with pytest.raises(InvalidField, match=r"algorithm\.old_log_probs: is update, and this batch needs more than one"):
        Actor(config.actor, model(config)).update_policy(batch().with_meta(**{OLD_IS_FIRST_PASS: True}))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ("actor.ppo_epochs=2", "ppo_epochs"),
        ("actor.ppo_mini_batch_size=2", "ppo_mini_batch_size"),
        ("algorithm.use_kl_in_reward=true", "use_kl_in_reward"),
        ("rollout.importance_cap=2.0", "importance_cap"),
        ("reward_model.enable=true", "PRIME"),
    ],
)
def test_what_reads_old_log_probs_before_the_update_refuses_those_of_its_pass(other: str, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"algorithm\.old_log_probs update: .*{named}"):
        settings("data.train_batch_size=4", "algorithm.old_log_probs=update", other)

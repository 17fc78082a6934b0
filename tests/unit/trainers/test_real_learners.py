"""The loop with real learners in one process: PPO with a critic, a resume that goes on to the bit, presets by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fathom.errors import InvalidField
from fathom.store import open_store
from trainers import assembly
from trainers.algorithms import configured, find
from trainers.checkpoints import StoreCheckpoints
from trainers.config import TrainConfig
from trainers.grpo import GRPOTrainer
from trainers.learners.models import load_model, load_tokenizer
from trainers.lookups import Lookup, found, lookups, shown, vocabulary
from trainers.ppo import RayPPOTrainer
from trainers.prompts import Prompts
from trainers.rloo import RLOOTrainer
from trainers.roles import Metrics
from trainers.search_r1 import GenerationConfig, LLMGenerationManager, RewardManager
from trainers.search_r1.rollouts import SearchR1Rollouts
from trainers.search_r1.sampler import ModelSampler
from trainers.surroundings import Surroundings
from trainers.tasks import records
from trainers.workers import LocalGroup, RayGroup

FACTS = lookups()[:6]
SMALL = (
    f"model.vocabulary={list(vocabulary())}", "model.hidden=16", "model.layers=1", "data.train_batch_size=3",
    "data.max_prompt_length=96", "rollout.n=2", "rollout.max_turns=1", "rollout.max_tokens=4", "rollout.max_obs_length=24",
    "actor.ppo_mini_batch_size=3", "critic.ppo_mini_batch_size=3", "actor.optim.lr=1e-3", "trainer.save_freq=1",
    "actor.optim.lr_warmup_steps_ratio=0.5", "trainer.test_freq=0",
)  # fmt: skip


class Manager(LLMGenerationManager):
    """Searches in this process."""

    def batch_search(self, queries: list[str]) -> list[str]:  # type: ignore[override]
        facts: list[Lookup] = FACTS
        return [shown(found(query, facts)) for query in queries]


class Rollouts(SearchR1Rollouts):
    manager_class = Manager


def settings(algorithm: str, *overrides: str) -> TrainConfig:
    return configured(algorithm, (), [*SMALL, *overrides])


def scene(root: Path, algorithm: str, *overrides: str) -> tuple[RayPPOTrainer, list[Metrics]]:
    torch.set_num_threads(1)
    config = settings(algorithm, *overrides)
    tokenizer, model = load_tokenizer(config.model), load_model(config.model, config.trainer.seed)
    seen: list[Metrics] = []
    around = Surroundings(
        Rollouts(ModelSampler(model, tokenizer), tokenizer, GenerationConfig.from_config(config)),
        Prompts(records([fact.task for fact in FACTS], "train"), seed=2),
        checkpoints=StoreCheckpoints(open_store(f"file://{root / 'store'}"), "toy"),
        on_step=lambda step, metrics: seen.append(dict(metrics)),
    )
    reward = RewardManager(tokenizer, 0, 0.1)
    return assembly.trainer(algorithm, config, tokenizer, around, reward), seen


def weights(trainer: RayPPOTrainer, name: str) -> dict[str, torch.Tensor]:
    module = trainer.learners()[name].worker.learner.stepper.module
    return {key: value.clone() for key, value in module.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "more"), [("ppo", ["rollout.n=2"]), ("grpo", []), ("rloo", [])])
def test_a_resume_goes_on_to_the_bit(tmp_path: Path, algorithm: str, more: list[str]) -> None:
    """SR17: four steps in one go, or stopped at an epoch's end (2) or within one (3): the same weights and metrics."""
    whole, told = scene(tmp_path / "whole", algorithm, *more, "trainer.total_training_steps=4")
    whole.fit()
    for stop in (2, 3):
        root = tmp_path / f"stop-{stop}"
        first, _ = scene(root, algorithm, *more, "trainer.total_training_steps=4")
        first.init_workers()
        first.publish()
        while first.step < stop:
            first.submitted = first.step
            first.run_step()
        second, after = scene(root, algorithm, *more, "trainer.total_training_steps=4")
        second.fit()
        assert [metrics["training/global_step"] for metrics in after] == list(range(stop + 1, 5))
        for name in whole.learners():
            resumed = weights(second, name)
            assert all(torch.equal(value, resumed[key]) for key, value in weights(whole, name).items())
        timeless = [{k: v for k, v in m.items() if not k.startswith("timing_s")} for m in (told[-1], after[-1])]
        assert timeless[0] == timeless[1]


def test_sr18_ppo_trains_actor_and_critic_and_leaves_the_reference(tmp_path: Path) -> None:
    """SR18: both learn in one process without Ray; KL to the reference is 0 before the first update, then not."""
    trainer, seen = scene(tmp_path, "ppo", "rollout.n=2", "trainer.total_training_steps=2")
    trainer.init_workers()
    before = {name: weights(trainer, name) for name in ("actor", "critic")}
    trainer.init_workers = lambda: None  # type: ignore[method-assign]
    trainer.fit()
    for name, values in before.items():
        assert any(not torch.equal(value, weights(trainer, name)[key]) for key, value in values.items())
    steps = [metrics for metrics in seen if "training/global_step" in metrics]
    assert steps[0]["actor/reward_kl_penalty"] == pytest.approx(0.0, abs=1e-6)
    assert steps[1]["actor/reward_kl_penalty"] != pytest.approx(0.0, abs=1e-6)
    assert {"critic/vf_loss", "critic/grad_norm", "actor/grad_norm", "actor/pg_clipfrac"} <= steps[0].keys()
    assert steps[0]["mismatch/prob_diff/max"] < 1e-5


def test_presets_say_what_their_trainers_take() -> None:
    for name, kind, estimator in (
        ("ppo", RayPPOTrainer, "gae"),
        ("grpo", GRPOTrainer, "grpo"),
        ("rloo", RLOOTrainer, "rloo"),
    ):
        config = configured(name, (), ())
        assert find(name).load() is kind
        assert config.algorithm.adv_estimator == estimator
        assert config.algorithm.use_kl_in_reward is (name == "ppo") is not config.actor.use_kl_loss
    with pytest.raises(InvalidField, match=r"algorithm\.adv_estimator"):
        assembly.trainer("rloo", configured("grpo", (), ()), None, None)  # type: ignore[arg-type]


def test_one_process_or_ranks_on_ray() -> None:
    """SR18: Ray only where it is asked for; one rank needs none."""
    assert assembly.groups(settings("ppo")) is LocalGroup
    assert assembly.groups(settings("ppo", "trainer.world_size=2")) is RayGroup
    assert assembly.groups(settings("ppo", "trainer.use_ray=true")) is RayGroup

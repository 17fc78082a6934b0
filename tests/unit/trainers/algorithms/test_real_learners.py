"""The loop with real learners in one process: PPO with a critic, a resume that goes on to the bit, presets by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from fathom.core.errors import InvalidField
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.grpo import GRPO
from fathom.trainers.algorithms.ppo import PPO, RayPPOTrainer
from fathom.trainers.algorithms.rloo import RLOO
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.config import TrainConfig
from fathom.trainers.data.comparison import records
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import Metrics
from fathom.trainers.jobs import assembly
from fathom.trainers.jobs.registry import build_algorithm, find, load_settings
from fathom.trainers.learners.models import load_model, load_tokenizer
from fathom.trainers.learners.ranks.groups import LocalGroup, RayGroup, SharedRanks
from fathom.trainers.search_r1 import GenerationConfig, LLMGenerationManager, RewardManager
from fathom.trainers.search_r1.rollouts import SearchR1Rollouts
from fathom.trainers.search_r1.sampler import ModelSampler
from fathom.transport.store import open_store
from tests.support.training.lookups import Lookup, find_documents, format_documents, lookups, vocabulary
from tests.support.training.read_settings import keep_read

FACTS = lookups()[:6]
SMALL = (
    f"model.vocabulary={list(vocabulary())}", "model.hidden=16", "model.layers=1", "data.train_batch_size=3",
    "data.max_prompt_length=96", "rollout.n=2", "rollout.max_turns=1", "rollout.max_tokens=4", "rollout.max_obs_length=24",
    "actor.ppo_mini_batch_size=3", "critic.ppo_mini_batch_size=3", "actor.optim.lr=1e-3", "trainer.save_freq=1",
    "actor.optim.lr_warmup_steps_ratio=0.5", "trainer.test_freq=0", "rollout.source=in_process",
    "reward.manager=search_r1", "retriever.url=http://127.0.0.1:9/retrieve",
)  # fmt: skip


class Manager(LLMGenerationManager):
    """Searches in this process."""

    def batch_search(self, queries: list[str]) -> list[str]:  # type: ignore[override]
        facts: list[Lookup] = FACTS
        return [format_documents(find_documents(query, facts)) for query in queries]


class Rollouts(SearchR1Rollouts):
    manager_class = Manager


def settings(algorithm: str, *overrides: str) -> TrainConfig:
    return load_settings(algorithm, (), keep_read(algorithm, [*SMALL, *overrides]))


def scene(root: Path, algorithm: str, *overrides: str) -> tuple[RayPPOTrainer, list[Metrics]]:
    torch.set_num_threads(1)
    config = settings(algorithm, *overrides)
    tokenizer, model = load_tokenizer(config.model), load_model(config.model, config.trainer.seed)
    seen: list[Metrics] = []
    context = TrainingContext(
        Rollouts(ModelSampler(model, tokenizer), tokenizer, GenerationConfig.from_config(config)),
        Prompts(records([fact.task for fact in FACTS], "train"), seed=2),
        checkpoints=StoreCheckpoints(open_store(f"file://{root / 'store'}"), f"file://{root / 'store'}", "toy"),
        on_step=lambda step, metrics: seen.append(dict(metrics)),
    )
    reward = RewardManager(tokenizer, 0, 0.1)
    return assembly.build_trainer(build_algorithm(algorithm, config), tokenizer, context, reward), seen


def weights(trainer: RayPPOTrainer, name: str) -> dict[str, torch.Tensor]:
    module = trainer.learners()[name].worker.learner.stepper.module
    return {key: value.clone() for key, value in module.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "more"), [("ppo", ["rollout.n=2"]), ("grpo", []), ("rloo", [])])
def test_a_resume_goes_on_to_the_bit(tmp_path: Path, algorithm: str, more: list[str]) -> None:
    """Four steps in one go, or stopped at an epoch's end (2) or within one (3): the same weights and metrics."""
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


def test_ppo_trains_actor_and_critic_and_leaves_the_reference(tmp_path: Path) -> None:
    """Both learn in one process without Ray; KL to the reference is 0 before the first update, then not."""
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


def test_presets_choose_an_estimator_that_their_algorithm_supports() -> None:
    for name, kind, estimator in (
        ("ppo", PPO, "gae"),
        ("grpo", GRPO, "grpo"),
        ("rloo", RLOO, "rloo"),
    ):
        config = load_settings(name, (), ())
        assert find(name).load() is kind
        assert config.algorithm.adv_estimator == estimator
        assert config.algorithm.use_kl_in_reward is (name == "ppo") is not config.actor.use_kl_loss
    with pytest.raises(InvalidField, match=r"algorithm\.adv_estimator"):
        build_algorithm("rloo", load_settings("grpo", (), ()))


def test_one_process_or_ranks_on_ray() -> None:
    """Ray only where it is asked for; one rank needs none. On Ray three roles share ranks, or have their own."""
    local = assembly.select_group_factory(settings("ppo"))
    assert isinstance(local, partial)
    assert local.func is LocalGroup
    for asked, ranks in (("trainer.world_size=2", 2), ("trainer.use_ray=true", 1)):
        config = settings("ppo", asked)
        assert isinstance(assembly.select_group_factory(config), SharedRanks)
        assert assembly.count_ranks(config, 3) == ranks
        config = settings("ppo", asked, "trainer.colocate_roles=false")
        split = assembly.select_group_factory(config)
        assert isinstance(split, partial)
        assert split.func is RayGroup
        assert assembly.count_ranks(config, 3) == 3 * ranks

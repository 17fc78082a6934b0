"""What training on observation tokens costs: the same PPO on the lookup task with and without state masking.

Search-R1's own rollout loop with a sampler in this process; exact match is the only reward. Both arms start from the
same warm model, draw the same prompts and differ in one setting, ``algorithm.state_masking``. Search-R1 reports
(arXiv 2503.09516, table of the mask ablation) 0.431 with and 0.343 without the mask on average over seven sets.
``python -m tests.bench masking`` runs it; ``BENCH_SEEDS`` (7,8,9) and ``BENCH_STEPS`` (20) change how much.
"""

from __future__ import annotations

import copy
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from trainers import tiny
from trainers.config import TrainConfig, load_config
from trainers.imitation import imitate
from trainers.learners.actor import Actor
from trainers.learners.critic import Critic, ValueModel
from trainers.learners.models import export
from trainers.learners.reference import Reference
from trainers.lookups import Lookup, found, lessons, lookups, shown, vocabulary
from trainers.ppo import RayPPOTrainer, Surroundings
from trainers.prompts import Prompts
from trainers.roles import Metrics, ResourcePoolManager, Role
from trainers.search_r1 import GenerationConfig, LLMGenerationManager, RewardManager
from trainers.search_r1.rollouts import SearchR1Rollouts
from trainers.search_r1.sampler import ModelSampler
from trainers.search_r1.tokens import Tokens
from trainers.tasks import records

HELD_OUT = 16
SEEDS = [int(seed) for seed in os.environ.get("BENCH_SEEDS", "7,8,9").split(",")]
STEPS = int(os.environ.get("BENCH_STEPS", "20"))
SETTINGS = (
    "algorithm.adv_estimator=gae", "data.train_batch_size=16", "data.max_prompt_length=128", "rollout.n=8",
    "rollout.max_turns=1", "rollout.max_tokens=6", "rollout.max_start_length=32", "rollout.max_obs_length=64",
    "actor.optim.lr=5e-4", "actor.ppo_epochs=2", "actor.ppo_mini_batch_size=8", "actor.ppo_micro_batch_size_per_gpu=64",
    "critic.optim.lr=1e-3", "critic.ppo_epochs=2", "critic.ppo_mini_batch_size=8",
    "critic.ppo_micro_batch_size_per_gpu=64", "trainer.test_freq=5", "trainer.resume_mode=disable",
)  # fmt: skip


class LookupManager(LLMGenerationManager):
    """Searches the facts in this process, and shows what is found as a turn of the user, as planner does."""

    facts: Sequence[Lookup] = ()

    def batch_search(self, queries: Sequence[str]) -> list[str]:
        return [shown(found(query, self.facts)) for query in queries]

    def _process_next_obs(self, next_obs: Sequence[str]) -> Tokens:
        turns = [f"<|end|> <|start|> user {text} <|end|> <|start|> assistant" if text else "" for text in next_obs]
        return super()._process_next_obs(turns)


class LookupRollouts(SearchR1Rollouts):
    """Rollouts over the facts."""

    manager_class = LookupManager


class Local:
    """An actor, or another learner, with what the loop asks of a group."""

    def __init__(self, learner: Any, model: Any = None, tokenizer: Any = None) -> None:
        self.learner, self.model, self.tokenizer = learner, model, tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)

    def export(self, folder: Path) -> None:
        export(self.model, self.tokenizer, folder)


def warm_start(seed: int, facts: Sequence[Lookup], steps: int = 800) -> tuple[Any, Any]:
    """(model, tokenizer) that can search and read, and mostly guesses."""
    words = vocabulary()
    tokenizer, model = tiny.build_tokenizer(words), tiny.build_model(words, 64, 2, seed, 256)
    imitate(model, tokenizer, lessons([fact.id for fact in facts], 3000, seed), steps=steps, seed=seed)
    return model, tokenizer


def train(seed: int, masked: bool, steps: int, model: Any, tokenizer: Any, facts: Sequence[Lookup]) -> list[Metrics]:
    """One arm; the metrics of each step."""
    overrides = [
        f"algorithm.state_masking={str(masked).lower()}", f"trainer.total_training_steps={steps}", f"trainer.seed={seed}",
    ]  # fmt: skip
    config: TrainConfig = load_config(overrides=[*SETTINGS, *overrides])
    torch.manual_seed(seed)
    policy, seen = copy.deepcopy(model).train(), list[Metrics]()
    LookupManager.facts = facts
    made = {
        Role.ACTOR: lambda: Local(Actor(config.actor, policy), policy, tokenizer),
        Role.CRITIC: lambda: Local(Critic(config.critic, ValueModel(copy.deepcopy(model)))),
        Role.REF_POLICY: lambda: Local(Reference(config.actor, copy.deepcopy(model))),
    }
    reward = RewardManager(tokenizer, 0)
    generation = GenerationConfig.from_config(config)
    around = Surroundings(
        LookupRollouts(ModelSampler(copy.deepcopy(model), tokenizer), tokenizer, generation),
        Prompts(records([fact.task for fact in facts[HELD_OUT:]], "train"), seed=seed),
        Prompts(records([fact.task for fact in facts[:HELD_OUT]], "held_out"), shuffle=False),
        on_step=lambda step, metrics: seen.append(dict(metrics)),
    )
    pools = ResourcePoolManager({"all": 1}, dict.fromkeys(made, "all"))
    RayPPOTrainer(
        config, tokenizer, made, pools, lambda worker, settings, ranks: worker(), reward, surroundings=around
    ).fit()
    return seen


async def run() -> None:
    torch.set_num_threads(1)
    means: dict[bool, list[float]] = {True: [], False: []}
    for seed in SEEDS:
        facts = lookups()
        random.Random(seed).shuffle(facts)
        model, tokenizer = warm_start(seed, facts[HELD_OUT:])
        for masked in (True, False):
            started = time.perf_counter()
            seen = train(seed, masked, STEPS, model, tokenizer, facts)
            scores = [metrics["critic/score/mean"] for metrics in seen[1:]]
            held = [metrics["val/test_score"] for metrics in seen if "val/test_score" in metrics]
            means[masked].append(sum(scores) / len(scores))
            print(
                f"seed {seed}, observations {'masked' if masked else 'trained on':<11} mean training reward"
                f" {means[masked][-1]:.3f}, last five steps {sum(scores[-5:]) / len(scores[-5:]):.3f}, held-out accuracy"
                f" {' '.join(f'{score:.2f}' for score in held)}, loss on {seen[-1]['state_tokens/coverage']:.0%} of"
                f" response tokens, {time.perf_counter() - started:.0f} s",
                flush=True,
            )
    masked_mean, trained_mean = (sum(means[masked]) / len(means[masked]) for masked in (True, False))
    print(
        f"mean training reward over seeds: {masked_mean:.3f} masked, {trained_mean:.3f} trained on observations;"
        f" ratio {masked_mean / max(trained_mean, 1e-9):.2f}"
    )

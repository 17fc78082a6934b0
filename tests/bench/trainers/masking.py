"""Measure what training on observation tokens costs: the same PPO on the lookup task with and without state masking.

Search-R1's own rollout loop with a sampler in this process; exact match is the only reward. Both arms start from the
same warm model, draw the same prompts and differ in one setting, ``algorithm.state_masking``. Search-R1 reports
(arXiv 2503.09516, table of the mask ablation) 0.431 with and 0.343 without the mask on average over seven sets.
``python -m tests.bench masking`` runs it; ``BENCH_SEEDS`` (7,8,9) and ``BENCH_STEPS`` (14) change how much.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.ppo import PPO
from fathom.trainers.data.comparison import records
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import Metrics
from fathom.trainers.jobs import assembly
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.learners import tiny
from fathom.trainers.learners.models import load_model, load_tokenizer
from fathom.trainers.search_r1 import GenerationConfig, LLMGenerationManager, RewardManager
from fathom.trainers.search_r1.rollouts import SearchR1Rollouts
from fathom.trainers.search_r1.sampler import ModelSampler
from fathom.trainers.search_r1.tokens import Tokens
from tests.support.training.lessons import warm_start
from tests.support.training.lookups import Lookup, find_documents, format_documents, lessons, lookups, vocabulary

HELD_OUT = 16
SEEDS = [int(seed) for seed in os.environ.get("BENCH_SEEDS", "7,8,9").split(",")]
STEPS = int(os.environ.get("BENCH_STEPS", "14"))
LEARNT = 0.8
SETTINGS = (
    "data.train_batch_size=16", "data.max_prompt_length=128", "rollout.n=8",
    "rollout.max_turns=1", "rollout.max_tokens=6", "rollout.max_start_length=32", "rollout.max_obs_length=64",
    "actor.optim.lr=5e-4", "actor.ppo_epochs=2", "actor.ppo_mini_batch_size=8", "actor.ppo_micro_batch_size_per_gpu=64",
    "critic.optim.lr=1e-3", "critic.ppo_epochs=2", "critic.ppo_mini_batch_size=8",
    "critic.ppo_micro_batch_size_per_gpu=64", "trainer.test_freq=5", "trainer.resume_mode=disable",
    "rollout.source=in_process", "reward.manager=search_r1", "retriever.url=http://127.0.0.1:9/retrieve",
)  # fmt: skip


class LookupManager(LLMGenerationManager):
    """Searches the facts in this process, and shows what is found as a turn of the user, as planner does."""

    facts: Sequence[Lookup] = ()

    def batch_search(self, queries: Sequence[str]) -> list[str]:
        return [format_documents(find_documents(query, self.facts)) for query in queries]

    def _process_next_obs(self, next_obs: Sequence[str]) -> Tokens:
        turns = [f"<|end|> <|start|> user {text} <|end|> <|start|> assistant" if text else "" for text in next_obs]
        return super()._process_next_obs(turns)


class LookupRollouts(SearchR1Rollouts):
    """Rollouts over the facts."""

    manager_class = LookupManager


def warm_model(folder: Path, seed: int, facts: Sequence[Lookup], steps: int = 400) -> None:
    """A model in ``folder`` that can search and read, and mostly guesses."""
    words = vocabulary()
    tokenizer, model = tiny.build_tokenizer(words), tiny.build_model(words, 64, 2, seed, 256)
    warm_start(model, tokenizer, lessons([fact.id for fact in facts], 1500, seed), steps=steps, seed=seed)
    tiny.save(model, tokenizer, folder)


def train(seed: int, masked: bool, steps: int, folder: Path, facts: Sequence[Lookup]) -> tuple[list[Metrics], float]:
    """One arm: the metrics of each step, and the seconds that it took."""
    started = time.perf_counter()
    overrides = [
        f"model.path={folder}", f"algorithm.state_masking={str(masked).lower()}", f"trainer.seed={seed}",
        f"trainer.total_training_steps={steps}",
    ]  # fmt: skip
    config = load_settings("ppo", (), [*SETTINGS, *overrides])
    torch.manual_seed(seed)
    tokenizer, seen = load_tokenizer(config.model), list[Metrics]()
    LookupManager.facts = facts
    sampler = ModelSampler(load_model(config.model, seed), tokenizer)
    context = TrainingContext(
        LookupRollouts(sampler, tokenizer, GenerationConfig.from_config(config)),
        Prompts(records([fact.task for fact in facts[HELD_OUT:]], "train"), seed=seed),
        Prompts(records([fact.task for fact in facts[:HELD_OUT]], "held_out"), shuffle=False),
        on_step=lambda step, metrics: seen.append(dict(metrics)),
    )
    assembly.build_trainer(PPO(config), tokenizer, context, RewardManager(tokenizer, 0)).fit()
    return seen, time.perf_counter() - started


async def run() -> None:
    torch.set_num_threads(1)
    means: dict[bool, list[float]] = {True: [], False: []}
    for seed in SEEDS:
        facts = lookups()
        random.Random(seed).shuffle(facts)
        with tempfile.TemporaryDirectory() as name:
            warm_model(Path(name), seed, facts[HELD_OUT:])
            arms = {masked: train(seed, masked, STEPS, Path(name), facts) for masked in (True, False)}
        for masked, (seen, seconds) in arms.items():
            scores = [metrics["critic/score/mean"] for metrics in seen[1:]]
            held = [metrics["val/test_score"] for metrics in seen if "val/test_score" in metrics]
            means[masked].append(sum(scores) / len(scores))
            print(
                f"seed {seed}, observations {'masked' if masked else 'trained on':<11} mean training reward"
                f" {means[masked][-1]:.3f}, above {LEARNT} from step {learnt(scores)}, last five steps"
                f" {sum(scores[-5:]) / len(scores[-5:]):.3f}, held-out accuracy"
                f" {' '.join(f'{score:.2f}' for score in held)}, loss on {seen[-1]['state_tokens/coverage']:.0%} of"
                f" response tokens, {seconds:.0f} s",
                flush=True,
            )
    differences = [masked - trained for masked, trained in zip(means[True], means[False], strict=True)]
    masked_mean, trained_mean = (sum(means[masked]) / len(means[masked]) for masked in (True, False))
    print(
        f"mean training reward over {len(SEEDS)} seeds: {masked_mean:.3f} masked, {trained_mean:.3f} trained on"
        f" observations (baseline); ratio {masked_mean / max(trained_mean, 1e-9):.2f}; by seed"
        f" {' '.join(f'{difference:+.3f}' for difference in differences)}"
    )


def learnt(scores: Sequence[float]) -> int:
    """The first step from which the reward stays above ``LEARNT``; 0 when there is none."""
    low = max((step for step, score in enumerate(scores, start=1) if score <= LEARNT), default=0)
    return low + 1 if low < len(scores) else 0

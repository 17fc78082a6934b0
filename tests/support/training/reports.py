"""Trainings as they are written, without a learner: metrics, samples, description."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from fathom.domain.training_report.about import About
from fathom.trainers.batch import DataProto
from fathom.trainers.learners.tiny import build_tokenizer
from fathom.trainers.monitor.loggers import JsonLines
from fathom.trainers.monitor.progress import Pace, Progress
from fathom.trainers.monitor.store_mirror import StoreMirror

TOKENIZER = build_tokenizer(["Apple", "rose", "fell", "<answer>", "</answer>", "12", "%", "<information>"])
SETTINGS = {"actor.optim.lr": 1e-5, "trainer.seed": 7, "model.name": "tiny"}


def make_batch(step: int, rows: int = 4, prompt: int = 6, width: int = 12) -> DataProto:
    """Return a batch with everything that is known of it before it is trained on; the middle of a row is a tool's."""
    chosen = torch.Generator().manual_seed(step)
    ids = torch.randint(8, 8 + 8, (rows, prompt + width), generator=chosen)
    attention, mask = torch.ones(rows, prompt + width, dtype=torch.int64), torch.ones(rows, width, dtype=torch.int64)
    attention[:, :1], attention[0, -2:], mask[0, -2:] = 0, 0, 0
    mask[:, 4:6] = 0
    sampler = -torch.rand(rows, width, generator=chosen)
    learner = sampler + 0.2 * torch.randn(rows, width, generator=chosen)
    scores = torch.zeros(rows, width)
    scores[:, 3] = torch.arange(rows) / rows
    advantages = (torch.arange(rows) - (rows - 1) / 2).unsqueeze(-1) * mask
    tensors = {
        "prompts": ids[:, :prompt], "responses": ids[:, prompt:], "attention_mask": attention, "response_mask": mask,
        "rollout_log_probs": sampler, "old_log_probs": learner, "token_level_scores": scores, "advantages": advantages,
    }  # fmt: skip
    arrays = {
        "uid": np.array([f"question-{row // 2}" for row in range(rows)], dtype=object),
        "reward/style": np.arange(rows) / rows,
        "version_min": np.arange(rows),
        "version_max": np.arange(rows),
    }
    return DataProto(tensors, arrays)


def make_metrics(step: int, chosen: random.Random) -> dict[str, float]:
    """Return the metrics of a step of a policy that learns."""
    reward = min(1.0, step / 50) + chosen.gauss(0, 0.05)
    return {
        "critic/score/mean": reward, "critic/score/max": reward + 0.3, "critic/score/min": reward - 0.3,
        "critic/score/p10": reward - 0.2, "critic/score/median": reward + 0.02, "critic/score/p90": reward + 0.2,
        "reward/style": 0.5, "reward/style/p10": 0.3, "reward/style/median": 0.6, "reward/style/p90": 0.7, "reward_std/style": 0.1, "actor/entropy": 2.0 / step, "mismatch/kl_k3": 1e-3,
        "response_length/mean": 40.0, "response_length/max": 60.0, "response_length/min": 20.0,
        "response_length/p10": 25.0, "response_length/median": 38.0, "response_length/p90": 55.0,
        "rollout/age/mean": 0.5, "rollout/age/max": 1.0, "state_tokens/total": 400.0,
        "timing_s/gen": 2.0, "timing_s/update_actor": 1.0, "timing_s/step": 4.0, "own/metric": chosen.random(),
    }  # fmt: skip


@dataclass
class Writer:
    """Writes a training's folder step by step; every sample that is due is kept, however fast the steps are."""

    folder: Path
    total: int = 100
    settings: dict[str, object] = field(default_factory=lambda: dict(SETTINGS))
    algorithm: str = "grpo"
    seed: int = 1

    def __post_init__(self) -> None:
        self.log = JsonLines(self.folder / "metrics.jsonl")
        about = About(self.folder.name, self.algorithm, "tiny", settings=self.settings)
        self.progress = Progress(self.folder, about, samples=4)
        self.progress.sampling, self.progress.page = Pace(0.0, clock=lambda: 0.0), Pace(1e9)
        self._random = random.Random(self.seed)

    def write(self, *steps: int, **more: float) -> None:
        for step in steps:
            self.progress.keep_sample(step, self.total, make_batch(step), TOKENIZER)
            self.log.log(step, make_metrics(step, self._random) | more)
            self.progress.log_step(step, self.total)

    def mirror(self, mirror: StoreMirror) -> None:
        self.progress.mirror = mirror

    def end(self, state: str = "finished", error: str = "") -> None:
        self.log.close()
        self.progress.end(state, error)

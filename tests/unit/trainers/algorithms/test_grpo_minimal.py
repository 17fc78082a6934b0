"""The example that shows GRPO on one page is short, runs, and trains."""

from __future__ import annotations

import math
from pathlib import Path
from runpy import run_path

import pytest
import torch

from fathom.trainers.data.comparison import comparison_tasks, vocabulary
from fathom.trainers.learners import tiny

EXAMPLE = Path(__file__).parents[4] / "examples" / "train" / "grpo_minimal.py"


def test_two_steps_have_a_finite_loss_and_change_the_model() -> None:
    model, metrics = run_path(str(EXAMPLE))["train"](2, seed=7)
    assert len(metrics) == 2
    assert all(math.isfinite(one["loss"]) for one in metrics)
    assert all(0 <= one["reward"] <= 1 for one in metrics)
    start = tiny.build_model(vocabulary(comparison_tasks()), hidden=64, layers=2, seed=7)
    assert any(not torch.equal(a, b) for a, b in zip(start.parameters(), model.parameters(), strict=True))


def test_the_same_seed_gives_the_same_training() -> None:
    train = run_path(str(EXAMPLE))["train"]
    assert train(1, seed=3)[1] == train(1, seed=3)[1]


def test_the_example_fits_on_one_page() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 105


def test_a_step_samples_whole_groups_of_every_prompt() -> None:
    example = run_path(str(EXAMPLE))
    tasks = comparison_tasks()
    tokenizer = tiny.build_tokenizer(vocabulary(tasks))
    prompts = example["Prompts"](example["records"](tasks, "train"), seed=1).batch(0, example["PROMPTS"])
    sampler = example["ModelSampler"](tiny.build_model(vocabulary(tasks), 16, 1, 1), tokenizer)
    batch = example["sample"](sampler, tokenizer, prompts, 5)
    assert len(batch) == example["PROMPTS"] * example["GROUP"]
    assert example["grade"](batch, prompts, tokenizer).shape == (example["PROMPTS"], example["GROUP"])
    width = batch.tensor("responses").shape[1]
    model = tiny.build_model(vocabulary(tasks), 16, 1, 1)
    log_probs, _ = example["log_probs_of"](model, batch)
    mask = batch.tensor("response_mask").bool()
    assert log_probs.shape == (len(batch), width)
    assert log_probs[mask].tolist() == pytest.approx(batch.tensor("rollout_log_probs")[mask].tolist(), abs=1e-4)

"""Every algorithm that needs no data trains without a settings file: its defaults then fit the built-in task."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.jobs.launch import fill_vocabulary, read_prompts
from fathom.trainers.jobs.registry import ALGORITHMS, build_algorithm, load_settings
from fathom.trainers.learners.models import load_tokenizer

WITHOUT_DATA = sorted(name for name, one in ALGORITHMS.items() if not one.needs_data)


def test_these_algorithms_need_no_data() -> None:
    group_based = ["cispo", "dapo", "dr_grpo", "gdpo", "grpo", "gspo", "reinforce_pp", "rloo"]
    assert sorted(WITHOUT_DATA) == sorted([*group_based, "brpo", "ppo", "prime", "search_r1"])


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_the_defaults_fit_the_tiny_model_and_the_built_in_prompts(name: str) -> None:
    config = load_settings(name, [], [])
    train, validation = read_prompts(config.data)
    config = fill_vocabulary(config, [*train, *validation])
    tokenizer, rollout = load_tokenizer(config.model), config.rollout
    for row in (*train, *validation):
        chat = [{"role": "system", "content": rollout.system_prompt}, row["prompt"][-1]]
        ids = tokenizer.apply_chat_template(chat, tokenize=True, add_generation_prompt=True, return_dict=False)
        assert len(ids) + rollout.max_turns * rollout.max_tokens <= config.model.window
    algorithm = build_algorithm(name, config)
    assert Prompts(train).batches(algorithm.prompts_per_step) >= 1, "an epoch has at least one step"
    words = {word for row in train for word in str(row["prompt"][-1]["content"]).split()}
    assert words <= set(config.model.vocabulary)


def test_overrides_lie_over_the_built_in_task(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("rollout: {n: 6}\n")
    config = load_settings("grpo", [file], ["trainer.total_training_steps=3"])
    assert (config.rollout.n, config.trainer.total_training_steps) == (6, 3)
    assert config.rollout.system_prompt == "answer"


@pytest.mark.parametrize(
    "setting",
    [
        "model.path=smollm2",
        "model.path=tiny",
        "model.vocabulary=[a, b]",
        "data.train_files=[x.parquet]",
        "rollout.protocol=search_r1",
    ],
)
def test_who_names_a_model_prompts_or_a_protocol_gets_the_algorithms_own_defaults(setting: str) -> None:
    assert load_settings("grpo", [], [setting]).rollout.n == 5
    assert load_settings("search_r1", [], [setting]).data.train_batch_size == 512


def test_an_algorithm_that_needs_data_keeps_its_own_defaults() -> None:
    assert load_settings("interpreter", [], []).rollout.protocol == "research"
    assert load_settings("sft", [], []).data.train_batch_size == 16

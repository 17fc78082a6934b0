"""``rollout.source=in_process``: Search-R1's own loop, chosen by a setting, through a whole training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from fathom.core.config import ConfigError
from fathom.trainers.config import TrainConfig
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.search_r1.generation_config import GenerationConfig

SMALL = (
    "model.hidden=16", "model.layers=1", "rollout.source=in_process", "rollout.protocol=search_r1", "rollout.n=2",
    "rollout.max_turns=1", "rollout.max_tokens=4", "data.train_batch_size=2", "data.max_prompt_length=64",
    "actor.ppo_mini_batch_size=2", "critic.ppo_mini_batch_size=2", "trainer.total_training_steps=1",
    "trainer.test_freq=0", "trainer.save_freq=0", "trainer.val_before_train=false",
)  # fmt: skip
# Nobody listens at port 9; a model with random weights hardly ever writes a whole search, and a failed one is an
# observation like another.
OWN = ("reward.manager=search_r1", "retriever.url=http://127.0.0.1:9/retrieve")


def settings(*overrides: str) -> TrainConfig:
    return load_settings("search_r1", (), [*SMALL, *overrides])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("reward.manager=service", "reward.manager"),
        ("rollout.mode=async", "rollout.mode"),
        ("rollout.replay=somewhere", "rollout.replay"),
        ("retriever.url=null", "retriever.url"),
        ("rollout.protocol=research", "rollout.protocol"),
    ],
)
def test_what_the_own_loop_cannot_do_is_refused_by_the_name_of_its_setting(change: str, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        settings(*OWN, change)


def test_the_text_after_an_invalid_action_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "invalid").write_text("\nWrong. Again.\n")
    config = settings(*OWN, f"rollout.invalid_action_file={tmp_path / 'invalid'}")
    assert GenerationConfig.from_config(config).invalid_action == "\nWrong. Again.\n"
    with pytest.raises(ConfigError, match="instruction_file"):
        settings(*OWN, f"rollout.instruction_file={tmp_path / 'invalid'}")


def test_a_training_by_settings_plays_its_episodes_without_any_service(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config = settings(*OWN, f"trainer.output={tmp_path / 'out'}")
    # No service is named: neither sampling nor weights go through one.
    place = Place({}, (tmp_path / "store").as_uri())
    outcome = Run("search_r1", config, place, lambda step, total, metrics: None, Interruption()).train()
    assert outcome.steps == 1
    assert outcome.metrics["env/number_of_actions/mean"] >= 1, "the own loop's statistics"


def test_a_learner_with_adapters_is_sampled_with_its_own_weights(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    adapters = ("model.lora_rank=4", "model.lora_alpha=64", "actor.optim.lr=0.1", "trainer.total_training_steps=3")
    config = settings(*OWN, *adapters, f"trainer.output={tmp_path / 'out'}")
    differences: list[float] = []
    gradients: list[float] = []

    def note(step: int, total: int, metrics: Mapping[str, float]) -> None:
        differences.append(metrics["mismatch/prob_diff/max"])
        gradients.append(metrics["actor/grad_norm"])

    Run("search_r1", config, Place({}, (tmp_path / "store").as_uri()), note, Interruption()).train()
    # The third step's tokens come from weights that two steps have moved far.
    assert min(gradients) > 0
    assert max(differences) < 1e-4

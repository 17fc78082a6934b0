"""Settings in layers: later over earlier, unknown keys refused with the nearest name, contradictions named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.core.config import ConfigError
from fathom.trainers.config import load_config


def test_files_lie_over_each_other_and_overrides_over_all(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("actor: {optim: {lr: 1.0e-4, grad_clip: 2.0}, ppo_epochs: 3}\nrollout: {n: 8}\n")
    second.write_text("actor: {optim: {lr: 5.0e-5}}\n")
    config = load_config([first, second], ["actor.ppo_epochs=2", "trainer.seed=11", "actor.optim.weight_decay=1e-2"])
    assert (config.actor.optim.lr, config.actor.optim.grad_clip, config.actor.optim.weight_decay) == (5e-5, 2.0, 0.01)
    assert (config.actor.ppo_epochs, config.rollout.n, config.trainer.seed) == (2, 8, 11)
    stored = tmp_path / "effective.yaml"
    stored.write_text(config.to_yaml())
    assert load_config([stored]) == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("actor.clip_ratio_lo=0.1", "unknown key actor.clip_ratio_lo .*clip_ratio_low"),
        ("actr.ppo_epochs=1", "unknown key actr .*'actor'"),
        ("actor.optim.lrr=1", "unknown key actor.optim.lrr .*'lr'"),
        ("rollout.n=0", "rollout.n"),
        ("algorithm.adv_estimator=ppo", "algorithm.adv_estimator"),
        ("reward_model.prime_norm=l2", "reward_model.prime_norm"),
        ("nonsense", "must be section.field=value"),
        ("=1", "must be section.field=value"),
        ("rollout=3", "rollout"),
        ("trainer.resume_mode=resume_path", "needs resume_path"),
    ],
)
def test_a_wrong_setting_is_named(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config([], [override])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.use_kl_in_reward=true", "actor.use_kl_loss=true"], "count KL twice"),
        (["rollout.n=1"], "rollout.n must be >= 2"),
        (["reward_model.enable=true", "reward_model.loss_type=dpo"], "needs update: reverse"),
        (["reward_model.enable=true", "algorithm.use_kl_in_reward=true"], "no place in PRIME"),
        (["data.train_batch_size=65", "actor.ppo_mini_batch_size=64"], "must divide"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config([], overrides)


def test_one_sample_is_enough_for_a_critic() -> None:
    config = load_config([], ["rollout.n=1", "algorithm.adv_estimator=gae"])
    assert not config.needs_reference
    assert load_config([], ["actor.use_kl_loss=true"]).needs_reference
    assert load_config([], ["reward_model.lambda=0.5"]).reward_model.lambda_ == 0.5


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("- a\n")
    with pytest.raises(ConfigError, match="mapping"):
        load_config([broken])
    with pytest.raises(ConfigError, match="cannot read"):
        load_config([tmp_path / "absent.yaml"])

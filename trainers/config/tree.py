"""The settings tree of all algorithms: layered YAML files, then dotted overrides; unknown keys are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ValidationError, model_validator

from fathom.core.config import ConfigError, Settings, read_file, unknown_key
from fathom.trainers.config.brpo import BrpoConfig
from fathom.trainers.config.imitation import ImitationConfig
from fathom.trainers.config.learning import ActorConfig, CriticConfig, RewardModelConfig
from fathom.trainers.config.sections import (
    AlgorithmConfig,
    CollapseConfig,
    DataConfig,
    InterpreterConfig,
    ModelConfig,
    RetrieverConfig,
    RewardConfig,
    RolloutConfig,
    TrainerConfig,
)


class TrainConfig(Settings):
    """All settings of ``fathom train``; see each section."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    rollout: RolloutConfig = RolloutConfig()
    retriever: RetrieverConfig = RetrieverConfig()
    actor: ActorConfig = ActorConfig()
    critic: CriticConfig = CriticConfig()
    reward_model: RewardModelConfig = RewardModelConfig()
    reward: RewardConfig = RewardConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    trainer: TrainerConfig = TrainerConfig()
    collapse: CollapseConfig = CollapseConfig()
    interpreter: InterpreterConfig = InterpreterConfig()
    imitation: ImitationConfig = ImitationConfig()
    brpo: BrpoConfig = BrpoConfig()

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        """Check constraints between sections."""
        if self.algorithm.use_kl_in_reward and self.actor.use_kl_loss:
            raise ValueError("algorithm.use_kl_in_reward and actor.use_kl_loss would count KL twice")
        if self.algorithm.adv_estimator not in ("gae", "reinforce") and self.rollout.n < 2:
            raise ValueError(f"algorithm.adv_estimator {self.algorithm.adv_estimator} compares: rollout.n must be >= 2")
        if found := find_reward_error(self) or find_placement_error(self) or find_update_error(self):
            raise ValueError(found)
        if self.reward_model.enable and self.algorithm.use_kl_in_reward:
            raise ValueError("algorithm.use_kl_in_reward has no place in PRIME's rewards: use actor.use_kl_loss")
        if self.reward.manager != "service" and self.rollout.protocol != "search_r1":
            raise ValueError(f"reward.manager {self.reward.manager} reads answer tags: rollout.protocol has none")
        if self.rollout.source == "in_process" and (missing := list_in_process_errors(self)):
            raise ValueError(f"rollout.source in_process {'; '.join(missing)}")
        prompts = self.data.train_batch_size
        if prompts % self.actor.ppo_mini_batch_size and prompts > self.actor.ppo_mini_batch_size:
            raise ValueError(f"actor.ppo_mini_batch_size must divide data.train_batch_size {prompts}")
        return self

    @property
    def needs_reference(self) -> bool:
        """Return whether the loss or the reward needs ``ref_log_prob``."""
        return self.actor.use_kl_loss or self.algorithm.use_kl_in_reward

    def to_yaml(self) -> str:
        """Dump the effective settings; ``load_config`` reads them back to an equal tree."""
        return yaml.safe_dump(self.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)


def find_reward_error(config: TrainConfig) -> str:
    """Return what contradicts itself in the settings from rewards to advantages; "" when nothing does."""
    algorithm = config.algorithm
    is_gdpo, components, weights = algorithm.adv_estimator == "gdpo", algorithm.gdpo_components, algorithm.gdpo_weights
    checks = (
        (is_gdpo and not components, "algorithm.gdpo_components must name the rewards that gdpo normalises"),
        (bool(weights) and len(weights) != len(components), "algorithm.gdpo_weights has not one for each component"),
        (is_gdpo and algorithm.use_kl_in_reward, "gdpo reads components, not token rewards: use actor.use_kl_loss"),
        (
            config.data.refill_draws > 0 and config.rollout.n < 2,
            "data.refill_draws replaces groups whose scores are alike: rollout.n must be >= 2",
        ),
        (
            config.rollout.importance_cap is not None
            and config.rollout.importance_floor > config.rollout.importance_cap,
            "rollout.importance_floor is above rollout.importance_cap",
        ),
    )
    return next((text for is_wrong, text in checks if is_wrong), "")


def find_placement_error(config: TrainConfig) -> str:
    """Return what contradicts itself in how learners lie on ranks; "" when nothing does."""
    trainer = config.trainer
    is_divided = max(config.actor.tensor_parallel_size, config.critic.tensor_parallel_size) > 1
    on_ray = trainer.use_ray or trainer.world_size > 1
    checks = (
        (
            is_divided and config.model.lora_rank > 0,
            "tensor_parallel_size divides no adapters: model.lora_rank must be 0",
        ),
        (is_divided and trainer.strategy != "fsdp2", "tensor_parallel_size above 1 needs trainer.strategy fsdp2"),
        (
            trainer.cpu_offload and not (trainer.strategy == "fsdp2" and on_ray),
            "trainer.cpu_offload needs trainer.strategy fsdp2, and trainer.use_ray or trainer.world_size above 1",
        ),
    )
    return next((text for is_wrong, text in checks if is_wrong), "")


def find_update_error(config: TrainConfig) -> str:
    """Return why the update's own pass cannot give the old log-probabilities, where it is to; "" when it can."""
    algorithm, actor = config.algorithm, config.actor
    if algorithm.old_log_probs != "update":
        return ""
    checks = (
        (actor.ppo_epochs > 1, "actor.ppo_epochs must be 1"),
        (actor.ppo_mini_batch_size < config.data.train_batch_size, "actor.ppo_mini_batch_size must be a whole batch"),
        (algorithm.use_kl_in_reward, "algorithm.use_kl_in_reward reads them before it: use actor.use_kl_loss"),
        (config.reward_model.enable, "PRIME's reward model reads them before it"),
        (config.rollout.importance_cap is not None, "rollout.importance_cap reads them before it"),
    )
    return next((f"algorithm.old_log_probs update: {text}" for is_wrong, text in checks if is_wrong), "")


def list_in_process_errors(config: TrainConfig) -> list[str]:
    """Return what Search-R1's own loop cannot do with these settings."""
    checks = (
        (config.rollout.protocol == "search_r1", "plays tags: rollout.protocol must be search_r1"),
        (config.rollout.mode == "sync", "samples when it is asked: rollout.mode must be sync"),
        (config.reward.manager != "service", "grades nothing: reward.manager must be search_r1 or prime"),
        (config.retriever.url is not None, "searches by retriever.url, which is not set"),
        (config.rollout.replay is None, "plays anew: rollout.replay must not be set"),
    )
    return [text for is_met, text in checks if not is_met]


def load_config(files: Sequence[Path] = (), overrides: Sequence[str] = ()) -> TrainConfig:
    """Load the settings: defaults, then each file over the previous, then ``section.field=value`` overrides.

    Raises ``ConfigError`` naming key and origin: for an unreadable file, an unknown key (with the nearest known one),
    an invalid value, or contradictory settings.
    """
    return build_config(merge_layers(files, overrides))


def build_config(values: Mapping[str, Any]) -> TrainConfig:
    """Build the settings from merged values; raises ``ConfigError`` naming the key."""
    try:
        return TrainConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path or 'settings'}: {first['msg']}", metadata={"field": path}) from error


def merge_layers(files: Sequence[Path] = (), overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Merge files and overrides without the defaults; raises ``ConfigError`` like ``load_config``."""
    values: dict[str, Any] = {}
    # Keys are checked per layer, so that an error names the file it comes from.
    for file in files:
        content = read_file(file)
        check_keys(TrainConfig, content, (), str(file))
        merge(values, content)
    for pair in overrides:
        path, sign, text = pair.partition("=")
        if not sign or not path:
            raise ConfigError(f"{pair}: must be section.field=value", metadata={"field": pair})
        content = nest_value(path.split("."), parse_number(text))
        check_keys(TrainConfig, content, (), "overrides")
        merge(values, content)
    return values


def parse_number(text: str) -> Any:
    """Parse a YAML value; "1e-3", which YAML reads as text, becomes a number."""
    value = yaml.safe_load(text)
    try:
        # YAML 1.1 wants a dot in a float: "1e-3" without one is text there.
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def nest_value(path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return {"a": {"b": value}} for the path ("a", "b")."""
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Merge a layer in place: sections recursively, all other values replaced."""
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def check_keys(model: type[BaseModel], content: Mapping[str, Any], path: tuple[str, ...], origin: str) -> None:
    """Raise ``ConfigError`` for a key that ``model`` does not have, at any depth."""
    known = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    for key, value in content.items():
        where = ".".join((*path, str(key)))
        if key not in known:
            raise ConfigError(unknown_key(where, origin, known), metadata={"field": where})
        section = known[key]
        if isinstance(section, type) and issubclass(section, BaseModel) and isinstance(value, Mapping):
            check_keys(section, value, (*path, str(key)), origin)

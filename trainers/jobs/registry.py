"""Registry of training algorithms: class and default settings by name. Imports torch only on load."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fathom.core.errors import NotFound, NotImplementedYet
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.readers import check_settings_are_read, drop_unread
from fathom.trainers.config.tree import build_config, merge, merge_layers

FOLDER = Path(__file__).parents[1]
BUILT_IN_TASK = FOLDER / "config" / "presets" / "comparison.yaml"
"""Settings of the built-in task (``fathom.trainers.data.comparison``) for a tiny model."""


@dataclass(frozen=True)
class Algorithm:
    """A training algorithm: ``implementation`` is "module:Class", ``defaults`` a YAML file below the user's own.

    The class has the hooks of ``algorithms.algorithm``. ``from_files`` marks algorithms that learn from exported
    episodes alone, use no service and are trainers themselves; ``needs_data`` those that cannot learn from the built-in
    task.
    """

    name: str
    implementation: str
    defaults: Path
    from_files: bool = False
    needs_data: bool = False

    def load(self) -> Any:
        """Import the class; raises ``NotImplementedYet`` when its module is not part of this distribution."""
        module, _, name = self.implementation.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ModuleNotFoundError, AttributeError) as error:
            # A module of ours that is missing; a missing library is another matter.
            if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("fathom."):
                raise
            raise NotImplementedYet(
                f"train {self.name}", f"{self.implementation} is not part of this distribution"
            ) from error


def algorithm(
    name: str, implementation: str, defaults: str = "", *, from_files: bool = False, needs_data: bool = False
) -> Algorithm:
    file = FOLDER / (defaults or f"config/presets/{name}.yaml")
    return Algorithm(name, implementation, file, from_files, needs_data or from_files)


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        one.name: one
        for one in (
            algorithm("sft", "fathom.trainers.algorithms.sft:SftTrainer", from_files=True),
            algorithm("dpo", "fathom.trainers.algorithms.dpo:DpoTrainer", from_files=True),
            algorithm("ppo", "fathom.trainers.algorithms.ppo:PPO"),
            algorithm("grpo", "fathom.trainers.algorithms.grpo:GRPO"),
            algorithm("rloo", "fathom.trainers.algorithms.rloo:RLOO"),
            # The loop's own hooks: their presets alone make these what they are.
            *(
                algorithm(name, "fathom.trainers.algorithms.ppo:PPO")
                for name in ("dr_grpo", "dapo", "gspo", "cispo", "reinforce_pp", "gdpo")
            ),
            algorithm(
                "prime",
                "fathom.trainers.prime.prime_ray_trainer:PRIME",
                "prime/config/prime_trainer.yaml",
            ),
            algorithm("search_r1", "fathom.trainers.algorithms.ppo:PPO", "search_r1/config/ppo.yaml"),
            algorithm("brpo", "fathom.trainers.algorithms.brpo:BRPO"),
            algorithm("interpreter", "fathom.trainers.algorithms.code_interpreter:Interpreter", needs_data=True),
        )
    }
)


def find(name: str) -> Algorithm:
    """Return the algorithm of that name; raises ``NotFound`` with the available names."""
    if name not in ALGORITHMS:
        raise NotFound("algorithm", name, sorted(ALGORITHMS))
    return ALGORITHMS[name]


def build_algorithm(name: str, config: TrainConfig) -> Any:
    """Return the named algorithm with these settings; raises ``NotFound``, and ``InvalidField`` naming a setting."""
    return find(name).load()(config)


def load_settings(name: str, files: Sequence[Path], overrides: Sequence[str]) -> TrainConfig:
    """Load settings: the algorithm's defaults, those of the built-in task if it is used, the files, the overrides.

    Raises ``ConfigError`` naming the key, also of a given setting that this algorithm or source would not read.
    """
    chosen, given = find(name), merge_layers(files, overrides)
    values = merge_layers([chosen.defaults] if chosen.defaults.exists() else [])
    if not chosen.needs_data and is_built_in_task(given):
        # Without it the defaults, which are for real models, would not fit: the protocol's instruction alone is longer
        # than a tiny model's window, and a step wants more prompts than the task has.
        task, both = merge_layers([BUILT_IN_TASK]), copy.deepcopy(values)
        merge(both, task)
        # It is one file for all algorithms: each takes what it reads.
        merge(values, drop_unread(name, build_config(both), task))
    without = build_config(values)
    merge(values, given)
    config = build_config(values)
    check_settings_are_read(name, config, given, without)
    return config


def is_built_in_task(settings: Mapping[str, Any]) -> bool:
    """Return whether the settings name neither prompts, model nor protocol: even "tiny", when named, is their own."""
    data, model, rollout = (settings.get(section, {}) for section in ("data", "model", "rollout"))
    # The task's instruction and stop strings belong to Search-R1's protocol; the planner refuses them with another.
    return not (data.get("train_files") or {"path", "vocabulary"} & model.keys() or "protocol" in rollout)

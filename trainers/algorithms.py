"""Registry of training algorithms: trainer class and default settings by name. Imports torch only on load."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fathom.errors import NotFound, NotImplementedYet
from trainers.config import TrainConfig, load_config

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Algorithm:
    """A training algorithm: ``trainer`` is "module:Class", ``defaults`` a YAML file below the user's own.

    ``from_files`` marks algorithms that learn from exported episodes alone and use no service.
    """

    name: str
    trainer: str
    defaults: Path
    from_files: bool = False

    def load(self) -> Any:
        """Import the trainer's class; raises ``NotImplementedYet`` when its module is not part of this distribution."""
        module, _, name = self.trainer.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ModuleNotFoundError, AttributeError) as error:
            # A module of ours that is missing; a missing library is another matter.
            if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("trainers"):
                raise
            raise NotImplementedYet(f"train {self.name}", f"{self.trainer} is not part of this distribution") from error


def algorithm(name: str, trainer: str, defaults: str = "", *, from_files: bool = False) -> Algorithm:
    return Algorithm(name, trainer, FOLDER / (defaults or f"config/presets/{name}.yaml"), from_files)


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        one.name: one
        for one in (
            algorithm("sft", "trainers.sft:SftTrainer", from_files=True),
            algorithm("dpo", "trainers.dpo:DpoTrainer", from_files=True),
            algorithm("ppo", "trainers.ppo:RayPPOTrainer"),
            algorithm("grpo", "trainers.grpo:GRPOTrainer"),
            algorithm("rloo", "trainers.rloo:RLOOTrainer"),
            algorithm("prime", "trainers.prime.prime_ray_trainer:RayPRIMETrainer", "prime/config/prime_trainer.yaml"),
            algorithm("search_r1", "trainers.ppo:RayPPOTrainer", "search_r1/config/ppo.yaml"),
            algorithm("brpo", "trainers.comparing:BRPOTrainer"),
            algorithm("interpreter", "trainers.interpreter:InterpreterTrainer"),
        )
    }
)


def find(name: str) -> Algorithm:
    """Return the algorithm of that name; raises ``NotFound`` with the available names."""
    if name not in ALGORITHMS:
        raise NotFound("algorithm", name, sorted(ALGORITHMS))
    return ALGORITHMS[name]


def configured(name: str, files: Sequence[Path], overrides: Sequence[str]) -> TrainConfig:
    """Load settings: the algorithm's defaults, then the files, then the overrides.

    Raises ``ConfigError`` naming the key.
    """
    defaults = find(name).defaults
    return load_config([*([defaults] if defaults.exists() else []), *files], overrides)

"""A training's own reads, recorded while it runs: what the table of readers promises of it is indeed looked at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.core.config import Settings
from fathom.trainers.config.readers import READERS
from fathom.trainers.config.tree import TrainConfig
from fathom.trainers.jobs.launch import Interruption, Place, Run
from tests.unit.trainers.search_r1.test_in_process import OWN, settings

pytestmark = pytest.mark.slow
CONFIG = "fathom.trainers.config"
# Looked at only by what this run does not come to: files, adapters, a resume by name, batches by tokens, a cosine
# schedule, collapsing steps, a length by epochs; and what the settings' own checks have looked at for this source.
NOT_REACHED = {
    "data.prompt_key", "data.val_files", "model.cache", "model.lora_alpha", "trainer.resume_path",
    "actor.ppo_max_token_len_per_gpu", "critic.ppo_max_token_len_per_gpu", "actor.optim.min_lr_ratio",
    "critic.optim.min_lr_ratio", "collapse.patience", "trainer.total_epochs",
    "rollout.mode", "rollout.protocol", "rollout.replay",
}  # fmt: skip


@pytest.fixture
def recorded_reads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The dotted names of the settings that are read, but for the reads of the settings' own checks."""
    found, paths, alive = set[str](), dict[int, str](), list[Any]()

    def record(self: Any, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if not name.startswith("_") and name in type(self).model_fields:
            path = paths.get(id(self), "" if isinstance(self, TrainConfig) else None)
            if path is not None and not sys._getframe(1).f_globals["__name__"].startswith(CONFIG):
                info = type(self).model_fields[name]
                found.add(f"{path}{info.alias or name}")
            if path is not None and isinstance(value, Settings):
                # Kept alive: its id must not come to mean another section.
                alive.append(value)
                paths[id(value)] = f"{path}{name}."
        return value

    monkeypatch.setattr(Settings, "__getattribute__", record, raising=False)
    return found


def test_a_training_looks_at_every_setting_that_it_is_said_to_read(recorded_reads: set[str], tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config = settings(*OWN, f"trainer.output={tmp_path / 'out'}")
    recorded_reads.clear()
    place = Place({}, (tmp_path / "store").as_uri())
    Run("search_r1", config, place, lambda step, total, metrics: None, Interruption()).train()
    promised = {setting for one in READERS if one.applies("search_r1", config) for setting in one.settings}
    assert promised - recorded_reads <= NOT_REACHED, sorted(promised - recorded_reads - NOT_REACHED)
    assert {
        "retriever.topk",
        "rollout.max_obs_length",
        "algorithm.no_think_rl",
        "data.max_prompt_length",
    } <= recorded_reads

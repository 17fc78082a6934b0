"""A training's own reads, recorded while it runs: each setting is read by the module that the table of readers names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fathom.api.reward.v1 import reward_pb2
from fathom.core.config import Settings
from fathom.trainers.config.readers import READERS
from fathom.trainers.config.tree import TrainConfig
from fathom.trainers.jobs import launch
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.registry import ALGORITHMS, load_settings
from tests.unit.trainers.algorithms.test_sft_dpo import WORDS, files
from tests.unit.trainers.jobs.test_leaks import write_prompts
from tests.unit.trainers.rollouts.scripted_planner import ScriptedClients, ScriptedPlanner
from tests.unit.trainers.search_r1.test_in_process import OWN, SMALL

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
PACKAGE = "fathom.trainers."
Reads = set[tuple[str, str]]
"""Modules below ``trainers``, each with a setting that it has read."""
# Of models that come as packages, and of a resume by name: no run here comes to either.
NOT_REACHED = {"model.cache", "trainer.resume_path"}
# Search-R1's own loop is alone with what it can do, which the settings' own check has seen to.
CHECKED_BEFORE = {"rollout.mode", "rollout.protocol", "rollout.replay"}
# A model whose words are the ids of the scripted planner's trajectories; two steps, then the end of the epoch.
TINY = ("model.path=tiny", "model.hidden=16", "model.layers=1", "trainer.test_freq=1")
PLAYED = (*TINY, f"model.vocabulary=[{','.join(f'w{n}' for n in range(100))}]", "rollout.n=2",
          "data.train_batch_size=12", "actor.ppo_mini_batch_size=12")  # fmt: skip
# What a plain run does not come to: schedules, batches by tokens, adapters, suspicious steps.
OTHER = ("actor.optim.lr_scheduler_type=cosine", "actor.use_dynamic_bsz=true", "model.lora_rank=2")
ASYNC = ("rollout.mode=async", "rollout.staleness=1", "rollout.importance_cap=2", "algorithm.bypass_mode=false")
SUSPICIOUS = ("collapse.window=1", "collapse.entropy_ceiling=0.001")
CRITIC = ("critic.optim.lr_scheduler_type=cosine", "critic.use_dynamic_bsz=true")
PHI = ("reward_model.optim.lr_scheduler_type=cosine", "reward_model.use_dynamic_bsz=true")
# Its episodes run cells and need tables: a stack of services.
WITH_SERVICES = {"interpreter"}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Record what is read of settings from now on."""
    found, paths, alive = Reads(), dict[int, str](), list[Any]()

    def record(self: Any, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if not name.startswith("_") and name in type(self).model_fields:
            path = paths.get(id(self), "" if isinstance(self, TrainConfig) else None)
            if path is not None:
                module = sys._getframe(1).f_globals["__name__"].removeprefix(PACKAGE).replace(".", "/")
                found.add((f"{module}.py", f"{path}{type(self).model_fields[name].alias or name}"))
            if path is not None and isinstance(value, Settings):
                # Kept alive: its id must not come to mean another section.
                alive.append(value)
                paths[id(value)] = f"{path}{name}."
        return value

    monkeypatch.setattr(Settings, "__getattribute__", record, raising=False)
    return found


class ScriptedReward:
    """A judge at the client's edge, to whom all answers are equally good."""

    async def judge_pairs(self, request: reward_pb2.JudgePairsRequest, timeout_s: float) -> Any:
        even = reward_pb2.Judgement(grade=reward_pb2.GRADE_EVEN)
        return reward_pb2.JudgePairsResponse(judgements=[even] * len(request.pairs))


def train(name: str, settings: tuple[str, ...], folder: Path, reads: Reads) -> set[tuple[str, str]]:
    """Train, and return who should have read which setting and has not."""
    config = load_settings(name, [], [*settings, f"trainer.output={folder / 'out'}"])
    # The settings' own checks have read nearly all of them by now, which makes no difference to a training.
    reads.clear()
    Run(name, config, Place({}, (folder / "store").as_uri()), lambda step, total, metrics: None, Interruption()).train()
    promised = {(one.module, setting) for one in READERS if one.applies(name, config) for setting in one.settings}
    return {(module, setting) for module, setting in promised - reads if setting not in NOT_REACHED}


def vary(name: str, folder: Path) -> list[tuple[str, ...]]:
    """Return the settings of two trainings that together come to all that the algorithm may read."""
    if ALGORITHMS[name].from_files:
        file = files(folder)[name]
        plain = (*TINY, f"model.vocabulary=[{','.join(WORDS)}]", f"data.train_files=[{file}]",
                 f"data.val_files=[{file}]", "data.train_batch_size=4", "trainer.save_freq=1")  # fmt: skip
        other = tuple(one for one in OTHER if name != "dpo" or "use_dynamic_bsz" not in one)
        return [plain, (*plain, *other)]
    file = write_prompts(folder / "prompts.parquet", [f"Question {n}?" for n in range(24)])
    # Of its preset a step has four times the prompts, and another training 1,005 steps.
    few = {"prime": ("data.oversample_factor=1",), "search_r1": ("trainer.total_training_steps=1",)}.get(name, ())
    more = {"ppo": CRITIC, "search_r1": CRITIC, "prime": PHI}.get(name, ())
    data = (f"data.train_files=[{file}]", f"data.val_files=[{file}]")
    return [(*PLAYED, *few), (*PLAYED, *few, *data, *OTHER, *ASYNC, *SUSPICIOUS, *more)]


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - WITH_SERVICES))
def test_a_training_reads_every_setting_that_it_is_said_to_read(
    name: str, reads: Reads, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clients: Any = ScriptedClients(ScriptedPlanner())
    clients.reward = ScriptedReward()
    monkeypatch.setattr(launch, "connect", lambda *given, **more: clients)
    missing = []
    for place, settings in enumerate(vary(name, tmp_path)):
        missing.append(train(name, settings, tmp_path / str(place), reads))
    plain, other = missing
    # The preset of Search-R1 counts steps, so that nobody asks for epochs.
    excused = {"trainer.total_epochs"} if name == "search_r1" else set()
    assert {setting for _, setting in plain & other} <= excused, sorted(plain & other)


def test_search_r1s_own_loop_reads_what_it_is_said_to_read(reads: Reads, tmp_path: Path) -> None:
    plain = (*SMALL, *OWN, "model.vocabulary=[a,b,c]")
    file = write_prompts(tmp_path / "prompts.parquet", ["Question 1?", "Question 2?"])
    data = (f"data.train_files=[{file}]", f"data.val_files=[{file}]")
    missing = train("search_r1", plain, tmp_path / "0", reads)
    assert ("search_r1/generation_config.py", "retriever.topk") in reads
    missing &= train("search_r1", (*plain, *data, *OTHER, *SUSPICIOUS, *CRITIC), tmp_path / "1", reads)
    assert {setting for _, setting in missing} <= CHECKED_BEFORE | {"trainer.total_epochs"}, sorted(missing)

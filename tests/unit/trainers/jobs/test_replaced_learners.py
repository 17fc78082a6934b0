"""A learner that dies in the middle of a training: all are built anew, and go on from the last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fathom.trainers.config import TrainConfig
from fathom.trainers.interfaces import Role
from fathom.trainers.jobs import assembly, launch
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.learners.ranks.groups import RankDied
from fathom.trainers.learners.workers import ActorWorker
from tests.support.training.metrics import read_lines
from tests.unit.trainers.jobs.test_refused_trainings import PLAYED
from tests.unit.trainers.rollouts.scripted_planner import ScriptedClients, ScriptedPlanner

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS = 3
SAVED = (*PLAYED, f"trainer.total_training_steps={STEPS}", "trainer.save_freq=1")
COMPARED = ("actor/pg_loss", "actor/grad_norm", "actor/entropy", "critic/score/mean")


class ActorThatDiesOnce(ActorWorker):
    """The policy's learner, which dies in its second update, once in a training."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config)
        self.mark, self.updates = config.trainer.output / "died", 0

    def update_policy(self, data: Any) -> dict[str, float]:
        self.updates += 1
        found = super().update_policy(data)
        # After its optimiser step: what it has learnt of the step is lost with it, and must not be learnt twice.
        if self.updates == 2 and not self.mark.exists():
            self.mark.touch()
            raise RankDied("ActorWorker, rank 1", "died in update_policy")
        return found


def train(output: Path, monkeypatch: pytest.MonkeyPatch, *settings: str) -> Run:
    clients = ScriptedClients(ScriptedPlanner())
    monkeypatch.setattr(launch, "connect", lambda *given, **more: clients)
    config = load_settings("grpo", [], [*SAVED, f"trainer.output={output}", *settings])
    place = Place({}, (output.parent / f"{output.name}-store").as_uri())
    run = Run("grpo", config, place, lambda step, total, metrics: None, Interruption())
    assert run.train().steps == STEPS
    return run


def test_a_learner_that_died_is_replaced_and_the_steps_are_those_of_a_quiet_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(tmp_path / "quiet", monkeypatch).restarts == 0
    monkeypatch.setattr(assembly, "WORKERS", {**assembly.WORKERS, Role.ACTOR: ActorThatDiesOnce})
    run = train(tmp_path / "struck", monkeypatch)
    assert run.restarts == 1
    assert any("rank 1: died in update_policy" in note for note in run.notes)
    quiet, struck = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("quiet", "struck"))
    assert list(struck) == list(quiet) == [1, 2, 3]
    for step, metrics in quiet.items():
        assert metrics["actor/grad_norm"] > 0
        assert [struck[step].get(name) for name in COMPARED] == [metrics.get(name) for name in COMPARED], step


def test_a_training_that_may_not_go_on_from_its_checkpoint_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "WORKERS", {**assembly.WORKERS, Role.ACTOR: ActorThatDiesOnce})
    with pytest.raises(RankDied, match="rank 1: died in update_policy"):
        train(tmp_path / "struck", monkeypatch, "trainer.resume_mode=disable")

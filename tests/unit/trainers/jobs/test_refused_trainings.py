"""Whole trainings that must not begin: their output's name or their model's belongs to another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import Conflict, FailedPrecondition
from fathom.trainers.jobs import launch
from fathom.trainers.jobs.launch import Interruption, Outcome, Place, Run
from fathom.trainers.jobs.ray_job import WRONG, exit_status
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.rollouts.lease import Holder, acquire, read_newest
from fathom.transport.store import open_store
from tests.unit.trainers.rollouts.scripted_planner import ScriptedClients, ScriptedPlanner
from tests.unit.trainers.search_r1.test_in_process import OWN, SMALL

pytestmark = pytest.mark.usefixtures("one_thread")
WORDS = ",".join(f"w{n}" for n in range(100))
TINY = (
    "model.path=tiny", f"model.vocabulary=[{WORDS}]", "model.hidden=16", "model.layers=1",
    "data.train_batch_size=2", "trainer.total_training_steps=1",
)  # fmt: skip
# A training that were let in by mistake would wait for policy: not for ten minutes.
PLAYED = (*TINY, "model.name=small", "rollout.n=2", "actor.ppo_mini_batch_size=2", "trainer.val_before_train=false",
          "rollout.publish_timeout_s=1")  # fmt: skip


def train(name: str, output: Path, store: Path, settings: Sequence[str]) -> Outcome:
    config = load_settings(name, [], [*settings, f"trainer.output={output}"])
    return Run(name, config, Place({}, store.as_uri()), lambda step, total, metrics: None, Interruption()).train()


def write_rows(path: Path) -> Path:
    rows = [{"id": f"r{n}", "token_ids": [2, 8 + n, 9, 3], "loss_mask": [0, 0, 1, 1]} for n in range(4)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["sft", "search_r1"])
def test_other_settings_under_the_name_of_a_training_are_refused(name: str, tmp_path: Path) -> None:
    """As it was found: the second one took up the first one's checkpoint, made no step and ended with status 0."""
    own = (*TINY, f"data.train_files=[{write_rows(tmp_path / 'rows.jsonl')}]") if name == "sft" else (*SMALL, *OWN)
    assert train(name, tmp_path / "a" / "run", tmp_path / "store", own).steps == 1
    with pytest.raises(FailedPrecondition, match="training 'run' was begun with other settings") as refused:
        train(name, tmp_path / "b" / "run", tmp_path / "store", [*own, "actor.optim.lr=0.5", "trainer.seed=99"])
    assert "trainer.seed was 7, is 99" in refused.value.message
    assert refused.value.metadata["field"] == "trainer.output"
    assert exit_status(refused.value) == WRONG, "a job is not tried again"
    assert not (tmp_path / "b" / "run" / "model").exists(), "the first one's weights are not given out as the second's"
    # The same training on another disk has done its work already.
    assert train(name, tmp_path / "c" / "run", tmp_path / "store", own).metrics == {}


def use_services(monkeypatch: pytest.MonkeyPatch, planner: ScriptedPlanner) -> ScriptedClients:
    clients = ScriptedClients(planner)
    monkeypatch.setattr(launch, "connect", lambda *given, **more: clients)
    return clients


def test_a_name_that_a_training_elsewhere_holds_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    elsewhere = replace(Holder.of_this_process("run-a"), machine="pod-7")
    first = asyncio.run(acquire(store, "small", elsewhere))

    async def meanwhile(seconds: float) -> None:
        await first.renew()

    monkeypatch.setattr(launch, "acquire", partial(acquire, sleep=meanwhile))
    clients = use_services(monkeypatch, ScriptedPlanner())
    with pytest.raises(Conflict, match=r"'small' is being trained by training 'run-a' .* on pod-7") as refused:
        train("grpo", tmp_path / "run-b", tmp_path / "store", PLAYED)
    assert refused.value.metadata == {"field": "model.name", "training": "run-a"}
    first.check()
    assert (clients.policy.version, clients.planner.requests) == (0, []), "nothing was published, nothing played"
    assert not asyncio.run(store.keys("trainings/")), "nor shown on the page"


class WatchingPlanner(ScriptedPlanner):
    """Notes who holds the model's name when episodes are asked for."""

    def __init__(self, store: Path) -> None:
        super().__init__()
        self.store, self.holders = store, list[tuple[str, bool]]()

    async def rollout(self, request: pb.RolloutRequest, **more: Any) -> AsyncGenerator[pb.RolloutResponse, None]:
        _, holder = await read_newest(open_store(self.store.as_uri()), request.model)
        assert holder is not None, "nobody holds the name of a model that is being trained"
        self.holders.append((holder.training, holder.is_released))
        async for response in super().rollout(request, **more):
            yield response


def test_a_training_holds_the_name_and_publishes_as_its_holder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planner = WatchingPlanner(tmp_path / "store")
    clients = use_services(monkeypatch, planner)
    assert train("grpo", tmp_path / "run-b", tmp_path / "store", PLAYED).steps == 1
    assert set(planner.holders) == {("run-b", False)}
    assert clients.policy.version == 2, "the start and one step"
    store = open_store((tmp_path / "store").as_uri())
    for version in (1, 2):
        claim = json.loads(asyncio.run(store.get(f"weights/small/{version}/claim.json")))
        assert claim["training"] == "run-b", "who else takes the number is told by whom it is held"
    holder = asyncio.run(read_newest(store, "small"))[1]
    assert holder is not None
    assert holder.is_released, "the next training need not wait"

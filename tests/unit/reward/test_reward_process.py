"""ScoreProcess and UpdateModel on a tiny model: alignment, steps, idempotency, replicas, what is refused."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import Conflict, CorruptData, FailedPrecondition, InvalidField, MissingExtra, NotFound
from fathom.services.reward.config import Config
from fathom.services.reward.process.settings import ProcessSettings
from fathom.trainers.learners import tiny
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.refs import to_ref
from tests.support.waiting import settle
from tests.unit.reward.house import House

CALL = Call("req_1")
WORDS = [f"w{number}" for number in range(16)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("phi")
    tiny.save(tiny.build_model(WORDS, 16, 1, 0), tiny.build_tokenizer(WORDS), target)
    return target


def config(folder: Path | None, **settings: Any) -> Config:
    return Config(process=ProcessSettings(model=folder, **settings))


def request(tokens: tuple[int, ...] = (9, 12, 9, 13)) -> pb.ScoreProcessRequest:
    """Two groups of two: answers that end with the first of ``tokens`` are right."""
    items = [
        pb.ProcessItem(token_ids=[10, 11, 14 + index % 2, token], mask=[0, 0, 1, 1], outcome=float(token == tokens[0]))
        for index, token in enumerate(tokens)
    ]
    items[3].token_ids.append(15)
    items[3].mask.append(0)
    return pb.ScoreProcessRequest(items=items, group_size=2)


async def put(store: MemoryStore, batch: pb.ScoreProcessRequest, key: str = "batches/1") -> common.ObjectRef:
    return to_ref(await store.put(key, batch.SerializeToString()))


async def test_scores_are_aligned_with_tokens_and_zero_before_the_first_step(folder: Path) -> None:
    """phi begins as its reference, so that it says nothing yet."""
    answer = await House(config(folder)).servicer.ScoreProcess(request(), CALL)
    assert [len(score.rewards) for score in answer.scores] == [4, 4, 4, 5]
    assert all(reward == 0 for score in answer.scores for reward in score.rewards)
    assert answer.model_version == 0
    assert answer.metrics["reward_model/dpo_acc"] == 0.0


@pytest.mark.parametrize("loss", ["ce", "dpo", "bon_acc", "bon_rm"])
async def test_steps_teach_it_which_token_is_right(folder: Path, loss: str) -> None:
    house = House(config(folder, lr=0.01, loss=loss, beta=0.5, norm="none", include_last_token=True))
    batch = await put(house.store, request())
    losses = []
    for number in range(12):
        answer = await house.servicer.UpdateModel(pb.UpdateModelRequest(request_id=f"s{number}", batch=batch), CALL)
        losses.append(answer.metrics["reward_model/dpo_loss"])
        assert answer.model_version == number + 1
    assert losses[-1] < losses[0]
    scored = await house.servicer.ScoreProcess(request(), CALL)
    assert scored.model_version == 12
    assert scored.metrics["reward_model/dpo_acc"] == 1.0
    good, bad = scored.scores[0].rewards, scored.scores[1].rewards
    assert good[3] > bad[3]
    assert good[:2] == [0, 0]
    assert scored.scores[3].rewards[4] == 0, "an observation earns nothing"


async def test_a_request_id_takes_one_step_and_replicas_share_one_truth(folder: Path) -> None:
    one = House(config(folder, lr=0.01))
    two = House(config(folder, lr=0.01), store=one.store, bus=one.bus)
    batch = await put(one.store, request())
    first = await one.servicer.UpdateModel(pb.UpdateModelRequest(request_id="a", batch=batch), CALL)
    assert await two.servicer.UpdateModel(pb.UpdateModelRequest(request_id="a", batch=batch), CALL) == first
    mine, other = [await house.servicer.ScoreProcess(request(), CALL) for house in (one, two)]
    assert mine == other
    assert mine.model_version == 1
    assert any(reward for score in mine.scores for reward in score.rewards)
    later = await two.servicer.UpdateModel(pb.UpdateModelRequest(request_id="b", batch=batch), CALL)
    straight = House(config(folder, lr=0.01))
    batch_there = await put(straight.store, request())
    for name in ("a", "b"):
        whole = await straight.servicer.UpdateModel(pb.UpdateModelRequest(request_id=name, batch=batch_there), CALL)
    assert dict(later.metrics) == dict(whole.metrics), "a replica goes on exactly, optimiser included"
    other_batch = await put(one.store, request((9, 9, 12, 13)), "batches/2")
    with pytest.raises(Conflict, match="another batch"):
        await one.servicer.UpdateModel(pb.UpdateModelRequest(request_id="a", batch=other_batch), CALL)


async def test_of_two_steps_at_once_one_is_told_and_nothing_is_lost(folder: Path) -> None:
    one = House(config(folder))
    two = House(config(folder), store=one.store, bus=one.bus)
    batch = await put(one.store, request())
    asked = [
        house.servicer.UpdateModel(pb.UpdateModelRequest(request_id=name, batch=batch), CALL)
        for house, name in ((one, "a"), (two, "b"))
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "UpdateModelResponse"]
    versions = [(await house.servicer.ScoreProcess(request(), CALL)).model_version for house in (one, two)]
    assert versions == [1, 1]


async def test_old_checkpoints_go_and_a_lost_caller_leaves_a_whole_step(folder: Path) -> None:
    house = House(config(folder, kept_versions=2))
    batch = await put(house.store, request())
    for number in range(4):
        await house.servicer.UpdateModel(pb.UpdateModelRequest(request_id=f"s{number}", batch=batch), CALL)
    assert len(await house.store.list("reward/process/")) == 2
    gone = asyncio.create_task(house.servicer.UpdateModel(pb.UpdateModelRequest(request_id="gone", batch=batch), CALL))
    await settle()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert house.service.close is not None
    await house.service.close()
    version = (await house.servicer.ScoreProcess(request(), CALL)).model_version
    assert version in (4, 5)
    assert len(await house.store.list("reward/process/")) == 2


async def test_a_corrupt_checkpoint_is_named(folder: Path) -> None:
    one = House(config(folder))
    batch = await put(one.store, request())
    await one.servicer.UpdateModel(pb.UpdateModelRequest(request_id="a", batch=batch), CALL)
    (stored,) = await one.store.list("reward/process/")
    await one.store.put(stored.key, b"nothing")
    two = House(config(folder), store=one.store, bus=one.bus)
    with pytest.raises(CorruptData, match=stored.key):
        await two.servicer.ScoreProcess(request(), CALL)


def change_request(**values: Any) -> pb.ScoreProcessRequest:
    batch = request()
    for name, value in values.items():
        if isinstance(value, list):
            del getattr(batch.items[1], name)[:]
            getattr(batch.items[1], name).extend(value)
        else:
            setattr(batch.items[1], name, value)
    return batch


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (pb.ScoreProcessRequest(group_size=1), "items"),
        (pb.ScoreProcessRequest(items=request().items, group_size=3), "group_size"),
        (pb.ScoreProcessRequest(items=request().items), "group_size"),
        (change_request(token_ids=[1]), "items[1].token_ids"),
        (change_request(token_ids=[10, 11, 12, 999]), "items[1].token_ids"),
        (change_request(token_ids=[10, 11, 12, -1]), "items[1].token_ids"),
        (change_request(mask=[0, 1]), "items[1].mask"),
        (change_request(mask=[0, 0, 2, 1]), "items[1].mask"),
        (change_request(mask=[1, 0, 1, 1]), "items[1].mask"),
        (change_request(mask=[0, 0, 0, 0]), "items[1].mask"),
        (change_request(outcome=1.5), "items[1].outcome"),
        (change_request(outcome=float("nan")), "items[1].outcome"),
    ],
)
async def test_bad_items_are_named(folder: Path, bad: pb.ScoreProcessRequest, field: str) -> None:
    house = House(config(folder))
    with pytest.raises(InvalidField) as refused:
        await house.servicer.ScoreProcess(bad, CALL)
    assert refused.value.field == field


async def test_a_batch_that_is_none_is_refused(folder: Path) -> None:
    servicer = (house := House(config(folder))).servicer
    with pytest.raises(NotFound):
        await servicer.UpdateModel(pb.UpdateModelRequest(request_id="a", batch={"key": "batches/none"}), CALL)
    ref = to_ref(await house.store.put("batches/odd", b"\xff\xff\xff"))
    with pytest.raises(CorruptData, match="ScoreProcessRequest"):
        await servicer.UpdateModel(pb.UpdateModelRequest(request_id="a", batch=ref), CALL)
    with pytest.raises(InvalidField, match="batch"):
        await servicer.UpdateModel(pb.UpdateModelRequest(request_id="a"), CALL)


async def test_without_model_or_torch_it_says_what_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(FailedPrecondition, match=r"reward\.process\.model"):
        await House().servicer.ScoreProcess(request(), CALL)
    with pytest.raises(CorruptData, match=str(tmp_path)):
        await House(config(tmp_path)).servicer.ScoreProcess(request(), CALL)
    for name in [name for name in sys.modules if name.startswith("fathom.domain.process_reward.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"fathom\[reward\]"):
        await House(config(folder)).servicer.ScoreProcess(request(), CALL)

"""Published weights do not pile up: the newest stay, what lanes serve stays, and what either needs stays whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from fathom.core.call import Lane
from fathom.core.errors import NotFound
from fathom.domain.weights.manifest import fetch, publish
from fathom.domain.weights.serving import Serving, key_of
from fathom.services.policy.config import Config, RulesModel, TransformersModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.serving.retention import Retention
from fathom.transport.bus import open_bus
from fathom.transport.bus.streams import SERVING
from fathom.transport.store.base import StoredObject
from fathom.transport.store.memory import MemoryStore
from tests.integration.policy.weights.models import tiny_model
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny") / "m", 1)


@pytest.fixture
async def retention() -> AsyncIterator[Retention]:
    store = MemoryStore()
    bus = await open_bus("memory://", store)
    await bus.declare()
    # Two of the newest stay; with an age of 0 s no version is too young to go.
    yield Retention(store, bus.bucket(SERVING), 2, 0.0, structlog.get_logger())
    await bus.close()


async def publish_versions(
    retention: Retention, folder: Path, versions: int, model: str = "tiny"
) -> list[StoredObject]:
    """Publish versions from 1 on; ``[0]`` stands for the one that is not there."""
    refs = [await publish(retention.store, folder, model, number) for number in range(1, versions + 1)]
    return [refs[0], *refs]


async def versions_in(retention: Retention, model: str = "tiny") -> set[int]:
    return {int(item.key.split("/")[2]) for item in await retention.store.list(f"weights/{model}/")}


async def serve(retention: Retention, ref: StoredObject, version: int, lane: Lane, percent: int = 100) -> None:
    entry = await retention.serving.get(key_of("tiny"))
    before = Serving.from_json(entry.value, entry.key) if entry and entry.value else Serving("tiny", {})
    after = before.with_version(version, ref, [lane], percent)
    await retention.serving.put(key_of("tiny"), after.to_json(), revision=entry.revision if entry else 0)


async def test_the_newest_and_every_served_version_stay(retention: Retention, folder: Path, tmp_path: Path) -> None:
    refs = await publish_versions(retention, folder, 6)
    await serve(retention, refs[1], 1, Lane.EVALUATION)
    await serve(retention, refs[3], 3, Lane.INTERACTIVE)
    await serve(retention, refs[6], 6, Lane.INTERACTIVE, 10)
    # Of six: 5 and 6 are the newest, 1 and 3 are what lanes serve; a trial on ten percent keeps the version before it.
    assert await retention.retire("tiny") == [2, 4]
    assert await versions_in(retention) == {1, 3, 5, 6}
    for number in (1, 3, 5, 6):
        assert (await fetch(retention.store, refs[number], tmp_path / str(number))).policy_version == number
    assert await retention.retire("tiny") == []
    await serve(retention, refs[6], 6, Lane.INTERACTIVE)
    # The trial has become everybody's version, and nobody is left on 3.
    assert await retention.retire("tiny") == [3]


async def test_what_others_stand_on_stays(retention: Retention, folder: Path, tmp_path: Path) -> None:
    refs = await publish_versions(retention, folder, 3)
    (tmp_path / "adapter").mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / "adapter" / name).write_bytes(b"{}")
    await publish(retention.store, tmp_path / "adapter", "of-another-name", 1, base=refs[1])
    difference = await publish(retention.store, folder, "tiny", 4, delta_to=refs[2])
    await publish(retention.store, folder, "tiny", 5)
    assert await retention.retire("tiny") == [2, 3]
    assert await versions_in(retention) == {1, 2, 4, 5}, "of version 2 only the whole file that 4 is a difference to"
    assert [
        key for key in [item.key for item in await retention.store.list("weights/tiny/2/")] if "manifest" in key
    ] == []
    assert (await fetch(retention.store, difference, tmp_path / "whole")).policy_version == 4
    assert (await fetch(retention.store, refs[1], tmp_path / "base")).policy_version == 1
    assert await versions_in(retention, "of-another-name") == {1}


async def test_uploads_and_young_versions_are_left_alone(retention: Retention, folder: Path) -> None:
    await publish_versions(retention, folder, 4)
    # Files that no manifest names: of an upload under way, or of one that was given up.
    await retention.store.put("weights/tiny/2/abc-late.safetensors", b"x")
    await retention.store.put("weights/tiny/9/abc-model.safetensors", b"x")
    young = Retention(retention.store, retention.serving, 2, 60.0, structlog.get_logger())
    assert await young.retire("tiny") == []
    # Keeping none is how retention is switched off.
    assert await Retention(retention.store, retention.serving, 0, 0.0, structlog.get_logger()).retire("tiny") == []
    assert await retention.retire("tiny") == [1, 2]
    assert [item.key for item in await retention.store.list("weights/tiny/2/")] == [
        "weights/tiny/2/abc-late.safetensors"
    ]
    assert await versions_in(retention) == {2, 3, 4, 9}


async def test_a_version_that_is_activated_meanwhile_gets_its_manifest_back(
    retention: Retention, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = await publish_versions(retention, folder, 4)
    delete = retention.store.delete

    async def rival(key: str) -> None:
        await delete(key)
        # Between the look at what is served and the deletion lies time for an activation: no lock spans both stores.
        if key == refs[1].key:
            await serve(retention, refs[1], 1, Lane.TRAINING)

    monkeypatch.setattr(retention.store, "delete", rival)
    assert await retention.retire("tiny") == [2]
    assert (await fetch(retention.store, refs[1], tmp_path / "back")).policy_version == 1


async def test_an_activation_cleans_up_behind_itself(retention: Retention, folder: Path, tmp_path: Path) -> None:
    refs = await publish_versions(retention, folder, 5)
    bus = await open_bus("memory://", retention.store)
    await bus.declare()
    config = Config(
        models={"rules": RulesModel()}, cache_dir=tmp_path, trained=TransformersModel(threads=1), kept_versions=1,
        retire_after_s=0.0,
    )  # fmt: skip
    engine = Engine(config, retention.store, structlog.get_logger(), bus)
    await engine.start()
    await engine.load_weights("tiny", refs[2], 2, [Lane.EVALUATION])
    await engine.load_weights("tiny", refs[5], 5, [Lane.INTERACTIVE])

    async def are_the_wanted_ones() -> bool:
        return await versions_in(retention) == {2, 5}

    await eventually(are_the_wanted_ones)
    with pytest.raises(NotFound, match="weights version"):
        await engine.load_weights("tiny", None, 3, [])
    await engine.load_weights("tiny", None, 2, [])
    await engine.close()

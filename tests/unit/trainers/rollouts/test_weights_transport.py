"""Test how the driver publishes weights that learners share with policy before the store has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField, NotFound
from fathom.trainers.config.sections import RolloutConfig
from fathom.trainers.jobs.launch import choose_sharing
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.store_files import Sharing, StoredFiles, StoreFolder
from fathom.transport.sealed_memory import default_folder
from fathom.transport.store import ObjectStore, open_store
from tests.unit.trainers.rollouts.test_lease import Policy, publisher


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://")


def upload(store: ObjectStore, told: list[StoreFolder], **state: Any) -> Callable[[StoreFolder], StoredFiles]:
    """Return what a learner's group does: it lists a file, and has stored it unless it is ahead of the store."""

    def write(target: StoreFolder) -> StoredFiles:
        told.append(target)
        stored = asyncio.run(store.put(target.key_of("model.safetensors", "0" * 64), b"weights"))
        files = StoredFiles({"model.safetensors": stored})
        files.carrier, files.is_ahead = state.get("carrier", ""), state.get("is_ahead", False)
        return files

    return write


async def test_weights_that_the_store_is_getting_are_asked_for_again(store: ObjectStore, tmp_path: Path) -> None:
    """A policy on another machine finds no file in the store yet; one that has none is an error where none comes."""
    said: list[str] = []
    sharing = Sharing(tmp_path, 1 << 20, is_ahead=True)
    elsewhere_policy = Policy(3, NotFound("object", "weights/small/1/model.safetensors"))
    ahead = publisher(store, elsewhere_policy, sharing=sharing, warn=said.append)
    targets: list[StoreFolder] = []
    assert await ahead.publish(upload(store, targets, carrier="shared memory", is_ahead=True)) == 1
    assert targets[0].sharing == sharing
    assert said == ["weights of small travel by shared memory"]
    elsewhere_policy.calls = 1
    await ahead.publish(upload(store, targets, carrier="shared memory", is_ahead=True))
    assert len(said) == 1, "only changes are told"
    alone = publisher(store, Policy(3, NotFound("object", "gone")))
    with pytest.raises(NotFound, match="gone"):
        await alone.publish(upload(store, targets))
    assert targets[-1].sharing is None


async def test_what_the_store_never_got_ends_the_training_at_the_next_version(
    store: ObjectStore, tmp_path: Path
) -> None:
    policy, targets = Policy(), list[StoreFolder]()
    ahead = publisher(store, policy, sharing=Sharing(tmp_path, 1 << 20, is_ahead=True))
    await ahead.publish(upload(store, targets, is_ahead=True))
    await store.delete(targets[0].key_of("model.safetensors", "0" * 64))
    policy.calls = 1
    with pytest.raises(InvalidField, match=r"not in the driver's store"):
        await ahead.publish(upload(store, targets, is_ahead=True))


async def test_ranks_that_write_to_a_disk_of_their_own_end_the_publication(store: ObjectStore, tmp_path: Path) -> None:
    """As on two nodes whose store is a folder: policy must not be told of a version that nobody can read."""
    policy, another = Policy(), open_store((tmp_path / "other node").as_uri())
    with pytest.raises(InvalidField, match=r"store_url: the learners wrote model\.safetensors to .* not in the driver"):
        await publisher(store, policy).publish(upload(another, []))
    assert (policy.loaded, policy.calls) == (0, 1), "it was not asked to load"
    assert await store.keys("weights/small/1/manifest") == []


def test_settings_choose_the_transport() -> None:
    assert choose_sharing(RolloutConfig(weights_transport="store")) is None
    usual = choose_sharing(RolloutConfig())
    assert usual == Sharing(default_folder(), 8 << 30, is_required=False, is_ahead=False)
    own = RolloutConfig(
        weights_transport="shared_memory", publish_lanes=("training",), shared_memory_dir=Path("/x"), shared_memory_gb=1
    )
    # Users are never served by weights that the store has not got; a training alone is.
    assert choose_sharing(own) == Sharing(Path("/x"), 1 << 30, is_required=True, is_ahead=True)
    settings = ["data.train_files=[rows.parquet]", "rollout.weights_transport=store", "rollout.shared_memory_gb=1"]
    with pytest.raises(ConfigError, match=r"rollout\.shared_memory_gb: is not read by grpo"):
        load_settings("grpo", [], settings)

"""Test how new weights leave a learner: from memory where policy is near, by the store otherwise, and told which."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from fathom.core.errors import DependencyFailed, FailedPrecondition
from fathom.trainers import shards, store_files, transfers
from fathom.trainers.learners.models import SaveWeights, save_weights
from fathom.trainers.store_files import Sharing, StoredFiles, StoredFolder, StoreFolder
from fathom.trainers.transfers import MEMORY, STORE, StoreTransfer
from fathom.transport.checksums import BLAKE3, SHA256, algorithm_of, hash_file
from fathom.transport.sealed_memory import take_file
from fathom.transport.store import folder as folder_store


class Worker:
    """A learner of one matrix of 4,000 bytes."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {"w": torch.rand(1000)}

    def export(self, folder: Path, save: SaveWeights = save_weights) -> None:
        # A second file with the same bytes as another, as tokenizers have them.
        for name in ("config.json", "generation_config.json"):
            (folder / name).write_text("{}")
        save(self.weights, folder / "model.safetensors")

    def save_checkpoint(self, folder: Path) -> None:
        (folder / "state").write_text("step 1")


class Learner(StoreTransfer):
    def __init__(self) -> None:
        self.worker = Worker()


@pytest.fixture
def learner() -> Iterator[Learner]:
    made = Learner()
    yield made
    made.close()


@pytest.fixture(params=[SHA256, BLAKE3])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> StoreFolder:
    sharing, url = Sharing(tmp_path / "meeting", 1 << 20), (tmp_path / "store").as_uri()
    return StoreFolder(url, "weights/small/1", by_content=True, sharing=sharing, algorithm=request.param)


def take(target: StoreFolder, files: StoredFiles) -> dict[str, bytes]:
    """Take all files from memory that are there, as policy does."""
    assert target.sharing is not None
    found = {}
    for name, one in files.items():
        if (file := take_file(target.sharing.folder, one.checksum, one.size_bytes)) is not None:
            found[name] = file.read()
            file.close()
    return found


def test_memory_and_store_have_the_same_files(learner: Learner, target: StoreFolder, tmp_path: Path) -> None:
    files = learner.upload("export", target)
    assert (files.carrier, files.is_ahead) == (MEMORY, False)
    assert {algorithm_of(one.checksum) for one in files.values()} == {target.algorithm}
    StoredFolder(target.url, files).fetch_all(tmp_path / "fetched")
    taken = take(target, files)
    assert sorted(taken) == ["config.json", "generation_config.json", "model.safetensors"]
    for name, data in taken.items():
        assert data == (tmp_path / "fetched" / name).read_bytes()
    assert torch.equal(load_file(tmp_path / "fetched" / "model.safetensors")["w"], learner.worker.weights["w"])
    # The next version takes the place of this one.
    learner.worker.weights["w"] += 1
    assert learner.upload("export", target).carrier == MEMORY
    assert "model.safetensors" not in take(target, files)


def test_the_store_alone_gets_weights_that_were_written_and_hashed_once(
    learner: Learner, target: StoreFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def note(path: Path, algorithm: str) -> str:
        hashed.append(path.name)
        return hash_file(path, algorithm)

    monkeypatch.setattr(store_files, "hash_file", note)
    monkeypatch.setattr(folder_store, "hash_file", note)
    before = set(os.listdir("/proc/self/fd"))
    files = learner.upload("export", replace(target, sharing=None))
    assert sorted(hashed) == ["config.json", "generation_config.json"], "weights are hashed while they are written"
    assert set(os.listdir("/proc/self/fd")) <= before, "their memory is given back"
    StoredFolder(target.url, files).fetch_all(tmp_path / "fetched")
    assert torch.equal(load_file(tmp_path / "fetched" / "model.safetensors")["w"], learner.worker.weights["w"])
    assert files["model.safetensors"].checksum == hash_file(
        tmp_path / "fetched" / "model.safetensors", target.algorithm
    )
    assert sorted(path.name for path in (tmp_path / "fetched").iterdir()) == sorted(files), "nothing half is left"


def test_what_nobody_takes_is_left_to_the_store_from_then_on(learner: Learner, target: StoreFolder) -> None:
    learner.upload("export", target)
    learner.worker.weights["w"] += 1
    files = learner.upload("export", target)
    assert files.carrier.startswith(f"{STORE}: policy has not taken the last version from")
    assert take(target, files) == {}
    StoredFolder(target.url, files).fetch_all(target.sharing.folder.parent / "fetched")  # type: ignore[union-attr]


@pytest.mark.parametrize("max_bytes", [4_100, 3_000], ids=["all but the small files fit", "nothing fits"])
def test_too_large_versions_travel_whole_by_the_store(
    learner: Learner, target: StoreFolder, tmp_path: Path, max_bytes: int
) -> None:
    assert target.sharing is not None
    tight = replace(target, sharing=replace(target.sharing, max_bytes=max_bytes))
    files = learner.upload("export", tight)
    assert files.carrier.startswith(f"{STORE}: two versions are more than rollout.shared_memory_gb")
    StoredFolder(target.url, files).fetch_all(tmp_path / "fetched")
    assert torch.equal(load_file(tmp_path / "fetched" / "model.safetensors")["w"], learner.worker.weights["w"])
    assert len(files) == 3
    required = replace(tight, sharing=replace(tight.sharing, is_required=True))  # type: ignore[type-var]
    with pytest.raises(FailedPrecondition, match=r"rollout\.weights_transport is shared_memory, but two versions"):
        Learner().upload("export", required)


def test_a_folder_of_others_is_no_place_to_meet(learner: Learner, target: StoreFolder) -> None:
    assert target.sharing is not None
    target.sharing.folder.mkdir(mode=0o755)
    target.sharing.folder.chmod(0o755)
    assert "no folder of this user alone" in learner.upload("export", target).carrier


def test_required_memory_that_policy_does_not_use_ends_the_training(target: StoreFolder) -> None:
    assert target.sharing is not None
    learner, required = Learner(), replace(target, sharing=replace(target.sharing, is_required=True))
    learner.upload("export", required)
    learner.worker.weights["w"] += 1
    with pytest.raises(FailedPrecondition, match="policy has not taken the last version") as refused:
        learner.upload("export", required)
    assert refused.value.metadata["field"] == "rollout.weights_transport"
    learner.close()


def test_the_store_may_get_weights_while_they_are_used_and_a_checkpoint_waits_for_it(
    learner: Learner, target: StoreFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_store, original = threading.Event(), transfers.put_files

    def put_late(*arguments: object) -> None:
        may_store.wait()
        original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(transfers, "put_files", put_late)
    assert target.sharing is not None
    ahead = replace(target, sharing=replace(target.sharing, is_ahead=True))
    files = learner.upload("export", ahead)
    assert files.is_ahead
    assert len(take(target, files)) == 3, "policy has them"
    assert not list((tmp_path / "store").rglob("*~")), "and the store does not"
    may_store.set()
    learner.upload("save_checkpoint", StoreFolder(target.url, "checkpoints/1"))
    StoredFolder(target.url, files).fetch_all(tmp_path / "fetched")


def test_an_upload_that_failed_is_told_at_the_next(
    learner: Learner, target: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise DependencyFailed("object store", "is away")

    monkeypatch.setattr(transfers, "put_files", fail)
    assert target.sharing is not None
    learner.upload("export", replace(target, sharing=replace(target.sharing, is_ahead=True)))
    with pytest.raises(DependencyFailed, match="is away"):
        learner.upload("save_checkpoint", StoreFolder(target.url, "checkpoints/1"))


def test_a_disk_that_cannot_keep_weights_fails_the_upload(
    learner: Learner, target: StoreFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        # The records are small, and flushed by the store.
        if threading.current_thread().name.startswith("flushing"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(DependencyFailed, match="No space left"):
        learner.upload("export", replace(target, sharing=None))
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()], "nothing of it is there"
    assert set(os.listdir("/proc/self/fd")) <= before


def test_large_weights_travel_in_several_files(
    learner: Learner, target: StoreFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards.split_tensors, "__defaults__", (2_000,))
    learner.worker.weights = {name: torch.rand(1000) for name in "abc"}
    for number, sharing in enumerate((None, target.sharing)):
        files = learner.upload("export", replace(target, sharing=sharing))
        StoredFolder(target.url, files).fetch_all(tmp_path / str(number))
        found = sorted((tmp_path / str(number)).glob("*.safetensors"))
        assert len(found) == 3
        assert (tmp_path / str(number) / "model.safetensors.index.json").exists()
        tensors = {name: one for path in found for name, one in load_file(path).items()}
        assert tensors.keys() == learner.worker.weights.keys()
        assert all(torch.equal(one, learner.worker.weights[name]) for name, one in tensors.items())

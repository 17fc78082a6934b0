"""A rank reads and writes where it runs: its node shares no disk with the driver, only the object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import NotFound
from fathom.trainers.config import TrainConfig
from fathom.trainers.learners.ranks.groups import Rank, RayGroup
from fathom.trainers.store_files import StoredFiles, StoreFolder


class Worker:
    """A learner that says where its model is, and writes files."""

    def __init__(self, config: TrainConfig) -> None:
        self.folder = Path(config.model.path)

    def export(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes((self.folder / "model.safetensors").read_bytes() + b" trained")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a model, on a disk of its own."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
    url = (tmp_path / "store").as_uri()
    StoreFolder(url, "models/small").upload(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    return url


def settings(path: str) -> TrainConfig:
    return TrainConfig.model_validate({"model": {"path": path}})


def test_a_rank_fetches_its_model_and_uploads_what_it_writes_by_itself(url: str, tmp_path: Path) -> None:
    rank = Rank(settings("store:models/small"), url)
    rank.build(0, Worker, settings("store:models/small"))
    files = rank.call(0, "upload", "export", StoreFolder(url, "weights/small/1", by_content=True))
    (stored,) = files.values()
    assert (tmp_path / "store" / f"{stored.key}~").read_bytes().endswith(b"\nweights trained")
    with pytest.raises(NotFound, match="models/none"):
        rank.build(1, Worker, settings("store:models/none"))


def test_the_group_lists_the_files_of_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that lacks the shards of one rank cannot be loaded, and nothing else would miss them."""
    given: list[StoredFiles] = [StoredFiles({f"__{rank}_0.distcp": None}) for rank in range(3)]  # type: ignore[dict-item]
    given[1].carrier = "object store"
    calls: list[Any] = []

    def call(self: RayGroup, name: str, arguments: list[tuple[Any, ...]]) -> list[StoredFiles]:
        calls.append((name, arguments))
        return given

    group = RayGroup.__new__(RayGroup)
    monkeypatch.setattr(RayGroup, "_call", call)
    group._ranks = type("Three", (), {"size": 3})()  # type: ignore[assignment]
    target = StoreFolder("memory://", "checkpoints/small")
    found = group.upload("save_checkpoint", target)
    assert sorted(found) == ["__0_0.distcp", "__1_0.distcp", "__2_0.distcp"]
    assert found.carrier == "object store"
    assert calls == [("upload", [("save_checkpoint", target)] * 3)], "each writes from where it runs"

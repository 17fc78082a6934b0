"""Publishing and fetching of weights: whole and as published, or not at all."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.errors import CorruptData, InvalidField, NotFound
from fathom.protocol.weights import WeightManifest, fetch, publish
from fathom.store import open_store


def model_folder(path: Path) -> Path:
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "config.json").write_text("{}")
    return path


async def test_a_version_arrives_as_it_was_published(tmp_path: Path) -> None:
    store = open_store("memory://")
    ref = await publish(store, model_folder(tmp_path / "in"), "tiny", 3)
    manifest = await fetch(store, ref, tmp_path / "out" / "3")
    assert (manifest.model, manifest.policy_version) == ("tiny", 3)
    assert (tmp_path / "out" / "3" / "model.safetensors").read_bytes() == b"weights"
    assert await fetch(store, ref, tmp_path / "out" / "3") == manifest


async def test_a_changed_file_leaves_nothing_behind(tmp_path: Path) -> None:
    store = open_store("memory://")
    ref = await publish(store, model_folder(tmp_path / "in"), "tiny", 1)
    manifest = WeightManifest.from_json(await store.get(ref.key))
    await store.put(manifest.files[-1].key, b"other!!")
    with pytest.raises(CorruptData):
        await fetch(store, ref, tmp_path / "out" / "1")
    assert list((tmp_path / "out").iterdir()) == []


async def test_publishing_again_keeps_the_earlier_manifest_valid(tmp_path: Path) -> None:
    store = open_store("memory://")
    folder = model_folder(tmp_path / "in")
    first = await publish(store, folder, "tiny", 1)
    (folder / "model.safetensors").write_bytes(b"changed")
    second = await publish(store, folder, "tiny", 1)
    assert first.key != second.key
    await fetch(store, first, tmp_path / "a")
    await fetch(store, second, tmp_path / "a")
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == b"changed"


async def test_a_missing_manifest_is_not_found(tmp_path: Path) -> None:
    store = open_store("memory://")
    ref = await publish(store, model_folder(tmp_path / "in"), "tiny", 1)
    with pytest.raises(NotFound):
        await fetch(store, replace(ref, key="weights/none.json"), tmp_path / "out")


FILE = {"path": "model.safetensors", "key": "k", "size_bytes": 1, "sha256": "0" * 64}
BASE = {"format": 1, "model": "m", "policy_version": 1, "created": "2026-01-01", "files": [FILE]}


@pytest.mark.parametrize(
    "broken",
    [
        {"format": 2},
        {"files": []},
        {"files": [FILE, FILE]},
        {"files": [{**FILE, "path": "../x"}]},
        {"files": [{**FILE, "path": "a/b"}]},
        {"files": [{**FILE, "path": ".hidden"}]},
        {"files": [{**FILE, "sha256": "zz"}]},
        {"files": [{**FILE, "size_bytes": -1}]},
        {"files": ["x"]},
        {"files": None},
        {"policy_version": 0},
        {"policy_version": "x"},
    ],
)
def test_a_malformed_manifest_is_corrupt(broken: dict[str, object]) -> None:
    with pytest.raises(CorruptData):
        WeightManifest.from_json(json.dumps({**BASE, **broken}).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense", b"\xff"])
def test_what_is_no_json_object_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        WeightManifest.from_json(data)


async def test_publish_refuses_what_no_reader_could_load(tmp_path: Path) -> None:
    store = open_store("memory://")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidField, match="safetensors"):
        await publish(store, tmp_path / "empty", "tiny", 1)
    with pytest.raises(InvalidField, match="policy_version"):
        await publish(store, model_folder(tmp_path / "in"), "tiny", 0)
    with pytest.raises(InvalidField, match="model"):
        await publish(store, tmp_path / "in", "../tiny", 1)

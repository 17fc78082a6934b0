"""Publishing and fetching of weights: whole and as published, or not at all."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.domain.weights import manifest as manifest_module
from fathom.domain.weights.manifest import WeightManifest, fetch, publish
from fathom.operations.backup import Sources, back_up, prune, read_manifest, restore, verify
from fathom.transport.checksums import BLAKE3, SHA256, algorithm_of, hash_bytes
from fathom.transport.store import open_store


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
        {"format": 4},
        {"files": []},
        {"files": [FILE, FILE]},
        {"files": [{**FILE, "path": "../x"}]},
        {"files": [{**FILE, "path": "a/b"}]},
        {"files": [{**FILE, "path": ".hidden"}]},
        {"files": [{**FILE, "sha256": "zz"}]},
        {"format": 3, "files": [{**FILE, "blake3": "zz"}]},
        {"files": [{"path": "model.safetensors", "key": "k", "size_bytes": 1}]},
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


async def test_manifests_of_both_algorithms_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, found = open_store(tmp_path.joinpath("store").as_uri()), {}
    folder = model_folder(tmp_path / "in")
    for version, algorithm in ((1, SHA256), (2, BLAKE3)):
        monkeypatch.setattr(manifest_module, "choose_algorithm", lambda algorithm=algorithm: algorithm)
        ref = await publish(store, folder, "tiny", version)
        found[algorithm] = json.loads(await store.get(ref.key))
        fetched = await fetch(store, ref, tmp_path / "out" / str(version))
        assert {algorithm_of(file.checksum) for file in fetched.files} == {algorithm}
        assert {
            algorithm_of(one.checksum) for one in await store.list(f"weights/tiny/{version}/") if one.key != ref.key
        } == {algorithm}
        assert (tmp_path / "out" / str(version) / "model.safetensors").read_bytes() == b"weights"
        assert WeightManifest.from_json(fetched.to_json()) == fetched
    assert (found[SHA256]["format"], found[BLAKE3]["format"]) == (1, 3)
    assert all(SHA256 in file and BLAKE3 not in file for file in found[SHA256]["files"])
    assert all(BLAKE3 in file and SHA256 not in file for file in found[BLAKE3]["files"])


async def test_a_backup_keeps_the_algorithm_of_weights(tmp_path: Path) -> None:
    store, place, restored = (open_store((tmp_path / name).as_uri()) for name in ("store", "backups", "restored"))
    (tmp_path / "weights").write_bytes(b"weights")
    weights = await store.put_file("weights/tiny/1/model", tmp_path / "weights", hash_bytes(b"weights", BLAKE3))
    other = await store.put("runs/1", b"weights", "text/plain")
    listed = await back_up(Sources(None, store, None), place, lambda line: None)
    assert await read_manifest(place, listed.id) == listed
    assert set(listed.objects) == {weights, other}
    assert await verify(listed, place) == []
    await restore(listed, place, Sources(None, restored, None), lambda line: None)
    assert await restored.list("") == await store.list("")
    # A later backup needs the same contents, which stay when the earlier one goes.
    later = await back_up(Sources(None, store, None), place, lambda line: None)
    assert await prune(place, 1) == [listed.id]
    assert await verify(later, place) == []


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


def change_bytes(data: bytes, places: int) -> bytes:
    """Return as many bytes, some of which differ."""
    result = bytearray(data)
    for index in range(places):
        result[(index * 7919) % len(result)] ^= 0x5A
    return bytes(result)


async def test_a_difference_is_small_and_the_result_exact(tmp_path: Path) -> None:
    store = open_store("memory://")
    folder = model_folder(tmp_path / "in")
    data = bytes(range(256)) * 400
    (folder / "model.safetensors").write_bytes(data)
    whole = await publish(store, folder, "tiny", 1)
    (folder / "model.safetensors").write_bytes(change_bytes(data, 20))
    second = await publish(store, folder, "tiny", 2, delta_to=whole)
    (folder / "model.safetensors").write_bytes(change_bytes(data, 40))
    third = await publish(store, folder, "tiny", 3, delta_to=second)  # refers to the whole one as well
    for ref, places in ((second, 20), (third, 40)):
        manifest = WeightManifest.from_json(await store.get(ref.key))
        [weights] = [file for file in manifest.files if file.delta]
        assert len(await store.get(weights.key)) < len(data) / 50
        await fetch(store, ref, tmp_path / "out" / str(places))
        assert (tmp_path / "out" / str(places) / "model.safetensors").read_bytes() == change_bytes(data, places)
        assert await fetch(store, ref, tmp_path / "out" / str(places)) == manifest


async def test_a_difference_uses_what_was_fetched_before(tmp_path: Path) -> None:
    store = open_store("memory://")
    folder = model_folder(tmp_path / "in")
    data = bytes(range(256)) * 40
    (folder / "model.safetensors").write_bytes(data)
    whole = await publish(store, folder, "tiny", 1)
    await fetch(store, whole, tmp_path / "out" / "1")
    (folder / "model.safetensors").write_bytes(change_bytes(data, 3))
    ref = await publish(store, folder, "tiny", 2, delta_to=whole)
    manifest = WeightManifest.from_json(await store.get(whole.key))
    await store.delete(next(file.key for file in manifest.files if file.path == "model.safetensors"))
    await fetch(store, ref, tmp_path / "out" / "2")
    with pytest.raises(NotFound):
        await fetch(store, ref, tmp_path / "elsewhere" / "2")


async def test_a_spoilt_difference_leaves_nothing_behind(tmp_path: Path) -> None:
    store = open_store("memory://")
    folder = model_folder(tmp_path / "in")
    data = bytes(range(256)) * 40
    (folder / "model.safetensors").write_bytes(data)
    whole = await publish(store, folder, "tiny", 1)
    (folder / "model.safetensors").write_bytes(change_bytes(data, 3))
    ref = await publish(store, folder, "tiny", 2, delta_to=whole)
    key = next(file.key for file in WeightManifest.from_json(await store.get(ref.key)).files if file.delta)
    good = await store.get(key)
    for spoilt in (b"", good[:-1], good[:40], b"x" * len(good), good[:8] + b"\xff" * 8 + good[16:]):
        await store.put(key, spoilt)
        with pytest.raises(CorruptData):
            await fetch(store, ref, tmp_path / "out" / "2")
    assert list((tmp_path / "out").iterdir()) == []


async def test_what_changed_altogether_or_in_length_is_published_whole(tmp_path: Path) -> None:
    store = open_store("memory://")
    folder = model_folder(tmp_path / "in")
    (folder / "model.safetensors").write_bytes(b"ab" * 500)
    whole = await publish(store, folder, "tiny", 1)
    for data in (b"ab" * 501, b"cd" * 500, b"abc" * 333):
        (folder / "model.safetensors").write_bytes(data)
        ref = await publish(store, folder, "tiny", 2, delta_to=whole)
        await fetch(store, ref, tmp_path / "out")
        assert (tmp_path / "out" / "model.safetensors").read_bytes() == data


async def test_a_base_is_for_adapters_and_a_whole_model(tmp_path: Path) -> None:
    store = open_store("memory://")
    folder = model_folder(tmp_path / "in")
    whole = await publish(store, folder, "tiny", 1)
    with pytest.raises(InvalidField, match="base"):
        await publish(store, folder, "tiny", 2, base=whole)
    (folder / "adapter_config.json").write_text("{}")
    adapter = await publish(store, folder, "tiny", 2, base=whole)
    manifest = WeightManifest.from_json(await store.get(adapter.key))
    assert manifest.adapter
    assert manifest.base is not None
    assert manifest.base.key == whole.key
    with pytest.raises(InvalidField, match="base"):
        await publish(store, folder, "tiny", 3, base=adapter)

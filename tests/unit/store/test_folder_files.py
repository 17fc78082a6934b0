"""Large objects of a folder store: moved in, linked out, replaced and deleted whole; and what killed writers leave."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from fathom.core.errors import CorruptData, NotFound
from fathom.core.ids import sha256
from fathom.transport.store import find_scratch, open_store
from fathom.transport.store.folder_files import LARGE_BYTES, ORPHAN_AGE_S, remove_orphans

LARGE = bytes(range(256)) * (LARGE_BYTES // 256 + 1)


def list_hidden(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob(".*") if path.is_file())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


def write_scratch(root: Path, data: bytes = LARGE) -> Path:
    """Write a file where a store takes it from."""
    scratch = find_scratch(root.as_uri())
    assert scratch is not None
    (scratch / "file").write_bytes(data)
    return scratch / "file"


async def test_a_given_file_becomes_the_object_and_is_linked_to_by_its_readers(root: Path, tmp_path: Path) -> None:
    store, given = open_store(root.as_uri()), write_scratch(root)
    inode = given.stat().st_ino
    stored = await store.put_file("weights/1/file", given, sha256(LARGE), is_given=True)
    assert not given.exists()
    assert await store.get_file(stored.key, tmp_path / "back", stored.sha256) == stored
    assert (tmp_path / "back").stat().st_ino == inode, "no byte was copied"
    assert not stat.S_IMODE((tmp_path / "back").stat().st_mode) & 0o222
    assert (await store.get(stored.key), await store.keys("")) == (LARGE, [stored.key])
    # Taken again over itself, and kept by its reader when the store has deleted it.
    await store.get_file(stored.key, tmp_path / "back")
    await store.delete(stored.key)
    assert (tmp_path / "back").read_bytes() == LARGE
    assert await store.keys("") == list_hidden(root) == []


async def test_a_file_that_is_not_given_stays(root: Path) -> None:
    store, source = open_store(root.as_uri()), write_scratch(root)
    stored = await store.put_file("a", source)
    assert source.read_bytes() == await store.get("a", stored.sha256) == LARGE
    source.write_bytes(b"changed")
    assert await store.get("a") == LARGE


async def test_bytes_that_changed_on_the_disk_are_not_served(root: Path, tmp_path: Path) -> None:
    store = open_store(root.as_uri())
    await store.put_file("a", write_scratch(root), sha256(LARGE), is_given=True)
    data = root / list_hidden(root)[0]
    data.chmod(0o644)
    # As after a power failure before the disk had all of them.
    os.truncate(data, 5)
    for ask in (store.get("a"), store.get_file("a", tmp_path / "back")):
        with pytest.raises(CorruptData, match="SHA-256"):
            await ask
    data.unlink()
    with pytest.raises(CorruptData, match="the file with its bytes is gone"):
        await store.get("a")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", ".a.0123.data", "secret"])
async def test_a_record_names_only_a_file_of_bytes_beside_it(root: Path, name: str) -> None:
    store = open_store(root.as_uri())
    await store.put_file("b/a", write_scratch(root))
    record = root / "b" / "a~"
    record.write_text(record.read_text().replace(list_hidden(root)[0], name))
    with pytest.raises(CorruptData, match="names no file of bytes"):
        await store.get("b/a")


async def test_what_is_replaced_leaves_nothing(root: Path) -> None:
    store = open_store(root.as_uri())
    for data in (LARGE, LARGE[::-1]):
        await store.put_file("a", write_scratch(root, data), is_given=True)
        assert await store.get("a") == data
    assert len(list_hidden(root)) == 1
    await store.put("a", b"small")
    assert (await store.get("a"), list_hidden(root)) == (b"small", [])


async def test_readers_see_one_large_object_or_the_other(root: Path, tmp_path: Path) -> None:
    store = open_store(root.as_uri())
    versions = [bytes([number]) * LARGE_BYTES for number in range(4)]
    for number, version in enumerate(versions):
        (tmp_path / str(number)).write_bytes(version)
    await store.put_file("a", tmp_path / "0")
    writes = [store.put_file("a", tmp_path / str(number)) for number in range(4)]
    results = await asyncio.gather(*writes, *(store.get("a") for _ in range(12)))
    assert set(results[len(writes) :]) <= set(versions)


async def test_what_killed_writers_left_is_deleted_after_a_day(root: Path) -> None:
    store = open_store(root.as_uri())
    await store.put("runs/a", b"1")
    await store.put_file("runs/large", write_scratch(root), is_given=True)
    # Cut short: a write, the bytes of an object whose record never came, an export.
    for name in (".0123456789abcdef.tmp", ".large.0123456789abcdef.data", ".other.0123456789abcdef.data", ".nfs01"):
        (root / "runs" / name).write_bytes(b"half")
    (root / ".scratch" / "tmp1").mkdir()
    (root / ".scratch" / "tmp1" / "model.safetensors").write_bytes(b"half")
    newest = (root / ".scratch" / "tmp1").stat().st_mtime
    assert remove_orphans(root, newest) == 0, "a writer may be at it"
    assert remove_orphans(root, newest + ORPHAN_AGE_S + 1) == 4
    # What is not the store's stays, and every object.
    assert len(list_hidden(root)) == 2
    assert ".nfs01" in list_hidden(root)
    assert (await store.get("runs/a"), await store.get("runs/large")) == (b"1", LARGE)
    assert remove_orphans(root / "none") == 0


async def test_stores_without_a_disk_here_take_a_copy(tmp_path: Path) -> None:
    assert find_scratch("memory://") is None
    (tmp_path / "file").write_bytes(LARGE)
    store = open_store("memory://")
    await store.put_file("a", tmp_path / "file", is_given=True)
    assert await store.get("a") == LARGE
    with pytest.raises(NotFound):
        await open_store((tmp_path / "objects").as_uri()).get("a")

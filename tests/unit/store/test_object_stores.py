"""The local stores: one suite for folder and memory, then what only a folder does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import Conflict, CorruptData, DependencyFailed, InvalidField, NotFound
from fathom.core.ids import sha256
from fathom.transport.checksums import BLAKE3, hash_bytes, hash_file
from fathom.transport.store import ObjectStore, StoredObject, open_store
from fathom.transport.store.folder_files import LARGE_BYTES
from fathom.transport.store.refs import from_ref, read_ref, to_ref

BAD_KEYS = [
    "", "/etc/passwd", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", ".hidden", "a/.tmp", "a\\b", "a\x00b",
    "a\nb", "a b", "a~", "~", "模型", "a" * 201, "/".join("a" * 300),
]  # fmt: skip


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return open_store(f"file://{tmp_path}/objects" if request.param == "folder" else "memory://")


async def test_put_get_head(store: ObjectStore) -> None:
    # All bytes, a line break and braces: what a format of records could mistake for its own.
    data = bytes(range(256)) + b"\n{}\n"
    stored = await store.put("runs/run_1/answer.md", data, "text/markdown")
    assert stored == StoredObject("runs/run_1/answer.md", len(data), sha256(data), "text/markdown")
    assert await store.get(stored.key) == data
    assert await store.get(stored.key, stored.sha256) == data
    assert await store.head(stored.key) == stored


async def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    stored = await store.put("empty", b"")
    assert await store.get("empty", stored.sha256) == b""
    assert stored.content_type == "application/octet-stream"


async def test_files_go_and_come_without_passing_through_memory(store: ObjectStore, tmp_path: Path) -> None:
    # More than one piece, and an odd number of bytes.
    data = bytes(range(256)) * 5_000 + b"end"
    for name, content in (("large", data), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        stored = await store.put_file(f"runs/{name}", tmp_path / name)
        assert stored == StoredObject(f"runs/{name}", len(content), sha256(content), "application/octet-stream")
        assert await store.get(stored.key) == content
        assert await store.put_file(stored.key, tmp_path / name, stored.sha256) == stored
        assert await store.get_file(stored.key, tmp_path / "back", stored.sha256) == stored
        assert (tmp_path / "back").read_bytes() == content
    with pytest.raises(CorruptData, match="SHA-256"):
        await store.get_file("runs/large", tmp_path / "back", sha256(b"other"))
    with pytest.raises(NotFound, match="runs/none"):
        await store.get_file("runs/none", tmp_path / "back")


async def test_a_file_keeps_the_algorithm_of_its_checksum(store: ObjectStore, tmp_path: Path) -> None:
    # As large as what has a file of its own in a folder store, and as small as what has none.
    for size in (LARGE_BYTES + 1, 5):
        (tmp_path / "file").write_bytes(b"w" * size)
        checksum = hash_file(tmp_path / "file", BLAKE3)
        stored = await store.put_file("weights/file", tmp_path / "file", checksum)
        assert (stored.checksum, stored.sha256) == (checksum, "")
        assert await store.head("weights/file") == stored == (await store.list("weights/"))[0]
        assert await store.get_file("weights/file", tmp_path / "back", checksum) == stored
        assert (tmp_path / "back").read_bytes() == b"w" * size
        # A reader may know the other checksum, as of an object that was copied from elsewhere.
        assert await store.get("weights/file", sha256(b"w" * size)) == b"w" * size
        assert await store.get_file("weights/file", tmp_path / "back", sha256(b"w" * size)) == stored
        with pytest.raises(CorruptData, match="BLAKE3 is"):
            await store.get_file("weights/file", tmp_path / "back", hash_bytes(b"other", BLAKE3))
        with pytest.raises(CorruptData, match="SHA-256 is"):
            await store.get_file("weights/file", tmp_path / "back", sha256(b"other"))


async def test_put_replaces(store: ObjectStore) -> None:
    await store.put("a", b"long before")
    after = await store.put("a", b"after", "text/plain")
    assert (await store.get("a"), await store.head("a"), await store.list("")) == (b"after", after, [after])


async def test_a_key_is_created_once(store: ObjectStore) -> None:
    made = await store.create("claims/7", b"first", "text/plain")
    assert made == await store.head("claims/7")
    # An answer that was lost: the same bytes again are the same object.
    assert await store.create("claims/7", b"first", "text/plain") == made
    with pytest.raises(Conflict, match="claims/7"):
        await store.create("claims/7", b"second")
    assert await store.get("claims/7") == b"first"


async def test_of_many_who_create_one_key_one_succeeds(store: ObjectStore) -> None:
    found = await asyncio.gather(*(store.create("one", b"%d" % n) for n in range(8)), return_exceptions=True)
    assert sum(isinstance(item, StoredObject) for item in found) == 1
    assert sum(isinstance(item, Conflict) for item in found) == 7


async def test_what_is_not_there(store: ObjectStore) -> None:
    with pytest.raises(NotFound, match="no object 'a/b'"):
        await store.get("a/b")
    assert await store.head("a/b") is None
    assert await store.list("") == []
    # Deleting what is not there is no error: a retry after a lost answer does it.
    await store.delete("a/b")


async def test_delete(store: ObjectStore) -> None:
    await store.put("a/b", b"1")
    await store.delete("a/b")
    assert await store.head("a/b") is None


# Object stores know no folders; on a disk "a" is a file and a folder at once.
async def test_a_key_may_be_the_folder_of_another(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.put("a/b", b"2")
    assert (await store.get("a"), await store.get("a/b")) == (b"1", b"2")


async def test_list_takes_any_prefix_and_sorts(store: ObjectStore) -> None:
    # "10" before "2": keys sort as text, not as numbers.
    for key in ("runs/b", "runs/a/2", "runs/a/10", "run", "other/x"):
        await store.put(key, key.encode())
    listed = {
        prefix: [item.key for item in await store.list(prefix)] for prefix in ("", "run", "runs/", "runs/a/1", "z")
    }
    assert listed == {
        "": ["other/x", "run", "runs/a/10", "runs/a/2", "runs/b"],
        "run": ["run", "runs/a/10", "runs/a/2", "runs/b"],
        "runs/": ["runs/a/10", "runs/a/2", "runs/b"],
        "runs/a/1": ["runs/a/10"],
        "z": [],
    }
    # A prefix need not end at a slash.
    assert (await store.list("other"))[0].sha256 == sha256(b"other/x")


async def test_keys_are_listed_in_pages(store: ObjectStore) -> None:
    for key in ("runs/b", "runs/a/2", "runs/a/10", "run", "other/x"):
        await store.put(key, key.encode())
    assert await store.keys("runs/") == ["runs/a/10", "runs/a/2", "runs/b"]
    assert await store.keys("runs/", limit=2) == ["runs/a/10", "runs/a/2"]
    assert await store.keys("runs/", after="runs/a/2", limit=2) == ["runs/b"]
    # "After" need not exist: the last key of a page may have been deleted meanwhile.
    assert await store.keys("runs/", after="runs/a/11") == ["runs/a/2", "runs/b"]
    assert await store.keys("z") == []


# Keys that would leave the folder, hide, or collide with the store's own files.
@pytest.mark.parametrize("key", BAD_KEYS)
async def test_unsafe_keys_are_refused(store: ObjectStore, key: str) -> None:
    for call in (store.put(key, b""), store.get(key), store.head(key), store.delete(key)):
        with pytest.raises(InvalidField) as refused:
            await call
        assert refused.value.field == "key"


@pytest.mark.parametrize("prefix", ["..", "../", "/", "a/../", "a//", ".tmp"])
async def test_unsafe_prefixes_are_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(InvalidField, match=r"^prefix"):
        await store.list(prefix)


async def test_another_checksum_is_corrupt_data(store: ObjectStore) -> None:
    await store.put("a", b"1")
    with pytest.raises(CorruptData, match="a is corrupt: SHA-256 is"):
        await store.get("a", sha256(b"2"))


async def test_refs(store: ObjectStore) -> None:
    stored = await store.put("a", b"data", "text/plain")
    ref = to_ref(stored)
    assert from_ref(ref) == stored
    assert await read_ref(store, ref) == b"data"
    # The object behind the reference was replaced.
    await store.put("a", b"other")
    with pytest.raises(CorruptData):
        await read_ref(store, ref)
    # Older references have no checksum: the size alone must then agree.
    ref.sha256 = ""
    with pytest.raises(CorruptData, match="has 5 bytes, not 4"):
        await read_ref(store, ref)


async def test_a_folder_notices_changed_bytes(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    await store.put("a/b", b"payload")
    file = tmp_path / "a" / "b~"
    # A bit of the payload, as a disk turns it.
    file.write_bytes(file.read_bytes().replace(b"payload", b"payloae"))
    with pytest.raises(CorruptData, match="SHA-256"):
        await store.get("a/b")
    with pytest.raises(CorruptData, match="SHA-256"):
        await store.get_file("a/b", tmp_path / "back")
    file.write_bytes(b"")
    with pytest.raises(CorruptData, match="record"):
        await store.head("a/b")


async def test_a_folder_notices_changed_weights(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    (tmp_path / "file").write_bytes(b"w" * (LARGE_BYTES + 1))
    stored = await store.put_file("weights/file", tmp_path / "file", hash_file(tmp_path / "file", BLAKE3))
    [data] = (tmp_path / "objects" / "weights").glob(".*.data")
    data.chmod(0o644)
    data.write_bytes(b"w" * LARGE_BYTES + b"!")
    for checksum in (None, stored.checksum):
        with pytest.raises(CorruptData, match="BLAKE3 is"):
            await store.get_file("weights/file", tmp_path / "back", checksum)
        with pytest.raises(CorruptData, match="BLAKE3 is"):
            await store.get("weights/file", checksum)


async def test_a_folder_ignores_what_a_crash_left(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    await store.put("a/b", b"1")
    # The temporary file of a write that a crash cut short.
    (tmp_path / "a" / ".0123.tmp").write_bytes(b"half an obj")
    assert [item.key for item in await store.list("")] == ["a/b"]


async def test_a_failed_write_leaves_the_old_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(f"file://{tmp_path}")
    await store.put("a", b"old")

    def full(descriptor: int) -> None:
        # Errno 28: the disk is full when the bytes are to be kept.
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DependencyFailed, match="No space left"):
        await store.put("a", b"new")
    assert await store.get("a") == b"old"
    # No temporary file was left over.
    assert os.listdir(tmp_path) == ["a~"]


async def test_readers_never_see_a_half_written_object(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    versions = [bytes([number]) * 50_000 for number in range(8)]
    await store.put("a", versions[0])
    writes = [store.put("a", version) for version in versions]
    reads = [store.get("a") for _ in range(20)]
    results = await asyncio.gather(*writes, *reads)
    # Each read is one of the versions, whole.
    assert set(results[len(versions) :]) <= set(versions)


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DependencyFailed, match="object store") as refused:
        await open_store(f"file://{tmp_path}/file").put("a", b"")
    assert str(tmp_path) not in refused.value.message, "callers are told no path of the server"


@pytest.mark.parametrize(
    "url",
    [
        "", "folder", "ftp://host/x", "file://relative/x", "s3://host", "s3://k:s@host/bucket/deeper",
        "s3://k:s@host/bucket?secure=maybe", "s3://k:s@host/bucket?other=1",
        "s3:///bucket", "s3://k:s@host/B", "s3://k:s@host:port/bucket",
    ],
)  # fmt: skip
def test_wrong_urls_are_setting_errors(url: str) -> None:
    with pytest.raises(ConfigError, match="store_url") as refused:
        open_store(url)
    assert "k:s" not in refused.value.message  # a URL may hold a secret


def test_opening_a_local_store_does_not_load_minio() -> None:
    # In a process of its own: this one may have loaded it.
    program = "import sys; from fathom.transport.store import open_store; open_store('memory://'); print('minio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "False"


async def test_a_folder_that_cannot_be_read_is_no_empty_folder(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    assert await store.keys("runs/") == []
    await store.put("runs/a", b"1")
    (tmp_path / "objects").rename(tmp_path / "away")
    (tmp_path / "objects").write_text("the disk is elsewhere")
    for ask in (store.keys("runs/"), store.list("runs/"), store.list("")):
        with pytest.raises(DependencyFailed) as refused:
            await ask
        assert str(tmp_path) not in refused.value.message

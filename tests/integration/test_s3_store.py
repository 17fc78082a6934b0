"""The S3 store against a real server: ``rclone serve s3`` over a folder."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from fathom.core.config import ConfigError
from fathom.core.errors import Conflict, CorruptData, DependencyFailed, InvalidField, NotFound
from fathom.core.ids import sha256
from fathom.core.retry import RetryPolicy
from fathom.transport.sockets import reserved_port
from fathom.transport.store import ObjectStore, StoredObject, open_store
from fathom.transport.store import s3 as s3_module
from fathom.transport.store.s3 import S3Store, S3Target
from tests.bench.chaos.disks import ERRORS, HALF, failing_s3
from tests.integration.s3_server import BUCKET, KEY, needs_rclone, serving


@dataclass(frozen=True)
class Served:
    """A running S3 server: its address and the folder behind its bucket."""

    address: str
    folder: Path
    store: ObjectStore


@pytest.fixture
def address() -> Iterator[str]:
    with reserved_port() as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
async def s3(tmp_path: Path, address: str) -> AsyncIterator[Served]:
    async with serving(tmp_path, address) as url:
        store = open_store(url)
        yield Served(address, tmp_path / "s3" / BUCKET, store)
        await store.close()


@needs_rclone
async def test_objects_come_back_with_their_records(s3: Served) -> None:
    data = bytes(range(256)) * 100
    stored = await s3.store.put("runs/run_1/table.arrow", data, "application/vnd.apache.arrow.stream")
    assert stored == StoredObject(stored.key, len(data), sha256(data), "application/vnd.apache.arrow.stream")
    assert await s3.store.get(stored.key, stored.sha256) == data
    head = await s3.store.head(stored.key)
    assert head is not None
    assert (head.key, head.size_bytes, head.sha256) == (stored.key, stored.size_bytes, stored.sha256)
    assert (s3.folder / stored.key).read_bytes() == data


@needs_rclone
async def test_a_key_is_created_once(s3: Served) -> None:
    """rclone does not know the condition, so here it is the look before and after that decides."""
    made = await s3.store.create("claims/7", b"first", "text/plain")
    assert await s3.store.create("claims/7", b"first", "text/plain") == made
    with pytest.raises(Conflict, match="claims/7"):
        await s3.store.create("claims/7", b"second")
    assert await s3.store.get("claims/7", made.sha256) == b"first"


@needs_rclone
async def test_large_and_empty_objects(s3: Served) -> None:
    large = bytes(range(256)) * 40_000  # 10 MB: over the 5 MiB where minio-py would split
    for key, data in (("large", large), ("empty", b"")):
        stored = await s3.store.put(key, data)
        assert await s3.store.get(key, stored.sha256) == data


@needs_rclone
async def test_large_files_go_in_parts_that_a_slow_network_sends_in_time(
    s3: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: 538 MB in one request, which Python's sockets have to send within one timeout, failed on a busy disk."""
    bodies: list[int] = []
    send = urllib3.PoolManager.urlopen

    def note(self: urllib3.PoolManager, *given: Any, **more: Any) -> Any:
        bodies.append(len(more.get("body") or b""))
        return send(self, *given, **more)

    monkeypatch.setattr(urllib3.PoolManager, "urlopen", note)
    monkeypatch.setattr(s3_module, "PART_BYTES", s3_module.MIN_PART_BYTES)
    data = bytes(range(256)) * 50_000  # 12.8 MB: three parts
    (tmp_path / "file").write_bytes(data)
    for stored in (
        await s3.store.put_file("weights/file", tmp_path / "file"),
        await s3.store.put("weights/file", data),
    ):
        assert (stored.size_bytes, stored.sha256) == (len(data), sha256(data))
        found = await s3.store.head(stored.key)
        assert found is not None
        assert (found.size_bytes, found.sha256) == (len(data), stored.sha256), "the whole has the record of a put"
        assert await s3.store.get_file(stored.key, tmp_path / "back", stored.sha256) == found
        assert (tmp_path / "back").read_bytes() == data
    assert max(bodies) == s3_module.MIN_PART_BYTES
    (s3.folder / "weights" / "file").write_bytes(data[:-1] + b"!")
    with pytest.raises(CorruptData, match="SHA-256"):
        await s3.store.get_file("weights/file", tmp_path / "back", sha256(data))
    with pytest.raises(NotFound, match="weights/none"):
        await s3.store.get_file("weights/none", tmp_path / "back")


@needs_rclone
async def test_what_is_not_there(s3: Served) -> None:
    with pytest.raises(NotFound, match="no object 'a/b'"):
        await s3.store.get("a/b")
    assert await s3.store.head("a/b") is None
    assert await s3.store.list("a/") == []
    await s3.store.delete("a/b")
    with pytest.raises(InvalidField, match=r"^key"):
        await s3.store.get("../secret")


@needs_rclone
async def test_list_and_delete(s3: Served) -> None:
    for key in ("runs/b", "runs/a/2", "runs/a/10", "other"):
        await s3.store.put(key, key.encode())
    assert [item.key for item in await s3.store.list("runs/")] == ["runs/a/10", "runs/a/2", "runs/b"]
    assert [item.key for item in await s3.store.list("runs/a/1")] == ["runs/a/10"]
    assert [item.sha256 for item in await s3.store.list("oth")] == [sha256(b"other")]
    assert await s3.store.keys("runs/", limit=2) == ["runs/a/10", "runs/a/2"]
    assert await s3.store.keys("runs/", after="runs/a/2", limit=2) == ["runs/b"]
    await s3.store.delete("runs/b")
    assert [item.key for item in await s3.store.list("runs/b")] == []


@needs_rclone
async def test_corruption_is_found(s3: Served) -> None:
    stored = await s3.store.put("a", b"payload")
    with pytest.raises(CorruptData, match="SHA-256"):
        await s3.store.get("a", sha256(b"another"))
    # Same size and time: only the checksum can tell. The server caches nothing of the content.
    (s3.folder / "a").write_bytes(b"payloae")
    with pytest.raises(CorruptData, match="SHA-256"):
        await s3.store.get("a", stored.sha256)


@needs_rclone
async def test_objects_of_other_programs_have_checksums_too(s3: Served) -> None:
    (s3.folder / "foreign.txt").write_bytes(b"put by hand")
    (found,) = await s3.store.list("foreign")
    assert (found.size_bytes, found.sha256) == (11, sha256(b"put by hand"))
    assert await s3.store.get("foreign.txt") == b"put by hand"


@needs_rclone
async def test_wrong_bucket_and_wrong_key_are_setting_errors(s3: Served) -> None:
    nowhere = open_store(f"s3://{KEY}:test%2Fsecret%2B1@{s3.address}/nowhere?secure=false")
    with pytest.raises(ConfigError, match="no bucket 'nowhere'"):
        await nowhere.put("a", b"")
    denied = open_store(f"s3://{KEY}:wrong@{s3.address}/{BUCKET}?secure=false")
    with pytest.raises(ConfigError, match="denied") as refused:
        await denied.put("a", b"")
    assert "wrong" not in refused.value.message


async def test_no_server_is_a_failed_dependency() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        url = f"s3://k:s@127.0.0.1:{taken.getsockname()[1]}/bucket?secure=false"
        store = S3Store(S3Target.from_url(url), policy=RetryPolicy(attempts=3, first_delay_s=0.001))
        for call in (store.put("a", b""), store.get("a"), store.head("a"), store.list(""), store.delete("a")):
            with pytest.raises(DependencyFailed, match="object store: cannot be reached") as failure:
                await call
            assert failure.value.culprit == "object store"


async def test_transient_failures_are_retried_and_counted() -> None:
    answers = [503, 500, 404]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>"
        head = f"HTTP/1.1 {answers.pop(0)} X\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = S3Store(
            S3Target.from_url(f"s3://k:s@127.0.0.1:{port}/bucket?secure=false"),
            policy=RetryPolicy(attempts=3, first_delay_s=0.001),
        )
        with pytest.raises(NotFound):
            await store.get("a")
    assert answers == []


@needs_rclone
@pytest.mark.parametrize("fault", [ERRORS, HALF])
async def test_a_service_that_errs_or_breaks_off_is_a_transient_failure_and_nothing_half_is_believed(
    tmp_path: Path, fault: str
) -> None:
    data = bytes(range(256)) * 400
    async with failing_s3(tmp_path) as (url, proxy):
        store = S3Store(S3Target.from_url(url), policy=RetryPolicy(attempts=2, first_delay_s=0.01))
        await store.put("runs/a", data)
        proxy.begin(fault)
        for call in (store.get("runs/a"), store.keys("runs/"), store.head("runs/a"), store.list("runs/")):
            with pytest.raises(DependencyFailed) as refused:
                await call
            assert refused.value.transient
        # Of an answer without a body, half is enough to see that the object is stored.
        with suppress(DependencyFailed):
            await store.put("runs/b", data)
        proxy.begin("")
        assert await store.get("runs/a") == data
        await store.put("runs/b", data)
        assert await store.keys("runs/") == ["runs/a", "runs/b"]
        await store.close()

"""A store that is away for some attempts: what a training reads and writes there waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fathom.core.errors import DependencyFailed
from fathom.trainers.jobs.launch import open_store_in_loop
from fathom.trainers.store_files import StoredFolder, StoreFolder
from fathom.transport.store import open_store

# More than a call for somebody who waits for an answer makes.
REFUSALS = 4


class Bucket(ThreadingHTTPServer):
    """Keeps objects as an S3 service does, and refuses the next ``refusals`` requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refusals = 0
        self.objects: dict[str, tuple[bytes, str]] = {}

    @property
    def url(self) -> str:
        return f"s3://key:secret@127.0.0.1:{self.server_address[1]}/bucket?secure=false"


class Handler(BaseHTTPRequestHandler):
    server: Bucket

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.refuses():
            self.server.objects[self.path] = data, self.headers["x-amz-meta-sha256"]
            self.answer(200, b"", ETag='"1"')

    def do_GET(self) -> None:
        if not self.refuses():
            data, checksum = self.server.objects[self.path]
            self.answer(200, data, **{"x-amz-meta-sha256": checksum})

    def refuses(self) -> bool:
        if not self.server.refusals:
            return False
        self.server.refusals -= 1
        self.answer(503, b"")
        return True

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with Bucket() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_rank_uploads_and_fetches_though_the_store_is_away_for_some_attempts(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "weights").write_bytes(b"learned")
    bucket.refusals = REFUSALS
    files = StoreFolder(bucket.url, "checkpoints/1").upload(tmp_path / "own")
    assert bucket.refusals == 0
    bucket.refusals = REFUSALS
    StoredFolder(bucket.url, files).fetch_all(tmp_path / "other")
    assert (tmp_path / "other" / "weights").read_bytes() == b"learned"


async def test_the_driver_waits_for_the_store_and_whoever_serves_people_does_not(bucket: Bucket) -> None:
    store = await open_store_in_loop(bucket.url)
    bucket.refusals = REFUSALS
    await store.put("manifest.json", b"{}")
    await store.close()
    bucket.refusals = REFUSALS
    impatient = open_store(bucket.url)
    with pytest.raises(DependencyFailed, match="HTTP status 503"):
        await impatient.put("table", b"")
    await impatient.close()

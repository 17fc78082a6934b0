"""A caller learns within seconds that the process that served its call was killed, and waits for one that is at work."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fathom.core.errors import FathomError, NotReady
from fathom.core.retry import RetryPolicy, retry
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import Bus
from fathom.transport.bus.nats.replies import BEAT_S, SILENT_BEATS
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import rpc_subject
from fathom.transport.store import open_store
from tests.support.processes import pause

SUBJECT, DEADLINE_S = rpc_subject("datafetch", "Query"), 60.0


@asynccontextmanager
async def answering(url: str, seconds: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a process that serves the subject."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.bus.answering",
        url,
        SUBJECT,
        str(seconds),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await until_said(process, b"serving")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_said(process: asyncio.subprocess.Process, word: bytes) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert (await process.stdout.readline()).strip() == word


@asynccontextmanager
async def calling_bus(folder: Path) -> AsyncIterator[tuple[str, Bus]]:
    async with NatsServer(folder) as nats:
        bus = await open_bus(nats.url, open_store("memory://"))
        try:
            yield nats.url, bus
        finally:
            await bus.close()


async def ask(bus: Bus) -> int:
    return int((await bus.request(SUBJECT, b"", headers={}, timeout_s=DEADLINE_S)).payload)


async def test_a_call_whose_server_is_killed_ends_by_a_retry_on_another_replica(tmp_path: Path) -> None:
    async with calling_bus(tmp_path / "nats") as (url, bus), answering(url, 3600.0) as first:
        asking = asyncio.create_task(retry(lambda: ask(bus), RetryPolicy()))
        await until_said(first, b"taken")
        async with answering(url, 0.0) as second:
            first.kill()
            # Long before the deadline of the call, after which alone it ended before.
            async with asyncio.timeout(DEADLINE_S / 2):
                assert await asking == second.pid


async def test_a_call_whose_server_is_killed_says_so_long_before_its_deadline(tmp_path: Path) -> None:
    async with calling_bus(tmp_path / "nats") as (url, bus), answering(url, 3600.0) as first:
        asking = asyncio.create_task(ask(bus))
        await until_said(first, b"taken")
        first.kill()
        with pytest.raises(NotReady, match="fell silent"):
            await asking


async def test_a_server_that_works_for_longer_than_the_silence_is_waited_for(tmp_path: Path) -> None:
    seconds = BEAT_S * (SILENT_BEATS + 2)
    async with calling_bus(tmp_path / "nats") as (url, bus), answering(url, seconds) as only:
        asking = asyncio.create_task(ask(bus))
        await until_said(only, b"taken")
        # As long as the stall of a busy machine: no reason to ask another one.
        with pause(only.pid):
            await asyncio.wait([asking], timeout=BEAT_S * 2)
        assert await asking == only.pid


async def test_nobody_at_all_is_told_at_once(tmp_path: Path) -> None:
    async with calling_bus(tmp_path / "nats") as (_, bus):
        with pytest.raises(FathomError, match="nobody serves"):
            await ask(bus)

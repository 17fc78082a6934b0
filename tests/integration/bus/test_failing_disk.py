"""A server whose disk could not be written starts again, since its streams take nothing more; and its memory."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import httpx
import pytest

from fathom.core.errors import NotReady
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import Bus
from fathom.transport.bus.nats.server import MEMORY_LIMIT, NatsServer
from fathom.transport.bus.streams import events_subject
from fathom.transport.store import open_store
from tests.support.waiting import eventually

SUBJECT = events_subject("run_disk")
# A stream writes to the file that it has open until this is full, and then begins another one.
PAYLOAD, FILE_BYTES = b"x" * 400_000, 10_000_000


async def fill(bus: Bus, name: str) -> None:
    """Publish until the stream has begun another file."""
    for number in range(FILE_BYTES // len(PAYLOAD)):
        await bus.publish(SUBJECT, PAYLOAD, message_id=f"{name}-{number}")


@pytest.mark.slow  # until a publisher gives up
async def test_a_bus_stores_again_after_its_disk_could_not_be_written(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as nats:
        bus = await open_bus(nats.url, open_store("memory://"))
        await bus.publish(SUBJECT, PAYLOAD, message_id="before")
        (folder,) = (tmp_path / "nats").glob("**/EVENTS/msgs")
        away = folder.rename(tmp_path / "away")
        with pytest.raises(NotReady):
            await fill(bus, "meanwhile")
        away.rename(folder)
        first = nats.pid
        keeping = asyncio.create_task(nats.keep_up())
        await eventually(lambda: nats.pid != first, within_s=60)
        await fill(bus, "afterwards")
        keeping.cancel()
        await bus.close()


async def test_a_bus_may_fill_its_disk_however_little_was_free_when_it_started(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as nats, httpx.AsyncClient(base_url=nats.monitor_url) as monitor:
        limits = (await monitor.get("/varz")).json()["jetstream"]["config"]
    assert limits["max_storage"] == shutil.disk_usage(tmp_path).total


@pytest.mark.parametrize("own", ["", "64MiB"])
async def test_a_bus_has_a_limit_of_memory_unless_it_was_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.delenv("GOMEMLIMIT", raising=False)
    if own:
        monkeypatch.setenv("GOMEMLIMIT", own)
    async with NatsServer(tmp_path) as server:
        variables = (await asyncio.to_thread(Path(f"/proc/{server.pid}/environ").read_text)).split("\0")
    assert f"GOMEMLIMIT={own or MEMORY_LIMIT}" in variables

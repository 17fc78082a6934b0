"""A whole loss and what a backup brings back: real NATS, a real S3 server, memory's own database, a real command line."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.cli.backup import app
from fathom.services.memory.engine import Engine, Turn
from fathom.transport.bus import Bus, open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import topology
from fathom.transport.sockets import reserved_port
from fathom.transport.store import open_store
from tests.integration.s3_server import BUCKET, needs_rclone, serving

pytestmark = needs_rclone
# The sheet is larger than one message of NATS and than one part of an upload.
RECORD, SHEET = b'{"run": "run_1"}' * 1000, bytes(range(256)) * 40_000


@dataclass(frozen=True)
class Site:
    """Hold what there is to lose: addresses of bus, store and backups, and the folders behind them."""

    server: NatsServer
    folder: Path
    environ: Mapping[str, str]

    async def program(self, *words: str) -> str:
        """A command in a process of its own, the addresses in its environment as in a pod; what it printed."""
        command = [sys.executable, "-m", "fathom.cli.main", *words]
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **self.environ}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        said, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return said.decode()

    async def command(self, *words: str) -> tuple[int, str]:
        """The same in this process, which has imported everything already: its status and all that it said."""
        done = await asyncio.to_thread(CliRunner().invoke, app, list(words), env=self.environ)
        return done.exit_code, f"{done.output}{done.exception or ''}"


@pytest.fixture
def address() -> Iterator[str]:
    with reserved_port() as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
async def site(tmp_path: Path, address: str) -> AsyncIterator[Site]:
    async with NatsServer(tmp_path / "jetstream") as server, serving(tmp_path, address) as store:
        (tmp_path / "s3" / "backups").mkdir()
        environ = {
            "FATHOM_RUNTIME_BUS_URL": server.url,
            "FATHOM_RUNTIME_STORE_URL": store,
            "FATHOM_MEMORY_PATH": str(tmp_path / "memory" / "memory.sqlite3"),
            "FATHOM_BACKUP_URL": store.replace(f"/{BUCKET}?", "/backups?"),
        }
        yield Site(server, tmp_path, environ)


async def open_site_bus(site: Site) -> Bus:
    bus = await open_bus(site.server.url, open_store("memory://"))
    await bus.declare()
    return bus


async def settle(bus: Bus, durable: str, count: int) -> list[bytes]:
    """Takes messages from a queue and ends them."""
    found: list[bytes] = []
    async with asyncio.timeout(10), aclosing(bus.consume(durable)) as deliveries:
        async for delivery in deliveries:
            await delivery.ack()
            found.append(delivery.payload)
            if len(found) == count:
                return found
    return found


async def fill_site(site: Site) -> None:
    """Live a while of a system's life: runs queued and done, events, a served version, a record, a sheet, a conversation."""
    bus, store = await open_site_bus(site), open_store(site.environ["FATHOM_RUNTIME_STORE_URL"])
    for number in range(5):
        await bus.publish("fathom.runs.interactive", f"run {number}".encode(), message_id=f"run-{number}")
    assert await settle(bus, "planner-interactive", 2) == [b"run 0", b"run 1"]
    # Random, so that compression cannot make the stream small enough for one chunk.
    events = [b"event %d " % number + os.urandom(2000) for number in range(1000)]
    await asyncio.gather(*(
        bus.publish("fathom.events.run_1", event, message_id=f"event-{number}") for number, event in enumerate(events)
    ))  # fmt: skip
    await bus.bucket("SERVING").put("main.interactive", b"version 7")
    await bus.close()
    await store.put("runs/run_1/header.json", RECORD, "application/json")
    await store.put("sheets/sheet_1.arrow", SHEET, "application/vnd.apache.arrow.stream")
    # The same content under a second name is stored once in a backup.
    await store.put("sheets/same.arrow", SHEET, "application/vnd.apache.arrow.stream")
    await store.close()
    memory = Engine(Path(site.environ["FATHOM_MEMORY_PATH"]))
    await memory.start()
    await memory.append("request_1", "conversation_1", Turn("What of Apple?", "", "It grew.", "run_1"))
    await memory.close()


async def lose(site: Site) -> None:
    """Every disk but the one of the backups."""
    await site.server.stop()
    for folder in ("jetstream", "memory", f"s3/{BUCKET}"):
        shutil.rmtree(site.folder / folder)
    (site.folder / "s3" / BUCKET).mkdir()
    await site.server.start()


async def test_everything_is_there_again_after_a_whole_loss(site: Site) -> None:
    await fill_site(site)
    made = await site.program("backup", "create")
    assert "stream RUNS: 3 messages" in made, "what was done is not in the queue"
    assert "stream EVENTS: 1000 messages" in made
    await lose(site)
    await site.program("backup", "restore")

    bus, store = await open_site_bus(site), open_store(site.environ["FATHOM_RUNTIME_STORE_URL"])
    assert await settle(bus, "planner-interactive", 3) == [b"run 2", b"run 3", b"run 4"], "in order, and none twice"
    events: list[bytes] = []
    # Sequence numbers must be those of before: readers hold them as their places.
    async with asyncio.timeout(10), aclosing(bus.follow("fathom.events.run_1", after=990)) as followed:
        async for event in followed:
            assert event.sequence == 991 + len(events), "readers go on where they were"
            events.append(event.payload)
            if len(events) == 10:
                break
    entry = await bus.bucket("SERVING").get("main.interactive")
    assert entry is not None
    assert entry.value == b"version 7"
    await bus.close()
    assert await store.get("runs/run_1/header.json") == RECORD
    assert await store.get("sheets/sheet_1.arrow") == await store.get("sheets/same.arrow") == SHEET
    head = await store.head("sheets/sheet_1.arrow")
    assert head is not None
    assert head.content_type == "application/vnd.apache.arrow.stream"
    await store.close()
    memory = Engine(Path(site.environ["FATHOM_MEMORY_PATH"]))
    await memory.start()
    (turn,), _ = await memory.list_turns("conversation_1", 10, "")
    assert (turn.question, turn.answer, turn.run) == ("What of Apple?", "It grew.", "run_1")
    await memory.close()


async def test_a_restore_throws_nothing_away_unless_it_is_told_to(site: Site) -> None:
    await fill_site(site)
    assert (await site.command("create"))[0] == 0
    status, said = await site.command("restore")
    assert status == 1
    assert "exists already" in said
    # One obstacle out of the way, to see that the next one stops it as well.
    (site.folder / "memory" / "memory.sqlite3").unlink()
    status, said = await site.command("restore")
    assert status == 1
    assert "stream RUNS holds 3 messages already" in said
    status, said = await site.command("restore", "--replace")
    assert status == 0, said
    assert "stream RUNS: 3 messages" in said


async def test_only_new_contents_cost_and_old_backups_go(site: Site) -> None:
    await fill_site(site)
    blobs, sizes = site.folder / "s3" / "backups" / "blobs", []
    for _ in range(3):
        status, said = await site.command("create", "--keep", "2", "--bus", "")
        assert status == 0, said
        sizes.append(len([path for path in blobs.rglob("*") if path.is_file()]))
    # Contents are named by their checksums: a second backup of the same things adds none.
    assert sizes == [3, 3, 3], "the record, one sheet of two names, the database"
    listed = (await site.command("list"))[1].splitlines()
    assert len(listed) == 2
    assert all("3 objects, conversations" in line for line in listed)


async def test_a_spoilt_backup_says_so(site: Site) -> None:
    await fill_site(site)
    assert (await site.command("create", "--bus", ""))[0] == 0
    assert (await site.command("verify"))[0] == 0
    largest = max((site.folder / "s3" / "backups" / "blobs").rglob("*"), key=lambda path: path.stat().st_size)
    # One byte of the largest content, its length as before: only the checksum can tell.
    largest.write_bytes(b"?" + largest.read_bytes()[1:])
    status, said = await site.command("verify")
    assert status == 1
    assert "is corrupt: SHA-256" in said
    assert "no backup 'backup_of_nobody'" in (await site.command("restore", "backup_of_nobody"))[1]


async def test_all_streams_are_in_a_backup(site: Site) -> None:
    await fill_site(site)
    _, said = await site.command("create", "--store", "")
    declared = topology()
    named = [stream.name for stream in declared.streams] + [bucket.stream.name for bucket in declared.buckets]
    assert [line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("stream ")] == named


async def test_a_backup_lies_elsewhere_than_what_it_is_of(site: Site) -> None:
    status, said = await site.command("create", "--at", site.environ["FATHOM_RUNTIME_STORE_URL"])
    assert status == 1
    assert "is lost with it" in said

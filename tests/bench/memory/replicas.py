"""Two replicas of memory on one PostgreSQL, killed in turn while turns are appended: none may be lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients.services import MemoryClient
from fathom.clients.transport import GrpcTransport
from fathom.core.errors import FathomError
from fathom.core.telemetry import Telemetry

CONVERSATIONS, WRITERS, PAUSE_S = 20, 8, 0.05


@dataclass
class Report:
    """Count what became of the turns."""

    asked: int
    kills: int = 0
    failed_calls: int = 0
    lost: int = 0
    doubled: int = 0
    gaps: int = 0


@dataclass
class Replica:
    """A process of the service that is killed and started again at one port."""

    database: str
    folder: Path
    port: int = field(default_factory=lambda: find_port())
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environment = os.environ | {
            "FATHOM_MEMORY_DATABASE_URL": self.database,
            "FATHOM_RUNTIME_PORT": str(self.port),
            "FATHOM_RUNTIME_LOG_LEVEL": "critical",
        }
        command = [sys.executable, "-m", "fathom.services.memory"]
        self.process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=self.folder)

    async def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            await self.process.wait()


def find_port() -> int:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def kill_in_turn(database: str, turns: int, kills_every: int) -> Report:
    """Append turns by callers that repeat what failed, and kill a replica after every so many; return what is stored."""
    report, queue = Report(turns), iter(range(turns))
    with tempfile.TemporaryDirectory() as folder:
        replicas = [Replica(database, Path(folder)) for _ in range(2)]
        for replica in replicas:
            await replica.start()
        transport = GrpcTransport("ipv4:" + ",".join(f"127.0.0.1:{replica.port}" for replica in replicas))
        client = MemoryClient(transport, Telemetry("bench", log_level="critical"))
        stored: Counter[str] = Counter()
        try:
            killer = asyncio.create_task(kill(replicas, report, stored, kills_every))
            await asyncio.gather(*(append(client, queue, report, stored) for _ in range(WRITERS)))
            killer.cancel()
            with suppress(asyncio.CancelledError):
                await killer
            await count(client, report)
        finally:
            await transport.close()
            for replica in replicas:
                await replica.kill()
    return report


async def append(client: MemoryClient, queue: object, report: Report, stored: Counter[str]) -> None:
    """Append turns of the queue, each until it is stored."""
    for number in queue:  # type: ignore[attr-defined]
        conversation = f"conv_{number % CONVERSATIONS}"
        turn = pb.Turn(question=f"question {number}", answer=f"It is {number}.5%.")
        request = pb.AppendTurnRequest(request_id=f"turn_{number}", conversation_id=conversation, turn=turn)
        while True:
            try:
                await client.append_turn(request, timeout_s=10.0)
                break
            except FathomError:
                report.failed_calls += 1
                await asyncio.sleep(PAUSE_S)
        stored[conversation] += 1


async def kill(replicas: list[Replica], report: Report, stored: Counter[str], every: int) -> None:
    """Kill the replicas in turn, each when so many more turns are stored, and start them again."""
    wanted = every
    while True:
        await asyncio.sleep(PAUSE_S)
        if stored.total() >= wanted:
            replica = replicas[report.kills % len(replicas)]
            await replica.kill()
            report.kills += 1
            await replica.start()
            wanted = stored.total() + every


async def count(client: MemoryClient, report: Report) -> None:
    """Compare what is stored with what was asked."""
    found: Counter[str] = Counter()
    for place in range(CONVERSATIONS):
        numbers, token = [], ""
        while True:
            request = pb.ListTurnsRequest(conversation_id=f"conv_{place}", page_size=500, page_token=token)
            page = await client.list_turns(request, timeout_s=30.0)
            found.update(turn.question for turn in page.turns)
            numbers += [turn.number for turn in page.turns]
            token = page.next_page_token
            if not token:
                break
        report.gaps += numbers != list(range(1, len(numbers) + 1))
    report.lost = sum(f"question {number}" not in found for number in range(report.asked))
    report.doubled = sum(times > 1 for times in found.values())

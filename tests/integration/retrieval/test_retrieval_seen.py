"""Test what a run has seen over a real nats-server: two replicas, and a third after both are gone."""

from __future__ import annotations

import io
from contextlib import AsyncExitStack
from pathlib import Path

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.server import build
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.status import from_status
from fathom.transport.store import open_store


async def test_what_one_replica_has_shown_another_may_read(corpus_dir: Path, tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path / 'store'}")

    async def replica(stack: AsyncExitStack, url: str) -> Clients:
        telemetry = Telemetry("retrieval", stream=io.StringIO())
        bus = await open_bus(url, store)
        stack.push_async_callback(bus.close)
        await bus.declare()
        deps = Deps(Clients({}, telemetry), store, bus, telemetry)
        hosted = await stack.enter_async_context(hosting(build(Config(corpus_dir=corpus_dir), deps), deps, Runtime()))
        await hosted.warm
        clients = Clients({"retrieval": hosted.url}, telemetry)
        stack.push_async_callback(clients.close)
        return clients

    async def reads(clients: Clients, ident: str, run: str) -> bool:
        (result,) = (await clients.retrieval.fetch(pb.FetchRequest(ids=[ident], enforce_seen_by_run=run))).results
        assert result.status.code == 0 or isinstance(from_status(result.status), errors.NotFound)
        return bool(result.status.code == 0)

    async with NatsServer(tmp_path / "nats") as nats:
        async with AsyncExitStack() as stack:
            # Each with a bus connection and caches of its own, as two pods have.
            first, second = await replica(stack, nats.url), await replica(stack, nats.url)
            request = pb.SearchRequest(queries=["maximum drawdown"], top_k=3, run="run_1")
            (result,) = (await first.retrieval.search(request)).results
            ids = [hit.id for hit in result.hits]
            assert len(ids) == 3
            assert all([await reads(second, ident, "run_1") for ident in ids])
            assert not await reads(second, ids[0], "run_2")
        async with AsyncExitStack() as stack:
            assert await reads(await replica(stack, nats.url), ids[0], "run_1"), "after a restart"

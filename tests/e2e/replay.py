"""A gateway over doubles of its own boundary: small servicers that replay one realistic run, event by event.

They stand behind the real clients (``inproc://``), so typed errors, retries and streams are the real ones.
``ReplayPlanner.hold`` stops the replay before an event until ``release`` is called.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients, RetryPolicy
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import HostedHttp, Runtime, hosting_http
from fathom.services.gateway.config import Config
from fathom.services.gateway.server import HttpService, build
from fathom.transport.bus import open_bus
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.refs import to_ref
from tests.e2e.doubles.data import ReplayDatafetch, ReplayRetrieval
from tests.e2e.doubles.memory import ReplayMemory
from tests.e2e.doubles.planner import ReplayPlanner
from tests.e2e.sandbox import ReplaySandbox
from tests.e2e.script import Script


class ReplayPolicy:
    """Two models, the second of them warming; the first plays every role."""

    async def GetModel(self, request: policy.GetModelRequest, call: Call) -> policy.GetModelResponse:
        return policy.GetModelResponse(model=policy.Model(name="rules", engine="rules", state=policy.MODEL_STATE_READY))

    async def ListModels(self, request: policy.ListModelsRequest, call: Call) -> policy.ListModelsResponse:
        rules = policy.Model(name="rules", engine="rules", state=policy.MODEL_STATE_READY)
        small = policy.Model(name="smollm2-135m", engine="transformers", state=policy.MODEL_STATE_WARMING, exact=True)
        return policy.ListModelsResponse(models=[rules, small])


@dataclass(frozen=True)
class ReplayHouse:
    """Everything behind and including a gateway; ``url`` is empty unless it is served."""

    planner: ReplayPlanner
    memory: ReplayMemory
    datafetch: ReplayDatafetch
    retrieval: ReplayRetrieval
    store: MemoryStore
    service: HttpService
    dispatchers: Mapping[str, Dispatcher]
    log: io.StringIO
    url: str = ""


@asynccontextmanager
async def replay_house(
    script: Script, sandbox: ReplaySandbox | None = None, **settings: Any
) -> AsyncIterator[tuple[ReplayHouse, Deps]]:
    """A gateway with its doubles in this process; without a ``sandbox`` there is none."""
    store, log = MemoryStore(), io.StringIO()
    telemetry = Telemetry("replay", stream=log)
    bus = await open_bus("memory://", store)
    run_planner = ReplayPlanner(script)
    remembered = ReplayMemory(run_planner)
    fetched, documents = ReplayDatafetch(script, store), ReplayRetrieval(store)
    servicers: dict[str, Any] = {
        **({"sandbox": sandbox} if sandbox is not None else {}),
        "planner": run_planner,
        "datafetch": fetched,
        "memory": remembered,
        "retrieval": documents,
        "policy": ReplayPolicy(),
    }
    dispatchers = {name: Dispatcher(Service(name, servicer), telemetry) for name, servicer in servicers.items()}
    for dispatcher in dispatchers.values():
        dispatcher.ready = True
    endpoints = {name: f"inproc://{name}" for name in servicers}
    clients = Clients(endpoints, telemetry, dispatchers=dispatchers, policy=RetryPolicy(attempts=1))
    deps = Deps(clients, store, bus, telemetry)
    for number, figure in enumerate(script.figures, 1):
        stored = await store.put(f"figures/replayed/fig_{number}.json", json.dumps(figure).encode(), "application/json")
        script.figure_refs.append(to_ref(stored))
    service = build(Config(**settings), deps)
    try:
        yield ReplayHouse(run_planner, remembered, fetched, documents, store, service, dispatchers, log), deps
    finally:
        await service.close()
        await remembered.reviews.close()
        await run_planner.close()
        await clients.close()
        await bus.close()


@asynccontextmanager
async def serve_script(
    script: Script, sandbox: ReplaySandbox | None = None, **settings: Any
) -> AsyncIterator[ReplayHouse]:
    """Serve the same behind a real HTTP server on a free port."""
    async with replay_house(script, sandbox, **settings) as (house, deps):
        hosted: HostedHttp
        async with hosting_http(house.service, deps, Runtime(grace_s=1.0)) as hosted:
            yield replace(house, url=hosted.url)

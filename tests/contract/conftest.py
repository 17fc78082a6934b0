"""Every domain's mirror behind each of the three transports."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.clients import Clients, RetryPolicy
from fathom.core.identity import ANY_SERVICE, OPERATOR, Credentials, Tokens, make_keys
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.rpc.contract import DOMAINS
from fathom.transport.rpc.service import Service
from fathom.transport.store import open_store
from tests.contract.mirror import Mirror

Connect = Callable[..., Clients]
SIGNING, PUBLIC = make_keys()
TOKENS = Tokens(SIGNING)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[dict[str, Mirror], Connect]]:
    """All mirrors hosted once, on real gRPC and a real nats-server; ``connect(transport, tenant=…)`` gives clients.

    Callers are operators of their tenant, unless they show another ``role`` or ``token``.
    """
    folder: Path = tmp_path_factory.mktemp("house")
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(NatsServer(folder / "nats"))
        store = open_store(f"file://{folder / 'store'}")
        bus = await open_bus(nats.url, store)
        stack.push_async_callback(bus.close)
        telemetry = Telemetry("mirror", stream=io.StringIO())
        mirrors, hosted = {}, {}
        for name in DOMAINS:
            mirrors[name] = Mirror(name)
            deps = Deps(Clients({}, telemetry), store, bus, telemetry, TOKENS)
            service = Service(name, mirrors[name])
            hosted[name] = await stack.enter_async_context(hosting(service, deps, Runtime(grace_s=0.1)))
            await hosted[name].warm

        def connect(
            transport: str, tenant: str = "default", role: str = OPERATOR, token: str = "", **options: object
        ) -> Clients:
            given = token or TOKENS.sign("test", ANY_SERVICE, role=role, tenant=tenant)
            endpoints = {
                name: {"grpc": service.url, "nats": "nats://", "inproc": f"inproc://{name}"}[transport]
                for name, service in hosted.items()
            }
            dispatchers = {name: service.dispatcher for name, service in hosted.items()}
            policy = RetryPolicy(attempts=1)
            clients = Clients(
                endpoints,
                telemetry,
                bus=bus,
                dispatchers=dispatchers,
                policy=policy,
                tenant=tenant,
                credentials=Credentials(lambda _: given, 1e9),
                **options,  # type: ignore[arg-type]
            )  # type: ignore[arg-type]
            stack.push_async_callback(clients.close)
            return clients

        yield mirrors, connect

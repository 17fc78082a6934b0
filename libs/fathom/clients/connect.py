"""Creating clients from endpoint URLs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from fathom.clients.client import Client
from fathom.clients.services import (
    DatafetchClient,
    MemoryClient,
    PlannerClient,
    PolicyClient,
    RetrievalClient,
    RewardClient,
    SandboxClient,
)
from fathom.clients.sticky import StickyTransport
from fathom.clients.transport import BusTransport, GrpcTransport, InprocTransport, Transport
from fathom.core.call import DEFAULT_TENANT, Lane
from fathom.core.errors import InvalidField
from fathom.core.identity import Credentials, environment_credentials
from fathom.core.retry import RetryPolicy
from fathom.core.tracing import AmbientTelemetry, ClientTelemetry
from fathom.transport.bus.base import Bus

if TYPE_CHECKING:
    from fathom.transport.rpc.dispatch import Dispatcher

C = TypeVar("C", bound=Client)


class Clients:
    """One client per service, created on first use; ``close`` closes their channels."""

    def __init__(
        self,
        endpoints: Mapping[str, str],
        telemetry: ClientTelemetry,
        *,
        bus: Bus | None = None,
        dispatchers: Mapping[str, Dispatcher] | None = None,
        policy: RetryPolicy | None = None,
        lane: Lane = Lane.INTERACTIVE,
        tenant: str = DEFAULT_TENANT,
        credentials: Credentials | None = None,
    ) -> None:
        self.endpoints = dict(endpoints)
        self._telemetry, self._bus, self._dispatchers = telemetry, bus, dispatchers or {}
        self._policy, self._lane, self._tenant, self._credentials = policy, lane, tenant, credentials
        self._open: list[Transport] = []
        self._wrap: Callable[[Transport], Transport] | None = None

    def wrap_transports(self, wrap: Callable[[Transport], Transport]) -> Clients:
        """Return clients of the same services whose calls go through ``wrap``; these close their channels, too."""
        made = Clients(
            self.endpoints,
            self._telemetry,
            bus=self._bus,
            dispatchers=self._dispatchers,
            policy=self._policy,
            lane=self._lane,
            tenant=self._tenant,
            credentials=self._credentials,
        )
        made._open, made._wrap = self._open, wrap
        return made

    @cached_property
    def datafetch(self) -> DatafetchClient:
        return self._client(DatafetchClient)

    @cached_property
    def memory(self) -> MemoryClient:
        return self._client(MemoryClient)

    @cached_property
    def planner(self) -> PlannerClient:
        return self._client(PlannerClient)

    @cached_property
    def policy(self) -> PolicyClient:
        return self._client(PolicyClient)

    @cached_property
    def retrieval(self) -> RetrievalClient:
        return self._client(RetrievalClient)

    @cached_property
    def reward(self) -> RewardClient:
        return self._client(RewardClient)

    @cached_property
    def sandbox(self) -> SandboxClient:
        return self._client(SandboxClient)

    def _client(self, kind: type[C]) -> C:
        field = f"endpoints.{kind.service}"
        url = self.endpoints.get(kind.service)
        if url is None:
            raise InvalidField(field, f"no URL is configured; known: {', '.join(sorted(self.endpoints)) or 'none'}")
        transport = self._transport(field, url)
        # Kept for close: a client is created on first use, and its channel belongs to this object.
        self._open.append(transport)
        transport = transport if self._wrap is None else self._wrap(transport)
        return kind(
            transport,
            self._telemetry,
            policy=self._policy,
            lane=self._lane,
            tenant=self._tenant,
            credentials=self._credentials,
        )

    def _transport(self, field: str, url: str) -> Transport:
        parts = urlsplit(url)
        # Several named targets mean that state lives in a replica (sandbox sessions, prefix caches), so the client
        # chooses; a headless name leaves the choice to gRPC's round robin.
        if parts.scheme == "grpc" and "," in parts.netloc:
            return StickyTransport([(target, GrpcTransport(target)) for target in parts.netloc.split(",") if target])
        if parts.scheme == "grpc" and parts.netloc:
            return GrpcTransport(parts.netloc)
        if parts.scheme == "nats":
            if self._bus is None:
                raise InvalidField(field, f"{url} needs a bus, and none is open")
            return BusTransport(self._bus)
        if parts.scheme == "inproc":
            dispatcher = self._dispatchers.get(parts.netloc)
            if dispatcher is None:
                raise InvalidField(field, f"no service {parts.netloc!r} runs in this process")
            return InprocTransport(dispatcher)
        raise InvalidField(field, f"{url!r} is no grpc://host:port, nats:// or inproc://service URL")

    async def close(self) -> None:
        for transport in self._open:
            await transport.close()


def connect(
    endpoints: Mapping[str, str],
    telemetry: ClientTelemetry | None = None,
    *,
    lane: Lane = Lane.INTERACTIVE,
    policy: RetryPolicy | None = None,
) -> Clients:
    """Return clients for programs that are not services: a terminal, a notebook, a trainer. Needs no extra.

    They show the token in ``FATHOM_TOKEN``, if there is one, and the tenant is then the token's. Calls are traced with
    the program's own OpenTelemetry where it has one, or with ``telemetry``.
    """
    credentials = environment_credentials(os.environ)
    return Clients(endpoints, telemetry or AmbientTelemetry(), lane=lane, policy=policy, credentials=credentials)

"""Dispatch of a call to the servicer's method through the interceptors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message

from fathom.core.call import TENANT_HEADER, Call, CurrentCall
from fathom.core.deadline import TimeLimit
from fathom.core.errors import Internal, NotImplementedYet, NotReady, PermissionDenied, Unauthenticated
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.access import Gate, access_of
from fathom.transport.rpc.contract import Contract, Method, contract
from fathom.transport.rpc.door import Door, OpenDoor
from fathom.transport.rpc.idempotency import MAX_BYTES, Idempotency
from fathom.transport.rpc.interceptors import Errors, Exchange, Interception, Metrics, Trace
from fathom.transport.rpc.requests import check_request
from fathom.transport.rpc.service import Service

# Seconds that a caller waits before it asks a service again that is starting; warm-ups take seconds.
RETRY_WHILE_WARMING_S = 0.5


class Dispatcher:
    """Runs the calls of one service for every transport; rejects calls with ``NotReady`` unless ``ready``."""

    def __init__(
        self, service: Service, telemetry: Telemetry, *, door: Door | None = None, idempotency_bytes: int = MAX_BYTES
    ) -> None:
        """``idempotency_bytes`` bounds the replies that are held for repeated requests.

        Without a ``door``, callers are not identified. Raises ``Internal`` for a contract with an RPC that declares no
        access.
        """
        self.service = service
        self.contract: Contract = contract(service.name)
        self.ready = False
        for method in self.contract.methods.values():
            access_of(method)
        self._door: Door = door or OpenDoor()
        self._telemetry = telemetry
        self._interceptors = (Trace(telemetry), Metrics(telemetry), Errors(telemetry), Gate(telemetry))
        held_bytes = telemetry.rpc.held_bytes.labels(service.name)
        self._idempotency = Idempotency(held_bytes, max_bytes=idempotency_bytes)

    def admit(self, headers: Mapping[str, str], timeout_s: float | None = None) -> Call:
        """Return the call of a caller that may enter, from its headers.

        Raises ``InvalidField``, ``Unauthenticated`` and ``PermissionDenied``.
        """
        try:
            return self._door.admit(headers, timeout_s)
        except (Unauthenticated, PermissionDenied) as error:
            self._telemetry.log.info(
                "audit",
                tenant=headers.get(TENANT_HEADER, ""),
                principal="",
                rpc=self.service.name,
                resource="",
                outcome=error.code,
                error=error.message,
            )
            raise

    async def answer(
        self, method: Method, request: Message | AsyncIterator[Message], call: Call, transport: str
    ) -> Message:
        """Return the response of a call to a method that has one; raise ``FathomError`` only.

        ``request`` is an iterator where the method takes a stream of requests.
        """
        exchange = Exchange(method, request, call, transport)
        with Interception(self._interceptors, exchange):
            exchange.request = check_request(request)
            return await self._idempotency.answer(exchange, self._respond)

    async def stream(
        self, method: Method, request: Message | AsyncIterator[Message], call: Call, transport: str
    ) -> AsyncGenerator[Message, None]:
        """Yield the responses of a call to a method that streams them; raise ``FathomError`` only."""
        exchange = Exchange(method, request, call, transport)
        with Interception(self._interceptors, exchange):
            exchange.request = check_request(request)
            implementation, call = self._find_implementation(method), exchange.call
            async with aclosing(implementation(exchange.request, call)) as responses:
                while True:
                    try:
                        # The limit and the current call hold while the handler runs, not while the consumer does.
                        with CurrentCall(call):
                            async with limit_time(exchange):
                                response = await anext(responses)
                    except StopAsyncIteration:
                        return
                    yield check_type(response, method)

    async def _respond(self, exchange: Exchange) -> Message:
        method, call = exchange.method, exchange.call
        implementation = self._find_implementation(method)
        with CurrentCall(call):
            # A timeout of the handler's own, e.g. of a socket, passes: ``Errors`` reports it.
            async with limit_time(exchange):
                return check_type(await implementation(exchange.request, call), method)

    def _find_implementation(self, method: Method) -> Any:
        """Return the servicer's method: a coroutine function for one response, an async generator's for many."""
        if not self.ready:
            raise NotReady(
                f"{self.service.name} does not serve: it starts, drains or misses what it needs",
                retry_after_s=RETRY_WHILE_WARMING_S,
            )
        implementation: Any = getattr(self.service.servicer, method.name, None)
        if implementation is None:
            plans: dict[str, str] = getattr(self.service.servicer, "unimplemented", {})
            raise NotImplementedYet(f"{method.service}.{method.name}", plans.get(method.name, "not planned"))
        return implementation


def limit_time(exchange: Exchange) -> TimeLimit:
    """Return the time limit of a call's handler: its caller's deadline."""
    service, name = exchange.method.service, exchange.method.name
    limit = asyncio.timeout(exchange.call.remaining_s())
    return TimeLimit(limit, service, f"{service}.{name} was stopped at its deadline")


def check_type(response: Any, method: Method) -> Message:
    """Return the response, or raise ``Internal`` if the servicer returned a type other than the contract's."""
    if not isinstance(response, method.response_type):
        raise Internal(f"{method.service}.{method.name} returned {type(response).__name__}")
    return response

"""Dispatch of a call to the servicer's method through the interceptor chain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message

from fathom.core.call import TENANT_HEADER, Call
from fathom.core.errors import Internal, NotImplementedYet, NotReady, PermissionDenied, Unauthenticated
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.access import Gate, access_of
from fathom.transport.rpc.contract import Contract, Method, contract
from fathom.transport.rpc.door import Door, OpenDoor
from fathom.transport.rpc.idempotency import MAX_BYTES, Idempotency
from fathom.transport.rpc.interceptors import Deadline, Errors, Handler, Metrics, Trace, chain
from fathom.transport.rpc.requests import check_each
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
        held_bytes = telemetry.rpc.held_bytes.labels(service.name)
        self._idempotency = Idempotency(held_bytes, max_bytes=idempotency_bytes)
        self._handlers: dict[str, Handler] = {}

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

    def handle(
        self, method: Method, requests: AsyncIterator[Message], call: Call, transport: str
    ) -> AsyncGenerator[Message, None]:
        """Yield the responses of one call: exactly one unless the method streams them.

        Raises ``FathomError`` only.
        """
        return self._handler(transport)(method, check_each(requests), call)

    def _handler(self, transport: str) -> Handler:
        if transport not in self._handlers:
            telemetry = self._telemetry
            self._handlers[transport] = chain(
                self._invoke,
                Trace(telemetry),
                Metrics(telemetry, transport),
                Errors(telemetry),
                Gate(telemetry),
                self._idempotency,
                Deadline(),
            )
        return self._handlers[transport]

    async def _invoke(
        self, method: Method, requests: AsyncIterator[Message], call: Call
    ) -> AsyncGenerator[Message, None]:
        if not self.ready:
            raise NotReady(f"{self.service.name} is warming up or draining", retry_after_s=RETRY_WHILE_WARMING_S)
        implementation: Any = getattr(self.service.servicer, method.name, None)
        if implementation is None:
            plans: dict[str, str] = getattr(self.service.servicer, "unimplemented", {})
            raise NotImplementedYet(f"{method.service}.{method.name}", plans.get(method.name, "not planned"))
        argument: Any = requests if method.client_streaming else await anext(requests)
        # A coroutine for one response, an async generator for many.
        result = implementation(argument, call)
        if not method.server_streaming:
            yield check_type(await result, method)
            return
        async with aclosing(result) as responses:
            async for response in responses:
                yield check_type(response, method)


def check_type(response: Any, method: Method) -> Message:
    """Return the response, or raise ``Internal`` if the servicer returned a type other than the contract's."""
    if not isinstance(response, method.response_type):
        raise Internal(f"{method.service}.{method.name} returned {type(response).__name__}")
    return response

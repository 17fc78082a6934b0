"""Interceptor chain around every handler, the same on gRPC, NATS and in process and for all four method kinds.

A handler takes and returns async iterators of messages whatever the kind of the method, so each interceptor is written
once. Order, outermost first: trace, metrics, errors, gate (``access``), idempotency (``idempotency``), deadline.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from google.protobuf.message import Message
from opentelemetry.trace import SpanKind, StatusCode

from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.core.deadline import time_limit
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.contract import Method

Handler = Callable[[Method, AsyncIterator[Message], Call], AsyncGenerator[Message, None]]


class Interceptor(Protocol):
    """Wraps a handler; must not hold state of a call outside the generator."""

    def __call__(self, handler: Handler) -> Handler: ...


def chain(handler: Handler, *interceptors: Interceptor) -> Handler:
    """Wrap ``handler`` in all interceptors; the first one is outermost."""
    for interceptor in reversed(interceptors):
        handler = interceptor(handler)
    return handler


@dataclass(frozen=True)
class Trace:
    """Opens one span per call, child of the caller's; handlers see its id in ``call.traceparent``."""

    telemetry: Telemetry

    def __call__(self, handler: Handler) -> Handler:
        async def trace(method: Method, requests: AsyncIterator[Message], call: Call) -> AsyncGenerator[Message, None]:
            span, traceparent = self.telemetry.span(method.path, call.traceparent, SpanKind.SERVER)
            span.set_attribute("fathom.request_id", call.request_id)
            span.set_attribute("fathom.lane", call.lane.value)
            try:
                async with aclosing(handler(method, requests, replace(call, traceparent=traceparent))) as responses:
                    async for response in responses:
                        yield response
            except errors.FathomError as error:
                span.set_status(StatusCode.ERROR, error.reason)
                raise
            finally:
                span.end()

        return trace


@dataclass(frozen=True)
class Metrics:
    """Counts and times calls by method, transport and canonical code."""

    telemetry: Telemetry
    transport: str

    def __call__(self, handler: Handler) -> Handler:
        metrics = self.telemetry.rpc

        async def measure(
            method: Method, requests: AsyncIterator[Message], call: Call
        ) -> AsyncGenerator[Message, None]:
            labels = (method.service, method.name, self.transport)
            started, code = time.perf_counter(), "CANCELLED"
            metrics.in_flight.labels(method.service).inc()
            try:
                async with aclosing(handler(method, requests, call)) as responses:
                    async for response in responses:
                        # Who takes the only response does not come back for the end.
                        code = code if method.server_streaming else "OK"
                        yield response
                code = "OK"
            except errors.FathomError as error:
                code = error.code
                raise
            finally:
                metrics.in_flight.labels(method.service).dec()
                metrics.handled.labels(*labels, code).inc()
                metrics.seconds.labels(*labels).observe(time.perf_counter() - started)

        return measure


@dataclass(frozen=True)
class Errors:
    """Lets typed errors through and turns everything else into ``Internal`` with the cause in the log."""

    telemetry: Telemetry

    def __call__(self, handler: Handler) -> Handler:
        async def guard(method: Method, requests: AsyncIterator[Message], call: Call) -> AsyncGenerator[Message, None]:
            log = self.telemetry.log.bind(method=method.name, request_id=call.request_id, tenant=call.tenant)
            try:
                async with aclosing(handler(method, requests, call)) as responses:
                    async for response in responses:
                        yield response
            except errors.FathomError as error:
                log.info("call failed", reason=error.reason, error=error.message)
                raise
            except Exception as error:
                # The type names the cause; the text stays in the log, for it may hold secrets and paths.
                cause = type(error).__name__
                log.exception("handler failed", error=cause)
                message = (
                    f"{method.service}.{method.name} failed inside ({cause}); see its log for request {call.request_id}"
                )
                metadata = {"request_id": call.request_id, "culprit": method.service, "cause": cause}
                raise errors.Internal(message, metadata=metadata) from error

        return guard


@dataclass(frozen=True)
class Deadline:
    """Runs the handler with the call as the current one and stops it at the caller's deadline."""

    def __call__(self, handler: Handler) -> Handler:
        async def enforce(
            method: Method, requests: AsyncIterator[Message], call: Call
        ) -> AsyncGenerator[Message, None]:
            message = f"{method.service}.{method.name} was stopped at its deadline"
            async with aclosing(handler(method, requests, call)) as responses:
                while True:
                    try:
                        # The limit and the current call hold while the handler runs, not while the consumer does.
                        # A timeout of the handler's own, e.g. of a socket, passes: ``Errors`` reports it.
                        with calling(call):
                            async with time_limit(call.remaining_s(), method.service, message):
                                response = await anext(responses)
                    except StopAsyncIteration:
                        return
                    yield response

        return enforce

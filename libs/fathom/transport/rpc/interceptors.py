"""What surrounds every call, the same on gRPC, NATS and in process and for all four method kinds.

An interceptor is a context around the call, not around its messages: it is written once, and costs a call of one
response no generator. Order, outermost first: trace, metrics, errors, gate (``access``). Within them come idempotency
(``idempotency``) and the deadline.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import Counter, Gauge, Histogram

from fathom.core import errors
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.contract import Method


@dataclass(slots=True)
class Exchange:
    """One call under way; interceptors may replace its context."""

    method: Method
    request: Message | AsyncIterator[Message]
    """An iterator where the method takes a stream of requests."""
    call: Call
    transport: str


class Interceptor(Protocol):
    """Does something before and after a call; must not hold state of a call outside the context."""

    def around(self, exchange: Exchange) -> AbstractContextManager[None]:
        """Return the context in which the call is handled; an error of the handler is raised into it."""
        ...


@dataclass(frozen=True)
class Trace:
    """Opens one span per call, child of the caller's; handlers see its id in ``call.traceparent``."""

    telemetry: Telemetry

    @contextmanager
    def around(self, exchange: Exchange) -> Iterator[None]:
        call = exchange.call
        span, traceparent = self.telemetry.span(exchange.method.path, call.traceparent, SpanKind.SERVER)
        if traceparent != call.traceparent:
            exchange.call = call.with_trace(traceparent)
        span.set_attribute("fathom.request_id", call.request_id)
        span.set_attribute("fathom.lane", call.lane.value)
        try:
            yield
        except errors.FathomError as error:
            span.set_status(StatusCode.ERROR, error.reason)
            raise
        finally:
            span.end()


@dataclass(frozen=True)
class Series:
    """The metrics of one method on one transport."""

    in_flight: Gauge
    seconds: Histogram
    handled: dict[str, Counter]
    """By canonical code; those that have occurred."""


class Metrics:
    """Counts and times calls by method, transport and canonical code."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._metrics = telemetry.rpc
        # Looking a labelled metric up takes longer than counting with it.
        self._series: dict[tuple[str, str], Series] = {}

    @contextmanager
    def around(self, exchange: Exchange) -> Iterator[None]:
        series = self._find_series(exchange.method, exchange.transport)
        started, code = time.perf_counter(), "CANCELLED"
        series.in_flight.inc()
        try:
            yield
            code = "OK"
        except errors.FathomError as error:
            code = error.code
            raise
        finally:
            series.in_flight.dec()
            self._count(series, exchange, code)
            series.seconds.observe(time.perf_counter() - started)

    def _find_series(self, method: Method, transport: str) -> Series:
        series = self._series.get((method.path, transport))
        if series is None:
            metrics = self._metrics
            series = self._series[method.path, transport] = Series(
                metrics.in_flight.labels(method.service),
                metrics.seconds.labels(method.service, method.name, transport),
                {},
            )
        return series

    def _count(self, series: Series, exchange: Exchange, code: str) -> None:
        counter = series.handled.get(code)
        if counter is None:
            method = exchange.method
            labels = (method.service, method.name, exchange.transport, code)
            counter = series.handled[code] = self._metrics.handled.labels(*labels)
        counter.inc()


@dataclass(frozen=True)
class Errors:
    """Lets typed errors through and turns everything else into ``Internal`` with the cause in the log."""

    telemetry: Telemetry

    @contextmanager
    def around(self, exchange: Exchange) -> Iterator[None]:
        try:
            yield
        except errors.FathomError as error:
            self._log(exchange).info("call failed", reason=error.reason, error=error.message)
            raise
        except Exception as error:
            # The type names the cause; the text stays in the log, for it may hold secrets and paths.
            cause, method, request_id = type(error).__name__, exchange.method, exchange.call.request_id
            self._log(exchange).exception("handler failed", error=cause)
            message = f"{method.service}.{method.name} failed inside ({cause}); see its log for request {request_id}"
            metadata = {"request_id": request_id, "culprit": method.service, "cause": cause}
            raise errors.Internal(message, metadata=metadata) from error

    def _log(self, exchange: Exchange) -> Any:
        call = exchange.call
        return self.telemetry.log.bind(
            method=exchange.method.name, request_id=call.request_id, tenant=call.tenant, traceparent=call.traceparent
        )

"""Interceptors around every call, the same on gRPC, NATS and in process and for all four method kinds.

An interceptor acts before and after a call, not around its messages: it is written once, and costs a call of one
response no generator. Order, outermost first: trace, metrics, errors, gate (``access``). Within them come idempotency
(``idempotency``) and the deadline.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from google.protobuf.message import Message
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode
from prometheus_client import Counter, Gauge, Histogram

from fathom.core import errors
from fathom.core.call import Call, Lane
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.contract import Method


@dataclass(slots=True)
class Exchange:
    """One call under way, with what interceptors remember of it; they may replace its context."""

    method: Method
    request: Message | AsyncIterator[Message]
    """An iterator where the method takes a stream of requests."""
    call: Call
    transport: str
    started: float = field(default_factory=time.perf_counter)
    span: Span = INVALID_SPAN


class Interceptor(Protocol):
    """Acts before and after calls; what it remembers of one is in the exchange."""

    def begin(self, exchange: Exchange) -> None:
        """Act before the call; an error that is raised here ends it."""
        ...

    def end(self, exchange: Exchange, error: BaseException | None) -> BaseException | None:
        """Act after the call, also when ``begin`` raised; return the error with which it ends, None without one."""
        ...


class Interception:
    """Context in which a call is handled: the interceptors begin in their order, and end in the reverse one."""

    __slots__ = ("_begun", "_exchange", "_interceptors")

    def __init__(self, interceptors: Sequence[Interceptor], exchange: Exchange) -> None:
        self._interceptors, self._exchange, self._begun = interceptors, exchange, 0

    def __enter__(self) -> None:
        try:
            for interceptor in self._interceptors:
                self._begun += 1
                interceptor.begin(self._exchange)
        except Exception as error:  # whatever it is, those that have begun must end
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = error
        for interceptor in reversed(self._interceptors[: self._begun]):
            ended = interceptor.end(self._exchange, ended)
        if ended is not None and ended is not error:
            raise ended from error


@dataclass(frozen=True)
class Trace:
    """Opens one span per call, child of the caller's; handlers see its id in ``call.traceparent``."""

    telemetry: Telemetry

    def begin(self, exchange: Exchange) -> None:
        call = exchange.call
        span, traceparent = self.telemetry.span(exchange.method.path, call.traceparent, SpanKind.SERVER)
        if traceparent != call.traceparent:
            exchange.call = call.with_trace(traceparent)
        if span is not INVALID_SPAN:
            span.set_attribute("fathom.request_id", call.request_id)
            span.set_attribute("fathom.lane", call.lane.value)
            exchange.span = span

    def end(self, exchange: Exchange, error: BaseException | None) -> BaseException | None:
        if isinstance(error, errors.FathomError):
            exchange.span.set_status(StatusCode.ERROR, error.reason)
        exchange.span.end()
        return error


@dataclass(frozen=True)
class Series:
    """The metrics of one method on one transport in one lane."""

    in_flight: Gauge
    seconds: Histogram
    handled: dict[str, Counter]
    """By canonical code; those that have occurred."""


class Metrics:
    """Counts and times calls by method, transport, lane and canonical code."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._metrics = telemetry.rpc
        # Looking a labelled metric up takes longer than counting with it.
        self._series: dict[tuple[str, str, Lane], Series] = {}

    def begin(self, exchange: Exchange) -> None:
        self._find_series(exchange).in_flight.inc()

    def end(self, exchange: Exchange, error: BaseException | None) -> BaseException | None:
        series, code = self._find_series(exchange), find_code(error)
        series.in_flight.dec()
        counter = series.handled.get(code)
        if counter is None:
            method = exchange.method
            labels = (method.service, method.name, exchange.transport, exchange.call.lane.value, code)
            counter = series.handled[code] = self._metrics.handled.labels(*labels)
        counter.inc()
        series.seconds.observe(time.perf_counter() - exchange.started)
        return error

    def _find_series(self, exchange: Exchange) -> Series:
        method, transport, lane = exchange.method, exchange.transport, exchange.call.lane
        series = self._series.get((method.path, transport, lane))
        if series is None:
            metrics = self._metrics
            series = self._series[method.path, transport, lane] = Series(
                metrics.in_flight.labels(method.service),
                metrics.seconds.labels(method.service, method.name, transport, lane.value),
                {},
            )
        return series


@dataclass(frozen=True)
class Errors:
    """Lets typed errors through and turns everything else into ``Internal`` with the cause in the log."""

    telemetry: Telemetry

    def begin(self, exchange: Exchange) -> None:
        """Do nothing: what fails is looked at in the end."""

    def end(self, exchange: Exchange, error: BaseException | None) -> BaseException | None:
        # A cancellation is no failure.
        if not isinstance(error, Exception):
            return error
        method, call = exchange.method, exchange.call
        log: Any = self.telemetry.log.bind(
            method=method.name, request_id=call.request_id, tenant=call.tenant, traceparent=call.traceparent
        )
        if isinstance(error, errors.FathomError):
            log.info("call failed", reason=error.reason, error=error.message)
            return error
        # The type names the cause; the text stays in the log, for it may hold secrets and paths.
        cause = type(error).__name__
        log.error("handler failed", error=cause, exc_info=error)
        message = f"{method.service}.{method.name} failed inside ({cause}); see its log for request {call.request_id}"
        metadata = {"request_id": call.request_id, "culprit": method.service, "cause": cause}
        return errors.Internal(message, metadata=metadata)


def find_code(error: BaseException | None) -> str:
    """Return the canonical code with which a call ends."""
    if error is None:
        return "OK"
    if isinstance(error, errors.FathomError):
        return error.code
    return errors.Internal.code if isinstance(error, Exception) else errors.Cancelled.code

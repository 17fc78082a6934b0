"""Logs, metrics and traces of one service; no globals, so a process may host several services.

Metric names are ``fathom_rpc_*``; labels come from closed sets only (service, method, transport, lane, code).
"""

from __future__ import annotations

import logging
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from fathom.core.extras import name_missing_extra
from fathom.core.wsgi import WsgiThread

with name_missing_extra():
    import structlog
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Tracer
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

# From one millisecond, a call in this process, to five minutes, a research run.
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
# Of version 00, which is what is sent: neither id is all zeros; the last field has the flags.
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")
SAMPLED = 0x01


@dataclass(frozen=True)
class RpcMetrics:
    """Counters of the dispatcher and the clients."""

    handled: Counter
    seconds: Histogram
    in_flight: Gauge
    retries: Counter
    held_bytes: Gauge

    @classmethod
    def register(cls, registry: CollectorRegistry) -> RpcMetrics:
        labels = ("service", "method", "transport", "lane")
        return cls(
            Counter("fathom_rpc_handled", "Calls that ended, by code", (*labels, "code"), registry=registry),
            Histogram("fathom_rpc_seconds", "Time to end", labels, buckets=SECONDS_BUCKETS, registry=registry),
            Gauge("fathom_rpc_in_flight", "Calls being handled", ("service",), registry=registry),
            Counter("fathom_client_retries", "Attempts after the first", ("service", "method"), registry=registry),
            Gauge("fathom_rpc_held_bytes", "Held for repeated requests", ("service",), registry=registry),
        )


class Telemetry:
    """One service's logger (``log``), metric registry (``registry``), RPC metrics and tracer."""

    def __init__(
        self,
        service: str,
        *,
        log_level: str = "info",
        log_format: str = "json",
        otlp_endpoint: str = "",
        stream: TextIO | None = None,
    ) -> None:
        self.service = service
        # A registry of its own instead of prometheus_client's global one: several services in one process would
        # register the same names twice.
        self.registry = CollectorRegistry()
        lost = Counter("fathom_log_lines_lost", "Lines of the log that could not be written", registry=self.registry)
        self.log: Any = make_logger(service, log_level, log_format, stream or sys.stderr, lost.inc)
        self.rpc = RpcMetrics.register(self.registry)
        # Likewise a provider of its own.
        self._exports_spans = bool(otlp_endpoint)
        self._provider = TracerProvider(resource=Resource.create({"service.name": f"fathom-{service}"}))
        if otlp_endpoint:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter(endpoint=otlp_endpoint, insecure=True)
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Tracer = self._provider.get_tracer("fathom")
        self._propagator = TraceContextTextMapPropagator()
        self._metrics_server: WsgiThread | None = None

    def span(self, name: str, traceparent: str, kind: SpanKind) -> tuple[Span, str]:
        """Start a span under ``traceparent`` ("" for a new trace); return it and the traceparent of what it does.

        Where nothing is exported, or the trace is not sampled, no span is recorded, and the trace is passed on as it
        is.
        """
        known = TRACEPARENT.fullmatch(traceparent)
        if not self._exports_spans:
            return INVALID_SPAN, traceparent if known else make_traceparent()
        if known and not int(known[1], 16) & SAMPLED:
            return INVALID_SPAN, traceparent
        parent = self._propagator.extract({"traceparent": traceparent}) if traceparent else Context()
        span = self._tracer.start_span(name, context=parent, kind=kind)
        context = span.get_span_context()
        return span, f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def start_call(self, name: str, traceparent: str) -> tuple[Span, str]:
        """Start the span of a call to another service."""
        return self.span(name, traceparent, SpanKind.CLIENT)

    def count_retry(self, service: str, method: str) -> None:
        """Count one further attempt of a call to another service."""
        self.rpc.retries.labels(service, method).inc()

    def export_value(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """Export a value that is read each time that it is asked for."""
        Gauge(name, documentation, registry=self.registry).set_function(read)

    def serve_metrics(self, host: str, port: int) -> int:
        """Serve ``/metrics`` for Prometheus on a separate thread; return the port."""
        self._metrics_server = WsgiThread(f"metrics of {self.service}", make_wsgi_app(self.registry), host, port)
        return self._metrics_server.port

    def close(self) -> None:
        """Flush spans and stop the metrics endpoint."""
        if self._metrics_server is not None:
            self._metrics_server.close()
            self._metrics_server = None
        self._provider.shutdown()


def make_traceparent(*, is_sampled: bool = True) -> str:
    """Return the traceparent of a new trace; of one that is not sampled no span is kept."""
    ids = f"{random.getrandbits(192):048x}"
    return f"00-{ids[:32]}-{ids[32:]}-{SAMPLED if is_sampled else 0:02x}"


class LineWriter(structlog.PrintLogger):
    """Writes lines to a stream; one that cannot be written, as on a full disk, is lost, and fails nobody's call."""

    def __init__(self, stream: TextIO, note_loss: Callable[[], None]) -> None:
        super().__init__(stream)
        self._note_loss = note_loss

    def msg(self, message: str) -> None:
        try:
            super().msg(message)
        except OSError:
            self._note_loss()

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def make_logger(service: str, level: str, log_format: str, stream: TextIO, note_loss: Callable[[], None]) -> Any:
    """Return a structlog logger that writes JSON lines, or readable lines for ``log_format="console"``.

    ``note_loss`` is called for each line that cannot be written.
    """
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=stream.isatty())
        if log_format == "console"
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    processors = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        renderer,
    ]
    logger = structlog.wrap_logger(
        LineWriter(stream, note_loss),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=False,
    )
    return logger.bind(service=service)

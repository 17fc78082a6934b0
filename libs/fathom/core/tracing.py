"""Interfaces through which a client traces and counts its calls, with or without OpenTelemetry."""

from __future__ import annotations

from typing import Any, Protocol


class Span(Protocol):
    """A call being traced."""

    def end(self) -> None: ...


class ClientTelemetry(Protocol):
    """Tracer and counter of a client's calls; ``fathom.core.telemetry.Telemetry`` is the services' implementation."""

    def start_call(self, name: str, traceparent: str) -> tuple[Span, str]:
        """Start a span under ``traceparent`` ("" for none); return it and the traceparent to send."""
        ...

    def count_retry(self, service: str, method: str) -> None:
        """Count one further attempt of a call."""
        ...


class NoSpan:
    """Span of a call that is not traced."""

    def end(self) -> None:
        """Do nothing."""


class AmbientTelemetry:
    """Traces calls with the OpenTelemetry of the program around the client; where there is none, it traces nothing.

    Libraries use OpenTelemetry's API only: without a provider that the program has set, spans are not recorded.
    """

    def __init__(self) -> None:
        self._tracer: Any = None
        try:
            from opentelemetry import trace
        # The client alone needs no OpenTelemetry (pip install fathom); a program that traces brings it.
        except ModuleNotFoundError:
            return
        self._tracer = trace.get_tracer("fathom")

    def start_call(self, name: str, traceparent: str) -> tuple[Span, str]:
        if self._tracer is None:
            return NoSpan(), traceparent
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator, carrier = TraceContextTextMapPropagator(), dict[str, str]()
        parent = propagator.extract({"traceparent": traceparent}) if traceparent else None
        span: Span = self._tracer.start_span(name, context=parent, kind=trace.SpanKind.CLIENT)
        propagator.inject(carrier, trace.set_span_in_context(span))  # type: ignore[arg-type]  # it is one of theirs
        return span, carrier.get("traceparent", traceparent)

    def count_retry(self, service: str, method: str) -> None:
        """Do nothing: the API has no metrics that are there without a provider."""

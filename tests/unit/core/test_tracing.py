"""A client's calls in the traces of the program around it."""

from __future__ import annotations

import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from fathom.core.tracing import AmbientTelemetry

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_call_belongs_to_the_span_that_the_program_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with provider.get_tracer("program").start_as_current_span("outer") as outer:
        span, traceparent = AmbientTelemetry().start_call("/service/Method", "")
    span.end()
    assert traceparent.split("-")[1] == f"{outer.get_span_context().trace_id:032x}"
    assert traceparent.split("-")[2] != f"{outer.get_span_context().span_id:016x}"


def test_a_call_belongs_to_the_trace_of_the_call_being_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer", TracerProvider().get_tracer)
    _, traceparent = AmbientTelemetry().start_call("/service/Method", SENT)
    # The trace is kept, the span is new: the call is a child of the one that came in.
    assert traceparent.split("-")[1] == SENT.split("-")[1]
    assert traceparent.split("-")[2] != SENT.split("-")[2]


@pytest.mark.parametrize("traceparent", ["", SENT])
def test_without_a_provider_the_trace_is_passed_on_as_it_is(traceparent: str) -> None:
    span, sent = AmbientTelemetry().start_call("/service/Method", traceparent)
    span.end()
    assert sent == traceparent


@pytest.mark.parametrize("traceparent", ["", SENT])
def test_without_opentelemetry_the_trace_is_passed_on_as_it_is(
    monkeypatch: pytest.MonkeyPatch, traceparent: str
) -> None:
    # None in the table of modules makes the import fail, as on a slim client.
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    span, sent = AmbientTelemetry().start_call("/service/Method", traceparent)
    span.end()
    assert sent == traceparent

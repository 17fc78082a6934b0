"""One question over the real stack is one trace, told over OTLP, and no span lacks its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc

from fathom.services.local import LocalSettings, LocalStack
from tests.integration.stack.conftest import MODELS, prepare

QUESTION = "What was the highest close of Apple in 2019?"
TRACE, CALLER = "a" * 32, "b" * 16


class Collector(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]
    """Takes spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []

    def Export(self, request: otlp.ExportTraceServiceRequest, context: Any) -> otlp.ExportTraceServiceResponse:
        for group in request.resource_spans:
            [service] = [item.value.string_value for item in group.resource.attributes if item.key == "service.name"]
            self.spans += [(service, span) for scope in group.scope_spans for span in scope.spans]
        return otlp.ExportTraceServiceResponse()


@contextmanager
def collecting() -> Iterator[tuple[Collector, str]]:
    """A collector on threads of its own: services send their last spans while they hold the event loop."""
    collector, server = Collector(), grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


async def wait_for_answer(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """Return the run when it has ended, as its event stream tells it."""
    async with asyncio.timeout(90), client.stream("GET", f"/v1/runs/{run_id}/events", timeout=90) as stream:
        async for _ in stream.aiter_lines():
            pass
    found: dict[str, Any] = (await client.get(f"/v1/runs/{run_id}")).json()
    return found


async def test_one_question_is_one_trace_without_orphans(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    with collecting() as (collector, url):
        monkeypatch.setenv("FATHOM_RUNTIME_OTLP_ENDPOINT", url)
        async with LocalStack(LocalSettings(home=home, gateway_port=0, models=MODELS)).running() as endpoints:
            headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
            async with httpx.AsyncClient(base_url=endpoints.gateway, headers=headers, timeout=60) as client:
                run_id = (await client.post("/v1/runs", json={"question": QUESTION})).json()["run_id"]
                run = await wait_for_answer(client, run_id)
        # The end of the stack has sent what its services had not sent yet.
        spans = list(collector.spans)
    assert run["trajectory"]["stop_reason"] == "STOP_REASON_FINISHED", run["trajectory"]["error"]
    assert {span.trace_id.hex() for _, span in spans} == {TRACE}
    known = {span.span_id.hex() for _, span in spans} | {CALLER}
    assert [span.name for _, span in spans if span.parent_span_id.hex() not in known] == []
    services = {service.removeprefix("fathom-") for service, _ in spans}
    assert {"gateway", "planner", "policy", "datafetch", "sandbox", "memory"} <= services

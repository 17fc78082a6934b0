"""Probes as the kubelet sends them: gRPC health by name, HTTP; with period, timeout and thresholds of the manifest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.integration.cluster.manifests import Unsupported

FIELDS = {"grpc", "httpGet", "periodSeconds", "failureThreshold", "successThreshold", "timeoutSeconds",
          "initialDelaySeconds"}  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """One probe; the defaults are Kubernetes' own."""

    ask: Callable[[], Awaitable[bool]]
    period_s: float
    timeout_s: float
    failures: int
    delay_s: float

    async def __call__(self) -> bool:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.ask()
        except (TimeoutError, OSError, aiohttp.ClientError, grpc.aio.AioRpcError):
            return False


def probe(container: Mapping[str, Any], name: str, address: str) -> Probe:
    """The probe of this name; raises ``KeyError`` when the container has none, ``Unsupported`` for unknown kinds."""
    said = container[name]
    if set(said) - FIELDS:
        raise Unsupported(f"{name}: {said}")
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}

    async def ask_grpc() -> bool:
        async with grpc.aio.insecure_channel(f"{address}:{said['grpc']['port']}") as channel:
            request = health_pb2.HealthCheckRequest(service=said["grpc"].get("service", ""))
            reply = await health_pb2_grpc.HealthStub(channel).Check(request)
            return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    async def ask_http() -> bool:
        port = said["httpGet"]["port"]
        url = f"http://{address}:{ports.get(port, port)}{said['httpGet']['path']}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return 200 <= response.status < 400

    return Probe(
        ask_grpc if "grpc" in said else ask_http,
        said.get("periodSeconds", 10),
        said.get("timeoutSeconds", 1),
        said.get("failureThreshold", 3),
        said.get("initialDelaySeconds", 0),
    )

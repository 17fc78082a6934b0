"""A language model at an OpenAI-compatible endpoint, as the policy service offers it to the planner's parts."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fathom.clients import Clients
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.policy import server
from fathom.services.policy.config import Config
from fathom.transport.bus import open_bus
from fathom.transport.store import open_store

URL = "FATHOM_BENCH_MEMORY_MODEL"
NAME = "endpoint"
# Somebody may play the model by hand.
TIMEOUT_S = 3_000.0
# Whoever plays the model sees all that is asked; a real one is asked as much as its server takes.
AT_ONCE = {"running": 256, "waiting": 512}


@asynccontextmanager
async def serve_model(url: str = "") -> AsyncIterator[tuple[Clients, str]]:
    """Yield clients of a policy service in this process, and the name of its model: "" without an endpoint.

    ``url`` is the endpoint's root; without one the environment names it.
    """
    telemetry = Telemetry("bench", log_level="critical", stream=io.StringIO())
    base = url or os.environ.get(URL, "")
    if not base:
        yield Clients({}, telemetry), ""
        return
    store = open_store("memory://")
    bus = await open_bus("memory://", store)
    endpoint = {
        "engine": "openai",
        "base_url": base,
        "model": NAME,
        "timeout_s": TIMEOUT_S,
        "api_key_env": "",
    } | AT_ONCE
    deps = Deps(Clients({}, telemetry), store, bus, telemetry)
    config = Config.model_validate({"models": {NAME: endpoint}, "default_model": NAME})
    async with hosting(server.build(config, deps), deps, Runtime()) as hosted:
        await hosted.warm
        clients = Clients({"policy": hosted.url}, telemetry)
        try:
            yield clients, NAME
        finally:
            await clients.close()
    await bus.close()

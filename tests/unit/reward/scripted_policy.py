"""Policy as a peer: replies by a function of the request, or the real rules engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.core.call import Call

Reply = Callable[[pb.GenerateRequest], "str | Exception"]


class ScriptedPolicy:
    """``seen`` has the requests; ``busiest`` the most generations at once."""

    def __init__(self, reply: Reply, version: int = 0) -> None:
        self._reply, self.version = reply, version
        self.seen: list[pb.GenerateRequest] = []
        self.running = self.busiest = 0

    async def GetModel(self, request: pb.GetModelRequest, call: Call) -> pb.GetModelResponse:
        return pb.GetModelResponse(model=pb.Model(name=f"scripted-{request.model}", policy_version=self.version))

    async def Generate(self, request: pb.GenerateRequest, call: Call) -> AsyncIterator[pb.GenerateResponse]:
        self.seen.append(request)
        self.running += 1
        self.busiest = max(self.busiest, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        said = self._reply(request)
        if isinstance(said, Exception):
            raise said
        if said:
            yield pb.GenerateResponse(completion=pb.Completion(text=said))


def rules_policy() -> Any:
    """A servicer on the real rules engine."""
    import io

    from fathom.clients import Clients
    from fathom.core.telemetry import Telemetry
    from fathom.hosting.deps import Deps
    from fathom.services.policy.config import Config
    from fathom.services.policy.server import build
    from fathom.transport.bus.memory import MemoryBus
    from fathom.transport.bus.streams import topology
    from fathom.transport.store.memory import MemoryStore

    store, telemetry = MemoryStore(), Telemetry("policy", stream=io.StringIO())
    deps = Deps(Clients({}, telemetry), store, MemoryBus(store, topology()), telemetry)
    config = Config.model_validate({"models": {"rules": {"engine": "rules"}}, "default_model": "rules"})
    return build(config, deps)

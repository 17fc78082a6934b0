"""A reward service with real store, bus and telemetry, and peers that a test writes."""

from __future__ import annotations

import io
from typing import Any

from fathom.clients import Clients
from fathom.core.retry import RetryPolicy
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.services.reward.config import Config
from fathom.services.reward.engine import Engine
from fathom.services.reward.server import RewardServicer, build
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.streams import topology
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from fathom.transport.store.memory import MemoryStore


class House:
    """``house.servicer`` answers; a second house over the same ``store`` and ``bus`` is another replica."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        peers: dict[str, object] | None = None,
        store: MemoryStore | None = None,
        bus: MemoryBus | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.bus = bus or MemoryBus(self.store, topology())
        self.log = io.StringIO()
        self.telemetry = Telemetry("reward", stream=self.log)
        dispatchers = {
            name: Dispatcher(Service(name, servicer), self.telemetry) for name, servicer in (peers or {}).items()
        }
        for dispatcher in dispatchers.values():
            dispatcher.ready = True
        # Two tries show what ten would, without their ten seconds of pauses.
        clients = Clients(
            {name: f"inproc://{name}" for name in dispatchers}, self.telemetry, dispatchers=dispatchers,
            policy=RetryPolicy(attempts=2),
        )  # fmt: skip
        self.deps = Deps(clients, self.store, self.bus, self.telemetry)
        # In a thread: processes are what test_reward_pool.py is about.
        self.service = build((config or Config()).model_copy(update={"verify_workers": 0}), self.deps)

    @property
    def servicer(self) -> RewardServicer:
        servicer: Any = self.service.servicer
        return servicer  # type: ignore[no-any-return]

    @property
    def engine(self) -> Engine:
        return self.servicer._engine

    def read_count(self, name: str, **labels: str) -> float:
        """Return a metric's value, 0 where it was never counted."""
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0

"""The gateway's service object for its host: an application with a life cycle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI

from fathom.domain.training_report.reader import TrainingReader
from fathom.hosting.deps import Deps
from fathom.services.gateway.app import create_app
from fathom.services.gateway.cells.running import CellRunner
from fathom.services.gateway.config import Config
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.links.store import LinkStore
from fathom.services.gateway.readiness import Readiness
from fathom.services.gateway.schedules.firing import Scheduler
from fathom.services.gateway.schedules.store import ScheduleStore
from fathom.services.gateway.users import Users
from fathom.transport.bus.streams import SCHEDULES
from fathom.transport.rpc.service import nothing
from fathom.transport.store.tenant import TenantStore


@dataclass(frozen=True)
class HttpService:
    """Service run by ``hosting_http``. ``close`` ends the open event streams, so it runs before the server drains."""

    name: str
    app: FastAPI
    warm_up: Callable[[], Awaitable[None]] = nothing
    close: Callable[[], Awaitable[None]] = nothing
    is_open: bool = False
    """True when callers need not say who they are."""


def build(config: Config, deps: Deps) -> HttpService:
    """Build the gateway; the only constructor."""
    store = TenantStore(deps.store)
    engine = Engine(config, deps.clients, store, Readiness(deps.clients, deps.store, deps.bus))
    users = Users.open(config)
    schedules = ScheduleStore(deps.bus.bucket(SCHEDULES), config.max_schedules)
    scheduler = Scheduler(engine, schedules, store, deps.telemetry)

    async def close() -> None:
        await scheduler.close()
        await engine.close()
        await users.close()

    links = LinkStore(store, deps.store)
    app = create_app(
        config,
        engine,
        deps.telemetry,
        users,
        TrainingReader(store),
        links,
        schedules,
        scheduler,
        CellRunner(config, engine, store),
    )
    return HttpService("gateway", app, warm_up=scheduler.start, close=close, is_open=users.is_open)

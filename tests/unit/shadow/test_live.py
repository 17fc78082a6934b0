"""Users' runs mirrored as they end: a bounded share, as calls of their tenant, until the gate decides."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.call import Call, Lane, calling, current_call
from fathom.core.errors import InvalidField, NotReady
from fathom.core.telemetry import Telemetry
from fathom.operations.shadow.config import Config
from fathom.operations.shadow.gate import Decision, Outcome, Verdict
from fathom.operations.shadow.live import LiveMirror
from fathom.operations.shadow.mirror import Result
from fathom.transport.bus import Bus, open_bus
from fathom.transport.bus.streams import events_subject
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually

NOW = 1_800_000_000.0


class Played:
    """Stands in for the mirror: each run is won, as soon as it may be."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Lane]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.failing = False

    async def mirror(self, run_id: str) -> Result:
        call = current_call()
        assert call is not None
        self.calls.append((run_id, call.tenant, call.lane))
        await self.may_end.wait()
        if self.failing:
            raise NotReady("policy is away")
        return Result(run_id, Outcome.WIN, "better")


class Watched:
    """A live mirror with what it said."""

    def __init__(self, bus: Bus, store: MemoryStore, settings: dict[str, Any]) -> None:
        fields = {"candidate": "tiny@2", "baseline": "tiny@1", "share": 1.0, **settings}
        self.telemetry, self.said = Telemetry("shadow", stream=io.StringIO()), list[Verdict]()
        clients: Any = None
        self.live = LiveMirror(
            Config(**fields), clients, store, bus, self.telemetry.registry, self.telemetry.log, self.said.append,
            clock=lambda: NOW,
        )  # fmt: skip
        self.played = Played()
        self.live._mirror = self.played  # type: ignore[assignment]

    def count(self, name: str, **labels: str) -> float:
        return self.telemetry.registry.get_sample_value(f"fathom_shadow_{name}", labels) or 0.0


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    bus = await open_bus("memory://", MemoryStore())
    await bus.declare()
    yield bus
    await bus.close()


async def end(bus: Bus, run_id: str, tenant: str = "acme", at: float = NOW + 1) -> None:
    """Publish the end of a tenant's run."""
    event = pb.RunEvent(sequence=9, run_id=run_id, finished=pb.RunFinished())
    event.time.FromMicroseconds(int(at * 1e6))
    with calling(Call.new(tenant=tenant)):
        await bus.publish(events_subject(run_id), event.SerializeToString(), message_id=f"{tenant}-{run_id}")


@asynccontextmanager
async def running(watched: Watched) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(watched.live.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"share": 0.0}, "share"), ({"candidate": ""}, "candidate"), ({"baseline": "tiny@new"}, "baseline")],
)
async def test_it_is_off_until_a_share_and_both_sides_are_set(bus: Bus, settings: dict[str, Any], field: str) -> None:
    assert Config().share == 0
    with pytest.raises(InvalidField) as refused:
        Watched(bus, MemoryStore(), settings)
    assert refused.value.field == field


async def test_new_ends_are_played_as_calls_of_their_tenant_behind_people(bus: Bus) -> None:
    await end(bus, "before", at=NOW - 1)
    watched = Watched(bus, MemoryStore(), {"least": 2, "most": 2})
    async with running(watched) as task:
        await end(bus, "run_1")
        await end(bus, "run_2", tenant="other")
        await task
    assert sorted(watched.played.calls) == [("run_1", "acme", Lane.TRAINING), ("run_2", "other", Lane.TRAINING)]


async def test_the_gate_decides_once_and_is_shown(bus: Bus) -> None:
    store = MemoryStore()
    watched = Watched(bus, store, {"least": 8, "in_flight": 1})
    async with running(watched) as task:
        for number in range(12):
            await end(bus, f"run_{number}")
        await task
    assert [verdict.decision for verdict in watched.said] == [*[Decision.UNDECIDED] * 8, Decision.PROMOTE]
    assert watched.count("outcomes_total", outcome="win") == 8, "what comes after the decision is not played"
    assert watched.count("decision", decision="promote") == 1
    assert watched.count("win_rate", bound="low") > 0.5
    (key,) = [item.key for item in await store.list("shadow/")]
    kept = json.loads(await store.get(key))
    assert (kept["verdict"]["decision"], kept["outcomes"]) == ("promote", ["win"] * 8)
    # A later process of the same experiment has its decision, and plays nothing.
    again = Watched(bus, store, {"least": 8, "in_flight": 1})
    async with running(again) as task:
        await task
    assert ([verdict.decision for verdict in again.said], again.played.calls) == ([Decision.PROMOTE], [])


async def test_what_it_cannot_play_soon_it_leaves_out(bus: Bus) -> None:
    watched = Watched(bus, MemoryStore(), {"in_flight": 1, "waiting": 2})
    watched.played.may_end.clear()
    async with running(watched):
        await end(bus, "run_0")
        await eventually(lambda: len(watched.played.calls) == 1)
        for number in range(1, 6):
            await end(bus, f"run_{number}")
        await eventually(lambda: watched.count("skipped_total", reason="full") == 3)
        watched.played.may_end.set()
        await eventually(lambda: watched.count("outcomes_total", outcome="win") == 3)
    assert [run_id for run_id, *_ in watched.played.calls] == ["run_0", "run_1", "run_2"]


async def test_a_share_is_drawn_by_the_runs_ids(bus: Bus) -> None:
    watched = Watched(bus, MemoryStore(), {"share": 0.2, "waiting": 100, "most": 1000, "least": 500})
    async with running(watched):
        for number in range(100):
            await end(bus, f"run_{number}")
        taken = sum(watched.live._draw.takes(f"run_{number}") for number in range(100))
        await eventually(lambda: watched.count("outcomes_total", outcome="win") == taken)
    assert 10 <= taken <= 30


async def test_a_service_that_is_away_costs_a_run_and_not_the_mirror(bus: Bus) -> None:
    watched = Watched(bus, MemoryStore(), {"in_flight": 1})
    watched.played.failing = True
    async with running(watched):
        await end(bus, "run_1")
        await eventually(lambda: watched.count("skipped_total", reason="UNAVAILABLE") == 1)
        watched.played.failing = False
        await end(bus, "run_2")
        await eventually(lambda: watched.count("outcomes_total", outcome="win") == 1)

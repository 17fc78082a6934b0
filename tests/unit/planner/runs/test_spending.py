"""Costs of runs as metrics: counted by model and tenant when a leg ends, each leg once, under a bounded number of names."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.call import Call, Lane, calling
from fathom.domain.chat.messages import Usage
from fathom.services.planner.metrics import MAX_NAMES, OTHERS, Spending
from fathom.services.planner.runs.queue import submit_run
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish

FUND = Call.new(tenant="fund-7")
# A round of the scripted policy has ten prompt tokens and five of a completion: with these prices 20.
PRICES: dict[str, Any] = {"prompt_price": 1e6, "completion_price": 2e6}


def read(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(f"fathom_planner_{name}", labels) or 0.0


def equip(house: House) -> CollectorRegistry:
    registry = CollectorRegistry()
    house.runs.worker.ends.spending = Spending.register(registry)
    return registry


async def test_a_run_counts_for_its_tenant_and_its_model() -> None:
    house = House(echo("a"), finish("It is so."), **PRICES)
    registry = equip(house)
    with calling(FUND):
        await house.ask()
        async with house.working():
            await house.events()
            # Counted behind the end that users see.
            await eventually(lambda: read(registry, "tenant_runs_total", tenant="fund-7"))
            stored = await house.record.get_trajectory("run_1")
    assert stored is not None
    assert stored.usage.cost == 40.0
    assert read(registry, "tenant_cost_total", tenant="fund-7") == 40.0
    assert read(registry, "tenant_runs_total", tenant="fund-7") == 1.0
    assert read(registry, "tenant_tokens_total", tenant="fund-7", model="s") == 30.0
    assert read(registry, "run_cost_sum", model="s") == 40.0
    assert read(registry, "tenant_runs_total", tenant="default") == 0.0


async def test_a_resumed_run_adds_what_its_new_leg_used() -> None:
    house = House(echo("a"), echo("b"), finish("It is so."), **PRICES)
    registry = equip(house)
    await house.ask(budget=pb.Budget(max_rounds=1))
    async with house.working():
        await house.events()
        first = await eventually(lambda: read(registry, "tenant_cost_total", tenant="default"))
        header, leg = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id="again"))
        await submit_run(house.bus, header, Lane.INTERACTIVE, leg)
        await house.events(leg=1)
        await eventually(lambda: read(registry, "tenant_runs_total", tenant="default") == 2)
    stored = await house.record.get_trajectory("run_1")
    assert stored is not None
    assert first > 0
    assert read(registry, "tenant_cost_total", tenant="default") == stored.usage.cost > first


def test_names_that_callers_choose_fill_no_memory() -> None:
    registry = CollectorRegistry()
    spending = Spending.register(registry)
    for number in range(MAX_NAMES + 3):
        spending.observe(f"tenant-{number}", "m", Usage(1, 1, 0, 1), 0.5)
    spending.observe("tenant-0", "m", Usage(1, 1, 0, 1), 0.5)
    assert read(registry, "tenant_cost_total", tenant=OTHERS) == 1.5
    assert read(registry, "tenant_cost_total", tenant="tenant-0") == 1.0
    assert read(registry, "tenant_runs_total", tenant=f"tenant-{MAX_NAMES + 1}") == 0.0

"""Schedules of a user on the bus: exported and erased with all that is held of them, and nobody else's."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import Conflict
from fathom.operations.schedules import Owner, erase_schedules, list_schedules
from fathom.services.gateway.schedules.recurrence import Recurrence
from fathom.services.gateway.schedules.store import Firing, Schedule, ScheduleStore
from fathom.transport.bus.base import KeyValue
from fathom.transport.bus.streams import SCHEDULES
from tests.integration.bus.conftest import Make

ANNE = Owner("fund-7", "user:anne")
DAILY = Recurrence("day", "09:00", "UTC", 0)
FIRED = Firing("schedule_anne_1", 1.0, 2.0, 0)


async def add(bucket: KeyValue, tenant: str, creator: str, name: str) -> None:
    ask = {"question": f"how is {name}'s basket?", "conversation_id": f"conv_{name}"}
    schedule = Schedule(f"schedule_{name}", ask, DAILY, creator, created=1.0, due=2.0, firings=(FIRED,))
    with calling(Call.new(tenant=tenant)):
        await ScheduleStore(bucket, 10).add(schedule)


async def fill(make: Make) -> KeyValue:
    bucket = (await make()).bus.bucket(SCHEDULES)
    for tenant, creator, name in (
        ("fund-7", "user:anne", "anne"), ("fund-7", "user:bert", "bert"), ("default", "user:anne", "namesake"),
    ):  # fmt: skip
        await add(bucket, tenant, creator, name)
    return bucket


async def names(bucket: KeyValue) -> list[str]:
    return sorted([place.schedule.id async for place in ScheduleStore(bucket, 10).scan()])


async def test_a_users_schedules_are_listed_whole_and_erased_alone(make: Make) -> None:
    bucket = await fill(make)
    [listed] = await list_schedules(bucket, ANNE)
    assert listed.values["ask"] == {"question": "how is anne's basket?", "conversation_id": "conv_anne"}
    assert listed.runs == ["schedule_anne_1"]
    assert [one.values["id"] for one in await erase_schedules(bucket, ANNE)] == ["schedule_anne"]
    assert await names(bucket) == ["schedule_bert", "schedule_namesake"]
    assert await erase_schedules(bucket, ANNE) == []


async def test_all_of_a_tenant_goes_also_what_another_version_has_written(make: Make) -> None:
    bucket = await fill(make)
    await bucket.put("fund-7=schedule-9", b'["of another version"]')
    everybody = Owner("fund-7")
    assert len(await list_schedules(bucket, everybody)) == 3
    assert len(await erase_schedules(bucket, everybody)) == 3
    assert await list_schedules(bucket, everybody) == []
    assert await names(bucket) == ["schedule_namesake"]


async def test_a_schedule_that_a_gateway_changes_meanwhile_is_erased_all_the_same(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = await fill(make)
    delete = bucket.delete
    changed: list[str] = []

    async def disturb(key: str, *, revision: int | None = None) -> int:
        # As a gateway that claims a due time between the look and the deletion.
        if not changed:
            changed.append(key)
            await bucket.put(key, json.dumps({"id": "schedule_anne", "creator": "user:anne"}).encode())
        return await delete(key, revision=revision)

    monkeypatch.setattr(bucket, "delete", disturb)
    assert len(await erase_schedules(bucket, ANNE)) == 1
    assert await list_schedules(bucket, ANNE) == []


async def test_a_schedule_that_comes_back_all_the_time_is_said(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = await fill(make)

    async def refuse(key: str, *, revision: int | None = None) -> int:
        raise Conflict(f"{key} has changed since {revision}")

    monkeypatch.setattr(bucket, "delete", refuse)
    with pytest.raises(Conflict, match="changed all the time"):
        await erase_schedules(bucket, replace(ANNE))

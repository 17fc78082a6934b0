"""Quotas that operators change while services run: every replica follows, what waits follows at once, none refuses."""

from __future__ import annotations

import asyncio
import re

import pytest
import structlog

from fathom.core.admission import Admission, Claimant, Limits, Quota
from fathom.core.config import ConfigError, load
from fathom.core.errors import InvalidField, Overloaded
from fathom.hosting.host import Runtime
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.quotas import Quotas
from fathom.transport.bus.streams import QUOTAS, topology
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually


async def test_all_replicas_follow_a_quota_together_and_go_back_to_their_settings() -> None:
    bus = MemoryBus(MemoryStore(), topology())
    bucket = bus.bucket(QUOTAS)
    replicas = [Quotas(bus, structlog.get_logger()) for _ in range(2)]
    early = [one.govern("tool.python", Admission("tool 'python'", Limits(8, 64))) for one in replicas]
    for one in replicas:
        one.start()
    try:
        await bucket.put("tool.python", Quota(running=1, per_second=2.0).to_json())
        await eventually(lambda: [one.places for one in early] == [0, 0])
        first = await early[0].acquire(Claimant())
        assert (early[0].places, early[0].per_second) == (1, 2.0)
        second = asyncio.ensure_future(early[1].acquire(Claimant()))
        await eventually(lambda: sum(early[1].waiting.values()) == 1)
        first.release()
        (await second).release()
        await bucket.put("tool.python", Quota(running=0).to_json())
        late = replicas[0].govern("tool.late", Admission("tool 'late'", Limits(8, 64)))
        await bucket.put("tool.late", Quota(running=0).to_json())
        await eventually(lambda: late.places == 0)
        with pytest.raises(Overloaded, match="its quota is 0"):
            await late.acquire(Claimant())
        await bucket.put("tool.python", b"no quota")
        await bucket.delete("tool.python")
        await eventually(lambda: (early[1].places, early[1].per_second) == (8, 0.0))
    finally:
        for one in replicas:
            await one.close()


async def test_a_larger_quota_lets_in_what_waits_and_one_of_zero_refuses_it_by_name() -> None:
    gate = Admission("tool 'python'", Limits(1, 8))
    first = await gate.acquire(Claimant())
    second, third = (asyncio.ensure_future(gate.acquire(Claimant())) for _ in range(2))
    await eventually(lambda: sum(gate.waiting.values()) == 2)
    gate.set_quota(Quota(running=2))
    (await second).release()
    await third
    waiting = asyncio.ensure_future(gate.acquire(Claimant()))
    await eventually(lambda: sum(gate.waiting.values()) == 1)
    gate.set_quota(Quota(running=0))
    with pytest.raises(Overloaded, match="tool 'python': its quota is 0"):
        await waiting
    with pytest.raises(Overloaded, match="tool 'python': its quota is 0"):
        await gate.acquire(Claimant())
    first.release()
    (await third).release()
    gate.set_quota(Quota())
    (await gate.acquire(Claimant())).release()
    assert gate.running == 0


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b"", "quota"),
        (b"[]", "quota"),
        (b'{"running": "many"}', "quota"),
        (b'{"running": -1}', "running"),
        (b'{"per_second": 0}', "per_second"),
        (b'{"per_second": NaN}', "per_second"),
    ],
)
def test_what_is_no_quota_is_refused_by_its_field(value: bytes, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Quota.parse(value)
    assert refused.value.field == field


async def test_quotas_of_the_settings_hold_where_the_bus_has_none() -> None:
    bus = MemoryBus(MemoryStore(), topology())
    bucket = bus.bucket(QUOTAS)
    quotas = Quotas(bus, structlog.get_logger(), {"tenant.acme": Quota(running=1)})
    quotas.start()
    try:
        tenant = quotas.find_tenant("acme")
        assert tenant is not None
        assert quotas.find_tenant("other") is None
        first = await tenant.acquire(Claimant())
        second = asyncio.ensure_future(tenant.acquire(Claimant()))
        await eventually(lambda: sum(tenant.waiting.values()) == 1)
        await bucket.put("tenant.acme", Quota(running=2).to_json())
        held = await second
        first.release()
        held.release()
        await bucket.delete("tenant.acme")
        # Back at the one of the settings.
        await eventually(lambda: tenant.places <= 1)
        (await tenant.acquire(Claimant())).release()
        assert tenant.places == 1
    finally:
        await quotas.close()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ('{"acme": {"running": 1}}', "acme.[key]: String should match pattern"),
        ('{"tenant.acme": {"running": -1}}', "tenant.acme.running"),
        ('{"tenant.acme": {"per_second": 0}}', "tenant.acme.per_second"),
        ('{"tenant.acme": {"per_minute": 1}}', "tenant.acme.per_minute"),
    ],
)
def test_a_quota_of_the_settings_that_is_none_is_refused_by_name(given: str, named: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f": {named}")):
        load(Runtime, "runtime", environ={"FATHOM_RUNTIME_QUOTAS": given})

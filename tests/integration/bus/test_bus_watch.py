"""Test what the bus says of itself, in memory and on a real server."""

from __future__ import annotations

import asyncio

import pytest
import structlog
from prometheus_client import CollectorRegistry

from fathom.transport.bus.watch import BusWatch
from tests.integration.bus.conftest import Make
from tests.support.waiting import eventually


async def test_undone_work_counts_until_it_is_done(make: Make) -> None:
    lab = await make()
    assert (await lab.bus.states())["RUNS"].messages == 0
    for number in range(3):
        await lab.bus.publish("fathom.runs.interactive", b"run", message_id=f"run-{number}")

    async def is_old() -> bool:
        return (await lab.bus.states())["RUNS"].oldest_s >= 0.2

    await eventually(is_old)
    held = (await lab.bus.states())["RUNS"]
    assert held.messages == 3
    assert held.size_bytes >= 9
    (delivery,) = await lab.take(1)
    # A delivery that is being worked on may still come back.
    assert (await lab.bus.states())["RUNS"].messages == 3, "who has taken it is not done"
    await delivery.ack()
    assert (await lab.bus.states())["RUNS"].messages == 2


async def test_prometheus_is_told_and_told_when_the_bus_is_gone(
    make_nats: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, registry = await make_nats(), CollectorRegistry()
    watch = BusWatch(lab.bus, registry, structlog.get_logger())
    await lab.bus.publish("fathom.runs.training", b"run", message_id="one")
    await watch.ask()
    assert registry.get_sample_value("fathom_bus_messages", {"stream": "RUNS"}) == 1
    assert registry.get_sample_value("fathom_bus_up") == 1
    assert lab.server is not None
    await lab.server.stop()
    # Without a server each figure would wait for its confirmation.
    monkeypatch.setattr("fathom.transport.bus.nats.link.CONFIRM_TIMEOUT_S", 0.3)
    await watch.ask()
    assert registry.get_sample_value("fathom_bus_up") == 0
    # An alert on the age of figures is "up == 0"; the counts themselves must not drop to zero.
    assert registry.get_sample_value("fathom_bus_messages", {"stream": "RUNS"}) == 1, "the last figures stay"
    await lab.server.start()
    async with asyncio.timeout(10):
        while registry.get_sample_value("fathom_bus_up") != 1:
            await watch.ask()

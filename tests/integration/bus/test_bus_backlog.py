"""The backlog of a durable: what waits, what runs, and how far its queue has moved."""

from __future__ import annotations

import pytest

from fathom.core.call import Lane
from fathom.core.errors import NotFound
from fathom.transport.bus.base import Backlog
from fathom.transport.bus.streams import run_durable, run_subject
from tests.integration.bus.conftest import Make
from tests.support.waiting import eventually

PEOPLE = run_durable(Lane.INTERACTIVE)


async def test_a_backlog_counts_what_waits_and_what_runs_in_its_lane(make: Make) -> None:
    lab = await make()
    for number in range(3):
        await lab.bus.publish(run_subject(Lane.INTERACTIVE), b"x", message_id=f"i{number}")
    await lab.bus.publish(run_subject(Lane.TRAINING), b"x", message_id="t")
    assert await lab.bus.backlog(PEOPLE) == Backlog(3, 0, 0)
    deliveries = lab.bus.consume(PEOPLE)
    first = await anext(deliveries)
    await anext(deliveries)
    assert await lab.bus.backlog(PEOPLE) == Backlog(1, 2, 2)
    await first.ack()
    await eventually(lambda: is_settled(lab.bus))
    await deliveries.aclose()
    assert (await lab.bus.backlog(run_durable(Lane.TRAINING))).waiting == 1
    with pytest.raises(NotFound):
        await lab.bus.backlog("nobody")


async def is_settled(bus: object) -> bool:
    return (await bus.backlog(PEOPLE)).running == 1  # type: ignore[attr-defined,no-any-return]

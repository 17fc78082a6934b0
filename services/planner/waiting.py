"""Who waits for a queued rollout: a lease that its watchers renew, and tasks that were left when nobody did.

A trainer that is killed says no farewell. Its rollout's lease then ends by itself, and whichever planner takes up, or
plays, one of its tasks leaves it. Whoever submits or watches the rollout again, e.g. the trainer after its restart,
finds what was kept, and what was left waits in the queue anew.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fathom.bus.base import Bus, Delivery
from fathom.bus.streams import AWAITED, ROLLOUT_LEASE_S, rollout_subject
from fathom.call import Lane, current_origin
from fathom.errors import FathomError, NotFound
from fathom.ids import checked_id
from fathom.store import ObjectStore


@dataclass
class Waiting:
    """The leases of all rollouts. ``renew_s`` is how often a watcher renews its own, in seconds."""

    store: ObjectStore
    bus: Bus
    log: Any
    renew_s: float = ROLLOUT_LEASE_S / 3

    async def begin(self, rollout_id: str) -> None:
        """Somebody waits from now on; tasks that were left are queued again."""
        # In this order, and the other way round in ``left``: of a task that is left at this moment one of them hears.
        await self.bus.bucket(AWAITED).put(checked_id("rollout_id", rollout_id), b"")
        for mark in await self.store.list(marks(rollout_id)):
            index, _, sequence = mark.key.rpartition("/")[2].partition("-")
            try:
                lane = Lane((await self.store.get(mark.key)).decode())
            except NotFound:  # another watcher was here first
                continue
            name = f"{rollout_id}:{int(index)}"
            message_id = f"rollout:{name}:{sequence}"
            await self.bus.publish(
                rollout_subject(lane), name.encode(), message_id=message_id, headers=current_origin()
            )
            await self.store.delete(mark.key)

    async def keep(self, rollout_id: str) -> None:
        """Waits until cancelled. A lease that ends while the bus is out of reach is begun anew afterwards."""
        while True:
            await asyncio.sleep(self.renew_s)
            try:
                await self.begin(rollout_id)
            except FathomError as error:
                self.log.warning("rollout's lease was not renewed", rollout_id=rollout_id, error=error.message)

    async def held(self, rollout_id: str) -> bool:
        """True while somebody waits, or did until a lease's length ago."""
        return await self.bus.bucket(AWAITED).get(rollout_id) is not None

    async def left(self, rollout_id: str, index: int, delivery: Delivery, lane: Lane) -> bool:
        """Notes that a task is left since nobody waits; False when somebody does."""
        if await self.held(rollout_id):
            return False
        key = f"{marks(rollout_id)}{index:04d}-{delivery.sequence}"
        await self.store.put(key, lane.value.encode(), "text/plain")
        if await self.held(rollout_id):
            await self.store.delete(key)
            return False
        self.log.info("queued task was left: nobody waits for it", rollout_id=rollout_id, task=index)
        return True


def marks(rollout_id: str) -> str:
    """Where it says which tasks of a rollout were left, and by which delivery."""
    return f"rollouts/{checked_id('rollout_id', rollout_id)}/left/"

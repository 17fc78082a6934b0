"""Leases of watchers on queued rollouts; tasks without a watcher are set aside.

A trainer that is killed cannot cancel its rollout. The lease then expires, and a planner that takes or plays one of its
tasks sets the task aside. When the rollout is submitted or watched again, e.g. after the trainer's restart, stored
results are found and tasks set aside are queued again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fathom.core.call import Lane, bind, current_origin
from fathom.core.errors import FathomError, NotFound
from fathom.core.ids import checked_id
from fathom.transport.bus.base import Bus, Delivery
from fathom.transport.bus.streams import AWAITED, ROLLOUT_LEASE_S, rollout_subject
from fathom.transport.store import ObjectStore


@dataclass
class WatcherLeases:
    """Leases of all rollouts. Watchers renew theirs every ``renew_s`` seconds."""

    store: ObjectStore
    bus: Bus
    log: Any
    # Two renewals may fail before the lease ends.
    renew_s: float = ROLLOUT_LEASE_S / 3

    async def begin(self, rollout_id: str) -> None:
        """Start or renew a lease; queue tasks again that were set aside."""
        # Lease first, then marks; ``set_aside`` does the reverse. So one of the two notices a task that is set aside at
        # this very moment.
        await self.bus.bucket(AWAITED).put(bind(checked_id("rollout_id", rollout_id)), b"")
        for mark in await self.store.list(format_mark_prefix(rollout_id)):
            index, _, sequence = mark.key.rpartition("/")[2].partition("-")
            try:
                lane = Lane((await self.store.get(mark.key)).decode())
            except NotFound:  # another watcher was here first
                continue
            name = f"{rollout_id}:{int(index)}"
            message_id = f"rollout:{bind(name)}:{sequence}"
            await self.bus.publish(
                rollout_subject(lane), name.encode(), message_id=message_id, headers=current_origin()
            )
            await self.store.delete(mark.key)

    async def keep(self, rollout_id: str) -> None:
        """Renew the lease until cancelled.

        A lease that expires while the bus is unreachable is started again afterwards.
        """
        while True:
            await asyncio.sleep(self.renew_s)
            try:
                await self.begin(rollout_id)
            except FathomError as error:
                self.log.warning("rollout's lease was not renewed", rollout_id=rollout_id, error=error.message)

    async def is_held(self, rollout_id: str) -> bool:
        """Return whether the rollout has a watcher, or had one less than a lease's duration ago."""
        return await self.bus.bucket(AWAITED).get(bind(rollout_id)) is not None

    async def set_aside(self, rollout_id: str, index: int, delivery: Delivery, lane: Lane) -> bool:
        """Set a task aside when the rollout has no watcher; return False when it has one."""
        if await self.is_held(rollout_id):
            return False
        key = f"{format_mark_prefix(rollout_id)}{index:04d}-{delivery.sequence}"
        await self.store.put(key, lane.value.encode(), "text/plain")
        if await self.is_held(rollout_id):
            await self.store.delete(key)
            return False
        self.log.info("queued task was set aside: it has no watcher", rollout_id=rollout_id, task=index)
        return True


def format_mark_prefix(rollout_id: str) -> str:
    """Return the key prefix of a rollout's tasks that were set aside, with the delivery that did so."""
    return f"rollouts/{checked_id('rollout_id', rollout_id)}/left/"

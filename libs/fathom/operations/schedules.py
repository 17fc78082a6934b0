"""Export and erasure of schedules: questions that the gateway asks again for a user or a tenant, kept on the bus."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fathom.core.call import unbind
from fathom.core.errors import Conflict
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import KeyValue
from fathom.transport.bus.streams import SCHEDULES
from fathom.transport.store import open_store

TABLE = "schedules"
# Looks at a bucket in which gateways change what is erased; each of them has deleted or seen something.
MAX_ROUNDS = 10


@dataclass(frozen=True)
class Owner:
    """A tenant, or one of its users; ``principal`` None is everybody."""

    tenant: str
    principal: str | None = None


@dataclass(frozen=True)
class StoredSchedule:
    """A schedule as the bus holds it."""

    key: str
    revision: int
    values: Mapping[str, Any]
    """Its fields; only ``content`` with the text for a value of another version that is no JSON object."""

    @property
    def runs(self) -> list[str]:
        """Return the runs that it has asked for of late."""
        firings = self.values.get("firings")
        named = [one.get("run_id") for one in firings if isinstance(one, dict)] if isinstance(firings, list) else []
        return [run for run in named if isinstance(run, str) and run]


@asynccontextmanager
async def open_schedules(bus_url: str) -> AsyncIterator[KeyValue]:
    """Open the schedules of a bus. Raises what ``open_bus`` raises."""
    # Schedules are small values, which never go through an object store.
    bus = await open_bus(bus_url, open_store("memory://"))
    try:
        yield bus.bucket(SCHEDULES)
    finally:
        await bus.close()


async def list_schedules(bucket: KeyValue, owner: Owner) -> list[StoredSchedule]:
    """Return the schedules of a user, or all of a tenant, by their places."""
    found = []
    for key in await bucket.keys():
        if unbind(key)[0] != owner.tenant:
            continue
        entry = await bucket.get(key)
        if entry is None or entry.value is None:
            continue
        schedule = StoredSchedule(key, entry.revision, read_values(entry.value))
        if owner.principal is None or schedule.values.get("creator") == owner.principal:
            found.append(schedule)
    return found


async def erase_schedules(bucket: KeyValue, owner: Owner) -> list[StoredSchedule]:
    """Delete the schedules of a user, or all of a tenant; return what was there.

    Raises ``Conflict`` where new ones come all the time. May be repeated.
    """
    erased: dict[str, StoredSchedule] = {}
    for _ in range(MAX_ROUNDS):
        left = await list_schedules(bucket, owner)
        if not left:
            return list(erased.values())
        for schedule in left:
            try:
                # By revision: a place that somebody else has taken meanwhile is not deleted with it.
                await bucket.delete(schedule.key, revision=schedule.revision)
            except Conflict:
                continue
            erased[schedule.key] = schedule
    raise Conflict(f"{len(left)} schedules are there again, such as {left[0].key}: they are changed all the time")


def read_values(value: bytes) -> Mapping[str, Any]:
    """Return the fields of a schedule or a link; only ``content`` with the text for what is no JSON object."""
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"content": value.decode("utf-8", "replace")}

"""Schedules as values of a bucket: a bounded number of each tenant, every change by compare-and-set."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from fathom.core.call import bind, current_tenant, unbind
from fathom.core.errors import Conflict, CorruptData, FailedPrecondition, NotFound
from fathom.services.gateway.schedules.recurrence import Recurrence
from fathom.transport.bus.base import KeyValue

# Values of the bucket are few and keep their keys, since a key that was used once is listed for ever.
PLACE = "schedule-{}"
MAX_FIRINGS = 20
# Tries of a change that others disturb; each of them has changed something meanwhile.
MAX_TRIES = 10


@dataclass(frozen=True)
class Firing:
    """One time at which the question was asked. Times are in seconds since 1970."""

    run_id: str
    due: float
    asked: float
    missed: int
    """Later due times that had passed as well, for which this one stands."""


@dataclass(frozen=True)
class Schedule:
    """A question that is asked again. Times are in seconds since 1970."""

    id: str
    ask: Mapping[str, Any]
    """Body of ``POST /v1/runs``."""
    recurrence: Recurrence
    creator: str
    created: float
    due: float
    follows: str = ""
    """Run with whose answer the first one is compared."""
    is_paused: bool = False
    claimed_until: float = 0.0
    """Until then nobody else asks."""
    problem: str = ""
    """Reason why the last time was not asked; empty when it was."""
    firings: tuple[Firing, ...] = ()
    """The last ones, oldest first."""
    request_id: str = ""
    """Idempotency key of the request that made it; empty for none."""
    request_hash: str = ""
    """Hash of what that request said."""


@dataclass(frozen=True)
class Place:
    """Place of a schedule in the bucket, as it was read."""

    tenant: str
    key: str
    revision: int
    schedule: Schedule


class ScheduleStore:
    """Schedules of all tenants; what a caller names is looked for among its tenant's own."""

    def __init__(self, bucket: KeyValue, limit: int) -> None:
        self._bucket, self._limit = bucket, limit

    async def add(self, schedule: Schedule) -> Schedule:
        """Keep a new schedule and return it, or return the one that the same request has made before.

        Raises ``Conflict`` where that request said something else, ``FailedPrecondition`` for one too many.
        """
        if not await self._list_made(schedule):
            await self._occupy(schedule)
        # Of two that came at once, the later one sees both here; revisions count the changes of the whole bucket.
        made = await self._list_made(schedule)
        for other in made[1:]:
            with suppress(Conflict):
                await self._bucket.delete(other.key, revision=other.revision)
        # Without a key, or deleted by somebody in between, it was made all the same.
        kept = made[0].schedule if made else schedule
        if kept.request_hash != schedule.request_hash:
            raise Conflict("request_id: was used for another schedule", metadata={"field": "request_id"})
        return kept

    async def _occupy(self, schedule: Schedule) -> None:
        # The first free place: revision 0 is that of a key without a value, also of one that was deleted.
        for number in range(self._limit):
            try:
                await self._bucket.put(bind(PLACE.format(number)), write_schedule(schedule), revision=0)
            except Conflict:
                continue
            return
        # The last place may have gone to the same request.
        if not await self._list_made(schedule):
            raise FailedPrecondition(f"{self._limit} questions are asked again already: delete one")

    async def _list_made(self, schedule: Schedule) -> list[Place]:
        """Return what the request of a schedule has made for the caller's tenant, the first one first."""
        if not schedule.request_id:
            return []
        own = [place async for place in self.scan() if place.tenant == current_tenant()]
        made = [place for place in own if place.schedule.request_id == schedule.request_id]
        return sorted(made, key=lambda place: place.revision)

    async def list_own(self) -> list[Schedule]:
        """Return the schedules of the caller's tenant, oldest first."""
        own = current_tenant()
        found = [place.schedule async for place in self.scan() if place.tenant == own]
        return sorted(found, key=lambda schedule: schedule.created)

    async def change(self, schedule_id: str, edit: Callable[[Schedule], Schedule | None]) -> Schedule:
        """Change a schedule of the caller's tenant, or delete it where ``edit`` returns None; return what was there.

        Raises ``NotFound``, and ``Conflict`` where others change it all the time.
        """
        for _ in range(MAX_TRIES):
            place = await self._find(schedule_id)
            edited = edit(place.schedule)
            try:
                if edited is None:
                    await self._bucket.delete(place.key, revision=place.revision)
                else:
                    await self._bucket.put(place.key, write_schedule(edited), revision=place.revision)
            except Conflict:
                continue
            return edited or place.schedule
        raise Conflict(f"schedule {schedule_id} is changed elsewhere all the time")

    async def replace(self, place: Place, schedule: Schedule) -> Place | None:
        """Put a schedule in the place of one as it was read; return None where that has changed meanwhile."""
        try:
            revision = await self._bucket.put(place.key, write_schedule(schedule), revision=place.revision)
        except Conflict:
            return None
        return Place(place.tenant, place.key, revision, schedule)

    async def scan(self) -> AsyncIterator[Place]:
        """Yield the schedules of all tenants."""
        for key in await self._bucket.keys():
            entry = await self._bucket.get(key)
            # What another version has written is left to it, and keeps nobody else waiting.
            with suppress(CorruptData):
                if entry is not None and entry.value is not None:
                    schedule = read_schedule(entry.value)
                    yield Place(unbind(key)[0], key, entry.revision, schedule)

    async def _find(self, schedule_id: str) -> Place:
        own = current_tenant()
        async for place in self.scan():
            if place.tenant == own and place.schedule.id == schedule_id:
                return place
        raise NotFound("schedule", schedule_id)


def write_schedule(schedule: Schedule) -> bytes:
    """Return a schedule as a value of the bucket."""
    return json.dumps(asdict(schedule), ensure_ascii=False).encode()


def read_schedule(value: bytes) -> Schedule:
    """Return a schedule from its value; raise ``CorruptData``."""
    try:
        found = json.loads(value)
        firings = tuple(Firing(**one) for one in found["firings"])
        return Schedule(**{**found, "recurrence": Recurrence(**found["recurrence"]), "firings": firings})
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptData("schedule", "is no schedule of this version") from error

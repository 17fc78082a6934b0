"""One limit over all replicas of a service: each holds a share of it, renews it, and gives back what others need.

The shares of a limit are one value of the bucket ``SHARES``, changed by compare-and-set alone. A replica that lowers
its share begins no more than it, and says so only when no more is running; one that raises its share uses it when the
change is confirmed. What a replica has not renewed for ``RECLAIM_S`` is others'; before that, after ``HOLD_S``, it
stops using it itself. No clock is compared with another one: a replica counts by its own clock how long an entry
stayed the same. Calls that still run upstream when their replica has lost the bus for ``RECLAIM_S`` count no more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from fathom.core.admission import Admission, Quota, Share
from fathom.core.admission.shares import Holding, Rate, decide, read_table, write_table
from fathom.core.errors import Conflict, CorruptData, FathomError
from fathom.transport.bus.base import Entry, KeyValue

# A share is renewed three times while it holds. A confirmation may take ten seconds (the bus restarts), and the others
# wait four more than the holder does, for clocks that run at different speeds.
RENEW_S, HOLD_S, RECLAIM_S = 4.0, 12.0, 16.0
# What nobody used for so long is given back whole, with its renewals.
IDLE_S = 5.0
# As long as a burst of requests pauses: a share does not follow each of them.
DEMAND_S = 2.0
# How often a replica looks whether it must give up something, and how long it waits at least between two changes.
TICK_S, GAP_S = 1.0, 0.05
MAX_CONFLICTS = 20


@dataclass(frozen=True)
class Plan:
    """The entry that a replica should have, None for none; what it uses then, and whether it must be written."""

    entry: Holding | None
    used: Holding
    is_due: bool


class SharedLimit:
    """This replica's share of one limit, which an admission keeps to."""

    def __init__(self, name: str, replica: str, bucket: KeyValue, admission: Admission, log: Any) -> None:
        self._name, self._replica, self._bucket, self._log = name, replica, bucket, log
        self._admission, self._limit = admission, Quota()
        self._wake = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._table: dict[str, Holding] = {}
        self._revision = 0
        self._seen: dict[str, tuple[int, float]] = {}
        # What the admission may use, which is never more than what the table says.
        self._used = Holding()
        self._until, self._renewed, self._lowered = 0.0, 0.0, -1e9
        self._peaks: list[tuple[float, int, int]] = []
        """Times with the requests of people and of others."""

    def limit_to(self, quota: Quota) -> None:
        """Set the limit of all replicas together; without one, each keeps to limits of its own."""
        self._limit = quota
        is_shared = bool(quota.running) or (quota.per_second is not None and quota.running != 0)
        if is_shared and self._keeping is None:
            self._use(Holding())
            self._keeping = asyncio.create_task(self._keep(), name=f"share of {self._name}")
        elif not is_shared and self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
            self._used = Holding()
            self._admission.set_share(None)
        self._wake.set()

    def observe(self, entry: Entry) -> None:
        """Take notice of a change of the table."""
        if entry.revision > self._revision:
            self._read(entry)
            self._wake.set()

    async def close(self) -> None:
        """Give back what is not in use, if the bus can be reached; others reclaim the rest."""
        if self._keeping is None:
            return
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        self._keeping = None
        self._use(Holding())
        idle_s = asyncio.get_running_loop().time() - self._admission.started_at
        # What began within the last period still counts at the upstream, and so does what runs.
        if not self._admission.running and idle_s >= self._rate.period_s and self._replica in self._table:
            with suppress(FathomError):
                await self._write(Plan(None, Holding(), is_due=True))

    def _read(self, entry: Entry | None) -> None:
        try:
            self._table = read_table(None if entry is None else entry.value)
        except CorruptData as error:
            self._log.error("shares cannot be read, and begin anew", limit=self._name, error=error.message)
            self._table = {}
        self._revision = 0 if entry is None or entry.value is None else entry.revision
        now = asyncio.get_running_loop().time()
        for name, held in self._table.items():
            if self._seen.get(name, (-1, 0.0))[0] != held.beat:
                self._seen[name] = held.beat, now
        self._seen = {name: seen for name, seen in self._seen.items() if name in self._table}

    async def _keep(self) -> None:
        """Settle whenever something changes, and every ``TICK_S``."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._settle()
            except FathomError as error:
                # What is held holds until its time is over.
                self._log.warning("share cannot be renewed", limit=self._name, error=error.message)
            await asyncio.sleep(GAP_S)

    async def _settle(self) -> None:
        """Change this replica's entry as far as needed."""
        for _ in range(MAX_CONFLICTS):
            plan = self._plan()
            if not plan.is_due:
                return
            try:
                await self._write(plan)
                return
            except Conflict:
                self._read(await self._bucket.get(self._name))

    def _plan(self) -> Plan:
        """Return what this replica should hold now; lower at once what it may use."""
        now, rate = asyncio.get_running_loop().time(), self._rate
        before = self._table.get(self._replica)
        people, others = self._measure(now)
        if not people + others:
            self._use(Holding())
            return Plan(None, Holding(), before is not None)
        table = self._list_living(now)
        # A newcomer waits for its turn behind those that share what is scarce already.
        mine = before or Holding(had_s=max((entry.had_s for entry in table.values()), default=0.0))
        had_s = mine.had_s + (now - self._renewed) * max(mine.places, mine.slots)
        mine = table[self._replica] = replace(mine, people=people, others=others, had_s=had_s)
        wanted = Holding(
            decide(self._limit.running or 0, self._replica, table, "places"),
            decide(rate.slots, self._replica, table, "slots"),
        )
        if wanted.slots < self._used.slots:
            self._lowered = now
        # At once, before others are told; what is more is used only when the table says so.
        self._use(Holding(min(wanted.places, self._used.places), min(wanted.slots, self._used.slots)))
        # What runs still holds its places, and what began in the last period its slots.
        is_cool = now - self._lowered >= rate.period_s
        places = max(wanted.places, min(self._admission.running, mine.places))
        entry = replace(mine, places=places, slots=wanted.slots if is_cool else max(wanted.slots, mine.slots))
        return Plan(entry, wanted, wanted != self._used or self._is_due(before, entry, now))

    def _is_due(self, before: Holding | None, entry: Holding, now: float) -> bool:
        """Return whether an entry must be written: others must know of it, or it must be renewed."""
        if before is None or (before.places, before.slots) != (entry.places, entry.slots):
            return True
        if self._lacks(entry) != self._lacks(before):
            return True
        others = (held for name, held in self._table.items() if name != self._replica)
        # Where somebody lacks something, who has had how much decides whose turn it is.
        return now - self._renewed >= (TICK_S if any(map(self._lacks, others)) else RENEW_S)

    def _lacks(self, entry: Holding) -> bool:
        """Return whether a replica wants more than it holds."""
        places = min(entry.demand, self._limit.running or 0)
        return entry.places < places or entry.slots < min(entry.demand, self._rate.slots)

    @property
    def _rate(self) -> Rate:
        return Rate(0, 0.0) if self._limit.per_second is None else Rate.of(self._limit.per_second)

    def _measure(self, now: float) -> tuple[int, int]:
        """Return the largest numbers of requests of people and of others in the last seconds.

        While something was there lately it counts as one: a share is not taken and given back between two requests.
        """
        people, requests = self._admission.people, self._admission.requests
        self._peaks = [peak for peak in self._peaks if peak[0] >= now - DEMAND_S] + [(now, people, requests - people)]
        most_people, most_others = max(peak[1] for peak in self._peaks), max(peak[2] for peak in self._peaks)
        is_idle = now - self._admission.started_at >= max(IDLE_S, self._rate.period_s)
        return most_people, max(most_others, int(not is_idle and not most_people))

    def _list_living(self, now: float) -> dict[str, Holding]:
        """Return the entries without those that were not renewed for too long."""
        return {
            name: held
            for name, held in self._table.items()
            if name == self._replica or now - self._seen[name][1] < RECLAIM_S
        }

    async def _write(self, plan: Plan) -> None:
        """Write this replica's entry, and use what it says from then on; raise ``Conflict``."""
        started = asyncio.get_running_loop().time()
        table = {name: held for name, held in self._list_living(started).items() if name != self._replica}
        if plan.entry is not None:
            table[self._replica] = replace(plan.entry, beat=plan.entry.beat + 1)
        value = write_table(table)
        revision = await self._bucket.put(self._name, value, revision=self._revision)
        self._renewed = started
        # Others may have changed theirs since, and the change was seen before the confirmation.
        if revision > self._revision:
            self._read(Entry(self._name, value, revision))
        if plan.entry is not None:
            self._until = started + HOLD_S
            self._use(plan.used)

    def _use(self, used: Holding) -> None:
        """Let the admission use so much from now on."""
        self._used, rate = used, self._rate
        places = None if self._limit.running is None else used.places
        per_second = used.slots / rate.period_s if rate.slots else None
        self._admission.set_share(Share(places, per_second, self._until), self._notice)

    def _notice(self) -> None:
        """Look again when requests lack a share, or when what was given up has ended."""
        held = self._table.get(self._replica, Holding())
        wanted = replace(self._used, others=self._admission.requests)
        if self._lacks(wanted) or held.places > self._used.places:
            self._wake.set()

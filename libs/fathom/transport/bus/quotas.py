"""Quotas in a key-value bucket of the bus, which all replicas follow: a change takes effect everywhere at once.

The key is what is limited: ``tool.NAME``, ``model.NAME``, ``source.NAME`` or ``tenant.NAME`` (its calls of tools). A
limit holds for all replicas together; see ``shares``. What the bucket does not say, settings may (``runtime.quotas``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fathom.core.admission import Admission, Limits, Quota
from fathom.core.admission.quota import MAX_RUNNING
from fathom.core.errors import FathomError, InvalidField
from fathom.core.ids import new_id
from fathom.core.retry import Retries, RetryPolicy, always
from fathom.transport.bus.base import Bus, Entry, KeyValue
from fathom.transport.bus.shares import SharedLimit
from fathom.transport.bus.streams import QUOTAS, SHARES

# What was allowed last holds while the bus is away.
RETRY = RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=30.0)
NONE = Quota()
# Calls of a tenant that wait for its quota, in each replica; more are refused with a delay.
TENANT_WAITING = 256


@dataclass(frozen=True)
class Governed:
    """An admission under a quota, the limits of its settings, and this replica's share of what holds."""

    admission: Admission
    settings: Quota
    limit: SharedLimit


class Quotas:
    """Quotas of one process and the admissions that they govern. An admission may be opened before or after."""

    def __init__(self, bus: Bus, log: Any, configured: Mapping[str, Quota] | None = None) -> None:
        """Create them; ``configured`` are quotas by name that hold where the bucket has none."""
        self._bucket, self._shares, self._log = bus.bucket(QUOTAS), bus.bucket(SHARES), log
        self._replica = new_id("replica")
        self._configured = dict(configured or {})
        self._known = dict(self._configured)
        self._governed: dict[str, Governed] = {}
        self._tenants: dict[str, Admission] = {}
        self._following: list[asyncio.Task[None]] = []

    def govern(self, name: str, admission: Admission, settings: Quota = NONE) -> Admission:
        """Put an admission under the quota of a name, from now on; return it.

        ``settings`` are limits of the upstream, which hold over all replicas where no quota says otherwise.
        """
        limit = SharedLimit(name, self._replica, self._shares, admission, self._log)
        self._governed[name] = Governed(admission, settings, limit)
        if self._following:
            self._follow_quota(name)
        elif name in self._known:
            admission.set_quota(self._known[name])
        return admission

    def find_tenant(self, tenant: str) -> Admission | None:
        """Return the admission of a tenant's calls; None for one without a quota."""
        name = f"tenant.{tenant}"
        if self._known.get(name, NONE) == NONE:
            return None
        if tenant not in self._tenants:
            limits = Limits(MAX_RUNNING, TENANT_WAITING)
            self._tenants[tenant] = self.govern(name, Admission(f"tenant {tenant!r}", limits, noun="calls"))
        return self._tenants[tenant]

    def start(self) -> None:
        """Follow the quotas and the shares of other replicas in the background."""
        self._following = [
            asyncio.create_task(self._follow(self._bucket, self._apply), name="following the quotas"),
            asyncio.create_task(self._follow(self._shares, self._observe), name="following the shares"),
        ]
        for name in self._governed:
            self._follow_quota(name)

    async def close(self) -> None:
        for following in self._following:
            following.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await asyncio.gather(*(governed.limit.close() for governed in self._governed.values()))

    async def _follow(self, bucket: KeyValue, take: Callable[[Entry], None]) -> None:
        retries = Retries(RETRY, is_retryable=always)
        while True:
            try:
                async with aclosing(bucket.watch()) as entries:
                    async for entry in entries:
                        retries.reset()
                        take(entry)
                return  # the bus is closed
            except FathomError as error:
                self._log.warning("quotas cannot be followed", error=error.message)
                await asyncio.sleep(retries.next_delay_s(error))

    def _observe(self, entry: Entry) -> None:
        if entry.key in self._governed:
            self._governed[entry.key].limit.observe(entry)

    def _apply(self, entry: Entry) -> None:
        try:
            quota = self._configured.get(entry.key, NONE) if entry.value is None else Quota.parse(entry.value)
        except InvalidField as error:
            # What held before is a better guess than no limit.
            self._log.error("quota is not valid", quota=entry.key, error=error.message)
            return
        self._known[entry.key] = quota
        if entry.key in self._governed:
            self._follow_quota(entry.key)
        self._log.info("quota changed", quota=entry.key, running=quota.running, per_second=quota.per_second)

    def _follow_quota(self, name: str) -> None:
        """Apply what is known of a name: its quota, and the shared limits of quota and settings."""
        governed, quota = self._governed[name], self._known.get(name, NONE)
        governed.admission.set_quota(quota)
        running = governed.settings.running if quota.running is None else quota.running
        rate = governed.settings.per_second if quota.per_second is None else quota.per_second
        governed.limit.limit_to(Quota(running, rate))

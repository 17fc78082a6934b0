"""Quotas in a key-value bucket of the bus, which all replicas follow: a change takes effect everywhere at once.

The key is what is limited, ``tool.NAME`` or ``model.NAME``.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from fathom.core.admission import Admission, Quota
from fathom.core.errors import FathomError, InvalidField
from fathom.core.retry import Retries, RetryPolicy, always
from fathom.transport.bus.base import Bus, Entry
from fathom.transport.bus.streams import QUOTAS

# What was allowed last holds while the bus is away.
RETRY = RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=30.0)
NONE = Quota()


class Quotas:
    """Quotas of one process and the admissions that they govern. An admission may be opened before or after."""

    def __init__(self, bus: Bus, log: Any) -> None:
        self._bucket, self._log = bus.bucket(QUOTAS), log
        self._known: dict[str, Quota] = {}
        self._governed: dict[str, Admission] = {}
        self._following: asyncio.Task[None] | None = None

    def govern(self, name: str, admission: Admission) -> Admission:
        """Put an admission under the quota of a name, from now on; return it."""
        self._governed[name] = admission
        if name in self._known:
            admission.set_quota(self._known[name])
        return admission

    def start(self) -> None:
        """Follow the bucket in the background."""
        self._following = asyncio.create_task(self._follow(), name="following the quotas")

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        retries = Retries(RETRY, is_retryable=always)
        while True:
            try:
                async with aclosing(self._bucket.watch()) as entries:
                    async for entry in entries:
                        retries.reset()
                        self._apply(entry)
                return  # the bus is closed
            except FathomError as error:
                self._log.warning("quotas cannot be followed", error=error.message)
                await asyncio.sleep(retries.next_delay_s(error))

    def _apply(self, entry: Entry) -> None:
        try:
            quota = NONE if entry.value is None else Quota.parse(entry.value)
        except InvalidField as error:
            # What held before is a better guess than no limit.
            self._log.error("quota is not valid", quota=entry.key, error=error.message)
            return
        self._known[entry.key] = quota
        if entry.key in self._governed:
            self._governed[entry.key].set_quota(quota)
        self._log.info("quota changed", quota=entry.key, running=quota.running, per_second=quota.per_second)

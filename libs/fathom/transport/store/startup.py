"""Waiting at the start of a service for an object store that is not there yet."""

from __future__ import annotations

import asyncio
from typing import Any

from fathom.core.errors import FathomError
from fathom.core.retry import Retries, RetryPolicy
from fathom.transport.store.base import ObjectStore

# Without an end: until the store answers the service is not ready, which its probes and callers see, and Kubernetes
# ends a pod whose start takes too long. Ending by itself would only begin the same start again.
PATIENT = RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=5.0)
# No object has this key; asking for it reads nothing.
PROBE_KEY = "probes/startup"


async def wait_for_store(store: ObjectStore, log: Any, policy: RetryPolicy = PATIENT) -> None:
    """Return when the store answers; log each time that it does not.

    Raises ``ConfigError`` at once when the store refuses: a wrong key or bucket does not become right by waiting.
    """
    retries = Retries(policy)
    while True:
        try:
            await store.head(PROBE_KEY)
            return
        except FathomError as error:
            delay = retries.next_delay_s(error)
            log.warning("waiting for the object store", error=error.message)
        await asyncio.sleep(delay)

"""A service that starts before its object store waits for it instead of ending."""

import pytest

from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed
from fathom.core.retry import RetryPolicy
from fathom.transport.store.startup import wait_for_store

AT_ONCE = RetryPolicy(attempts=None, first_delay_s=0.0, max_delay_s=0.0)


class Store:
    """Object store that raises the given errors, one per call, and then answers."""

    def __init__(self, *errors):
        self.errors = list(errors)

    async def head(self, key):
        if self.errors:
            raise self.errors.pop(0)
        return None


class Log:
    def __init__(self):
        self.lines = []

    def warning(self, event, **fields):
        self.lines.append((event, fields))


async def test_each_time_that_the_store_is_away_is_logged_until_it_answers():
    log = Log()
    away = DependencyFailed("object store", "cannot be reached (MaxRetryError)")
    await wait_for_store(Store(*[away] * 40), log, AT_ONCE)  # type: ignore[arg-type]
    assert len(log.lines) == 40
    assert log.lines[0] == ("waiting for the object store", {"error": away.message})


async def test_a_refusal_is_not_waited_for():
    refused = ConfigError("store_url: access to bucket 'fathom' is denied", metadata={"field": "store_url"})
    with pytest.raises(ConfigError, match="denied"):
        await wait_for_store(Store(refused), Log(), AT_ONCE)  # type: ignore[arg-type]

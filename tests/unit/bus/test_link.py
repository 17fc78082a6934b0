"""A connection to NATS that does not come about ends in time, whatever nats-py does with a cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.aio.client import Client
from nats.errors import AuthorizationError, NoRespondersError

from fathom.core.errors import NotReady
from fathom.core.retry import RetryPolicy
from fathom.transport.bus.nats import link
from fathom.transport.bus.nats.link import Link

URL = "nats://127.0.0.1:1"


# Python 3.11 drops a cancellation that meets an error in wait_for (mended in 3.12): a timeout then never ends its task.
async def lose_a_cancellation(error: Exception) -> None:
    """Wait until cancelled and raise an error instead, as Python 3.11's ``wait_for`` does when both come at once."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise error from None


async def test_opening_ends_in_time_though_the_client_loses_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[dict[str, Any]] = []

    async def connect(client: object, servers: list[str], **options: Any) -> None:
        # The library's own behaviour, reduced to what matters: it swallows the error and goes on to the next server.
        while True:  # nats-py's loop over servers, which goes on after every error
            attempts.append(options)
            try:
                await (asyncio.Event().wait() if len(attempts) > 1 else lose_a_cancellation(AuthorizationError()))
            except AuthorizationError:
                continue

    monkeypatch.setattr(link, "OPEN_TIMEOUT_S", 0.01)
    monkeypatch.setattr(Client, "connect", connect)
    with pytest.raises(NotReady, match=r"no NATS server answers at nats://127\.0\.0\.1:1"):
        await Link.open(URL)
    # The first attempt lost the cancellation, the second was cancelled again.
    assert len(attempts) == 2


async def test_confirming_ends_in_time_though_the_call_loses_the_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    async def call() -> None:
        calls.append("called")
        await lose_a_cancellation(NoRespondersError())

    monkeypatch.setattr(link, "CONFIRM_TIMEOUT_S", 0.01)
    # No pause: were the call repeated, that would show at once.
    monkeypatch.setattr(link, "RETRY", RetryPolicy(attempts=None, first_delay_s=0.0))
    opened = Link(replicas=1)
    opened.connected.set()
    with pytest.raises(NotReady, match=r"the settlement was not confirmed .*\(NoRespondersError\)"):
        await opened.confirm("the settlement", call)
    assert calls == ["called"]

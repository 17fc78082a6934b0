"""Restoring streams into a cluster whose servers learn of each other's subscriptions a moment later."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from fathom.core import retry
from fathom.core.errors import DependencyFailed
from fathom.transport.bus.nats.link import Link
from fathom.transport.bus.nats.snapshots import Snapshots
from fathom.transport.bus.streams import topology

TARGET = "the.receiver"


class ClusterClient:
    """Client of a server that accepts a restore and answers its pieces by ``outcomes``, in order."""

    is_closed = False

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.received: list[bytes] = []

    async def request(self, subject: str, payload: bytes, **_: float) -> SimpleNamespace:
        if subject.startswith("$JS.API.STREAM.INFO"):
            return reply({"error": {"err_code": 10059}})
        if subject.startswith("$JS.API.STREAM.RESTORE"):
            return reply({"deliver_subject": TARGET})
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        self.received.append(payload)
        return reply({} if payload else {"state": {"messages": 1}})


def reply(message: object) -> SimpleNamespace:
    return SimpleNamespace(data=json.dumps(message).encode())


async def restore(client: ClusterClient) -> int:
    async def parts() -> AsyncIterator[bytes]:
        yield b"piece"

    link = Link(replicas=3)
    link.client = client  # type: ignore[assignment]
    link.connected.set()
    return await Snapshots(link, 3, topology()).restore({"name": "RUNS"}, {}, parts())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry.RetryPolicy, "delay_s", lambda *_: 0.0)


async def test_a_piece_that_no_server_took_is_sent_again() -> None:
    client = ClusterClient(NoRespondersError(), NoRespondersError())
    assert await restore(client) == 1
    assert client.received == [b"piece", b""]


async def test_a_piece_that_a_server_may_have_taken_is_not_sent_twice() -> None:
    client = ClusterClient(NatsTimeout())
    with pytest.raises(DependencyFailed, match="restoring RUNS: TimeoutError"):
        await restore(client)
    assert client.received == []


async def test_a_cluster_with_a_server_away_is_asked_again() -> None:
    class Joining(ClusterClient):
        refused = 0

        async def request(self, subject: str, payload: bytes, **bounds: float) -> SimpleNamespace:
            if subject.startswith("$JS.API.STREAM.RESTORE") and self.refused < 2:
                self.refused += 1
                return reply({"error": {"err_code": 10005, "description": "no suitable peers for placement"}})
            return await super().request(subject, payload, **bounds)

    client = Joining()
    assert await restore(client) == 1
    assert (client.refused, client.received) == (2, [b"piece", b""])

"""The claim check, in memory and on a real nats-server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fathom.core.call import Lane
from fathom.core.errors import CorruptData, PayloadTooLarge
from fathom.transport.bus import Message
from fathom.transport.bus.claim import MAX_PAYLOAD, THRESHOLD
from fathom.transport.bus.delivery import DEAD_CLAIM, DEAD_REASON
from fathom.transport.bus.streams import ALL_DEAD, events_subject, rpc_subject, run_subject

if TYPE_CHECKING:
    from tests.integration.bus.conftest import Make

SEARCH = rpc_subject("retrieval", "Search")
WORK = run_subject(Lane.INTERACTIVE)
# One byte pattern past the limit above which payloads go into the store.
LARGE = bytes(range(256)) * (THRESHOLD // 256) + b"one more"


async def echo(message: Message) -> Message:
    return Message(message.subject, message.payload[::-1], {"seen": message.headers.get("tenant", "")})


async def test_large_payloads_travel_as_claims(make: Make) -> None:
    lab = await make()
    await lab.bus.serve(SEARCH, "retrieval", echo)
    reply = await lab.bus.request(SEARCH, LARGE, headers={"tenant": "acme"}, timeout_s=10)
    # Compared as a boolean: a failure would print half a megabyte twice.
    assert (reply.payload == LARGE[::-1], reply.headers) == (True, {"seen": "acme"})
    await lab.bus.publish(WORK, LARGE, message_id="1", headers={"a": "b"})
    (delivery,) = await lab.take(1)
    assert (delivery.payload == LARGE, delivery.headers) == (True, {"a": "b"})
    await lab.bus.publish(events_subject("run-1"), LARGE, message_id="1")
    assert (await lab.read(events_subject("run-1"), 1))[0].payload == LARGE
    # The reply and the publication; the event is the same bytes, and so the same object.
    assert [stored.size_bytes for stored in await lab.store.list("claims/")] == [len(LARGE)] * 2


async def test_a_spoilt_claim_is_found_by_both_ends_of_a_request(make: Make) -> None:
    lab = await make()
    seen: list[bytes] = []

    async def handler(message: Message) -> Message:
        seen.append(message.payload)
        return Message(message.subject, LARGE, {})

    await lab.bus.serve(SEARCH, "retrieval", handler)
    lab.store.spoiling = True
    for payload in (LARGE, b"its reply is spoilt"):
        with pytest.raises(CorruptData, match="claims/"):
            await lab.bus.request(SEARCH, payload, headers={}, timeout_s=10)
    # The spoilt request never reached the handler; the spoilt reply was noticed by the caller.
    assert seen == [b"its reply is spoilt"]


async def test_a_spoilt_claim_in_a_stream(make: Make) -> None:
    lab = await make()
    await lab.bus.publish(WORK, LARGE, message_id="1")
    await lab.bus.publish(events_subject("run-1"), LARGE, message_id="1")
    await lab.store.spoil()
    await lab.put(b"next")
    # A message whose payload is gone must not block those behind it.
    assert [d.payload for d in await lab.take(1)] == [b"next"]
    (letter,) = await lab.read(ALL_DEAD, 1)
    assert letter.headers[DEAD_REASON].startswith("CORRUPT_DATA: claims/")
    # The dead letter keeps the claim's key, to look for the object by hand.
    assert "claims/" in letter.headers[DEAD_CLAIM]
    with pytest.raises(CorruptData, match="claims/"):
        await lab.read(events_subject("run-1"), 1)


async def test_oversized_payloads_are_refused_on_all_ways(make: Make) -> None:
    lab = await make()
    # One byte over 32 MiB.
    huge = bytes(MAX_PAYLOAD + 1)

    async def handler(message: Message) -> Message:
        return Message(message.subject, huge, {})

    await lab.bus.serve(SEARCH, "retrieval", handler)
    for payload in (huge, b"its reply is too large"):
        with pytest.raises(PayloadTooLarge, match="33,554,433"):
            await lab.bus.request(SEARCH, payload, headers={}, timeout_s=10)
    with pytest.raises(PayloadTooLarge):
        await lab.bus.publish(WORK, huge, message_id="1")
    # Refused before anything was stored.
    assert await lab.store.list("") == []

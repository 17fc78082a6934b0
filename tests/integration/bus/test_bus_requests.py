"""Request and reply, in memory and on a real nats-server."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from fathom.core.call import Lane
from fathom.core.errors import DeadlineExceeded, DependencyFailed, Internal, InvalidField, NotFound, NotReady
from fathom.transport.bus import Delivery, Message
from fathom.transport.bus.claim import CLAIM_HEADER, THRESHOLD
from fathom.transport.bus.streams import events_subject, rpc_subject, run_durable, run_subject
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.bus.conftest import Make

SEARCH = rpc_subject("retrieval", "Search")
WORK, WORKERS = run_subject(Lane.INTERACTIVE), run_durable(Lane.INTERACTIVE)


async def echo(message: Message) -> Message:
    return Message(message.subject, message.payload[::-1], {"seen": message.headers.get("tenant", "")})


async def test_request_reply_with_headers(make: Make) -> None:
    lab = await make()
    await lab.bus.serve(SEARCH, "retrieval", echo)
    reply = await lab.bus.request(SEARCH, b"abc", headers={"tenant": "acme"}, timeout_s=5)
    assert (reply.payload, reply.headers) == (b"cba", {"seen": "acme"})


async def test_what_has_stopped_serving_is_let_go(make: Make) -> None:
    """Each run serves its own subject for a while: a bus that keeps the handlers keeps every run."""
    lab = await make()

    class Run:
        async def handle(self, message: Message) -> Message:
            return message

    run = Run()
    serving = await lab.bus.serve(SEARCH, "run_1", run.handle)
    await lab.bus.request(SEARCH, b"abc", headers={}, timeout_s=5)
    await serving.close()
    held = weakref.ref(run)
    del run, serving
    await eventually(lambda: gc.collect() >= 0 and held() is None)


async def test_a_queue_group_shares_requests_and_each_is_answered_once(make: Make) -> None:
    lab = await make()
    counts = [0, 0]

    def member(number: int) -> Callable[[Message], Awaitable[Message]]:
        async def handler(message: Message) -> Message:
            counts[number] += 1
            return message

        return handler

    await lab.bus.serve(SEARCH, "retrieval", member(0))
    await (await lab.open_another()).serve(SEARCH, "retrieval", member(1))
    calls = (lab.bus.request(SEARCH, b"%d" % n, headers={}, timeout_s=5) for n in range(60))
    replies = await asyncio.gather(*calls)
    assert sorted(int(reply.payload) for reply in replies) == list(range(60))
    assert sum(counts) == 60
    # The server may hand a whole burst to one member; requests that come one by one reach both.
    for number in range(200):
        if min(counts) > 5:
            break
        await lab.bus.request(SEARCH, b"%d" % number, headers={}, timeout_s=5)
    assert min(counts) > 5


async def test_handlers_run_concurrently_and_close_drains(make: Make) -> None:
    lab = await make()
    both, running = asyncio.Barrier(3), asyncio.Event()

    async def handler(message: Message) -> Message:
        await both.wait()
        await running.wait()
        return message

    serving = await lab.bus.serve(SEARCH, "retrieval", handler)
    calls = [asyncio.create_task(lab.bus.request(SEARCH, b"x", headers={}, timeout_s=5)) for _ in range(2)]
    await both.wait()
    closing = asyncio.create_task(serving.close())
    asyncio.get_running_loop().call_later(0.05, running.set)
    await closing
    assert [(await call).payload for call in calls] == [b"x", b"x"]
    with pytest.raises(NotReady):
        await lab.bus.request(SEARCH, b"x", headers={}, timeout_s=5)


async def test_nobody_serves(make: Make) -> None:
    lab = await make()
    with pytest.raises(NotReady, match=r"nobody serves fathom\.retrieval\.v1\.Search"):
        await lab.bus.request(SEARCH, b"", headers={}, timeout_s=5)


async def test_no_answer_in_time(make: Make) -> None:
    lab = await make()
    late = asyncio.Event()

    async def handler(message: Message) -> Message:
        await late.wait()
        return message

    await lab.bus.serve(SEARCH, "retrieval", handler)
    with pytest.raises(DeadlineExceeded):
        await lab.bus.request(SEARCH, b"", headers={}, timeout_s=0.05)
    late.set()


async def test_a_timeout_of_the_object_store_is_not_reported_as_the_callers_deadline(make: Make) -> None:
    lab = await make()
    await lab.bus.serve(SEARCH, "retrieval", echo)
    lab.store.is_slow = True
    with pytest.raises(DependencyFailed, match=r"object store: .* could not be stored in time"):
        await lab.bus.request(SEARCH, b"x" * (THRESHOLD + 1), headers={}, timeout_s=60)


async def test_errors_of_a_handler_travel_typed_and_others_are_hidden(make: Make) -> None:
    lab = await make()

    async def handler(message: Message) -> Message:
        if message.payload == b"typed":
            raise NotFound("document", "d7", ["d1", "d2"])
        raise RuntimeError("password is hunter2")

    await lab.bus.serve(SEARCH, "retrieval", handler)
    with pytest.raises(NotFound, match="d7") as typed:
        await lab.bus.request(SEARCH, b"typed", headers={}, timeout_s=5)
    assert typed.value.nearest == ("d1", "d2")
    with pytest.raises(Internal) as hidden:
        await lab.bus.request(SEARCH, b"other", headers={}, timeout_s=5)
    assert "hunter2" not in hidden.value.message


async def test_malformed_messages_are_refused_before_they_travel(make: Make) -> None:
    lab = await make()
    for subject in ("", "a b", "fathom.*", "fathom..x", "fathom.>\r\nPUB x 0"):
        with pytest.raises(InvalidField, match=r"^subject"):
            await lab.bus.request(subject, b"", headers={}, timeout_s=5)
    for headers in ({"a": "x\r\ny"}, {"Nats-Msg-Id": "1"}, {CLAIM_HEADER: "{}"}, {"a b": ""}, {"a": "x" * 20_000}):
        with pytest.raises(InvalidField, match=r"^headers"):
            await lab.bus.publish(WORK, b"", message_id="1", headers=headers)
    with pytest.raises(InvalidField, match=r"^message_id"):
        await lab.bus.publish(WORK, b"", message_id="")
    with pytest.raises(InvalidField, match="no stream stores"):
        await lab.bus.publish("fathom.nowhere.x", b"", message_id="1")
    with pytest.raises(InvalidField, match="work queue RUNS"):
        await anext(lab.bus.follow(WORK))
    with pytest.raises(NotFound, match="planner-interactive"):
        await anext(lab.bus.consume("planer"))


async def test_close_ends_consumers_and_followers(make: Make) -> None:
    lab = await make()

    found: dict[str, bytes] = {}

    async def drain(name: str, deliveries: AsyncIterator[Delivery]) -> None:
        async for delivery in deliveries:
            found[name] = delivery.payload

    waiting = [
        asyncio.create_task(drain("consumer", lab.bus.consume(WORKERS))),
        asyncio.create_task(drain("follower", lab.bus.follow(events_subject("run-1")))),
    ]
    await lab.bus.publish(WORK, b"work", message_id="1")
    await lab.bus.publish(events_subject("run-1"), b"event", message_id="2")
    await eventually(lambda: len(found) == 2)
    await lab.bus.close()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)
    assert found == {"consumer": b"work", "follower": b"event"}
    with pytest.raises(NotReady):
        await lab.bus.request(SEARCH, b"", headers={}, timeout_s=1)

"""A cancellation that nats-py swallows, as it may on Python 3.11, still ends the caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from nats.errors import ConnectionClosedError
from nats.errors import TimeoutError as NatsTimeout

from fathom.core.errors import DeadlineExceeded
from fathom.transport.bus.nats.bus import NatsBus
from fathom.transport.bus.nats.cancellation import restore_cancellation
from fathom.transport.bus.nats.link import Link
from fathom.transport.bus.nats.pull import pull
from fathom.transport.bus.nats.snapshots import Snapshots, pieces
from fathom.transport.bus.streams import topology
from fathom.transport.store.memory import MemoryStore

REPLY = SimpleNamespace(data=b"{}", headers={}, reply="")


class Swallowing:
    """A call into nats-py that answers, with ``outcome`` or by raising it, when it is cancelled."""

    def __init__(self, outcome: object) -> None:
        self.outcome, self.waits = outcome, asyncio.Event()

    async def __call__(self, *_: object, **__: object) -> Any:
        self.waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(self.outcome, Exception):
                raise self.outcome from None
            return self.outcome


def connected_link(**calls: Callable[..., Awaitable[Any]]) -> Link:
    link = Link(replicas=1)
    link.client = SimpleNamespace(is_closed=False, **calls)  # type: ignore[assignment]
    link.connected.set()
    return link


def requesting_bus(publish: Swallowing) -> NatsBus:
    """Make a bus whose requests wait in ``publish``."""

    async def subscribe(*_: object, **__: object) -> None: ...

    link = connected_link(publish=publish, subscribe=subscribe, new_inbox=lambda: "inbox")  # type: ignore[arg-type, return-value]
    return NatsBus(link, MemoryStore(), topology())


async def end(work: Coroutine[Any, Any, Any], call: Swallowing) -> asyncio.Task[Any]:
    """Cancel the work once, while it waits for the call, and return its ended task."""
    task = asyncio.create_task(work)
    await call.waits.wait()
    task.cancel()
    await asyncio.wait({task})
    return task


@pytest.mark.parametrize("outcome", [[REPLY], NatsTimeout(), ConnectionClosedError()], ids=lambda o: type(o).__name__)
async def test_a_worker_that_is_stopped_takes_no_further_message(outcome: object) -> None:
    call = Swallowing(outcome)
    task = await end(pull(connected_link(), SimpleNamespace(fetch=call)), call)  # type: ignore[arg-type]
    assert task.cancelled()


@pytest.mark.parametrize("outcome", [REPLY, NatsTimeout()], ids=lambda o: type(o).__name__)
async def test_a_confirmed_call_a_request_and_a_snapshot_end_when_cancelled(outcome: object) -> None:
    def confirm(call: Swallowing) -> Coroutine[Any, Any, Any]:
        return connected_link().confirm("it", call)

    def request(call: Swallowing) -> Coroutine[Any, Any, Any]:
        return requesting_bus(call).request("rpc.x", b"", headers={}, timeout_s=60.0)

    def restore(call: Swallowing) -> Coroutine[Any, Any, Any]:
        return Snapshots(connected_link(request=call), 1, topology()).messages("EVENTS")

    def read(call: Swallowing) -> Coroutine[Any, Any, Any]:
        async def read_all() -> list[bytes]:
            return [piece async for piece in pieces("EVENTS", SimpleNamespace(next_msg=call))]  # type: ignore[arg-type]

        return read_all()

    for start in (confirm, request, restore, read):
        call = Swallowing(outcome)
        assert (await end(start(call), call)).cancelled(), start.__name__


async def test_a_request_ends_at_its_deadline_though_the_limit_is_swallowed() -> None:
    bus = requesting_bus(Swallowing(REPLY))
    with pytest.raises(DeadlineExceeded, match=r"rpc\.x did not answer within 0\.01 s"):
        await bus.request("rpc.x", b"", headers={}, timeout_s=0.01)


async def test_a_timeout_within_the_block_and_an_earlier_cancellation_are_not_raised_again() -> None:
    waits = asyncio.Event()

    async def work() -> str:
        with restore_cancellation(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        waits.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        with restore_cancellation():
            await asyncio.sleep(0)
        return "cleaned up"

    task = asyncio.create_task(work())
    await waits.wait()
    task.cancel()
    assert await task == "cleaned up"

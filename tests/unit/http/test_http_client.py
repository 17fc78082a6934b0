"""The client for other people's servers, against a local one: attempts, patience, sizes, secrets, deadlines."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web

from fathom.core.errors import DeadlineExceeded, DependencyFailed, Overloaded
from fathom.core.retry import RetryPolicy
from fathom.transport.http import (
    AnswerTooLarge,
    HttpClient,
    HttpPolicy,
    MalformedAnswer,
    UpstreamRefused,
    retry_after_s,
)
from tests.servers import Servers
from tests.support.waiting import eventually

# Three attempts within some hundredths of a second.
QUICK = RetryPolicy(attempts=3, first_delay_s=0.01, max_delay_s=0.02)


def client(serve: Servers, **bounds: object) -> HttpClient:
    made = HttpClient("vendor", HttpPolicy(retry=QUICK, **bounds), {"x-api-key": "sesame-123"})  # type: ignore[arg-type]
    return serve.close_after(made)


def answers(
    *responses: Callable[[], web.Response],
) -> tuple[Callable[[web.Request], Awaitable[web.Response]], list[str]]:
    """A handler that gives the responses in turn, the last for ever, and the paths that were asked for."""
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        return responses[min(len(asked), len(responses)) - 1]()

    return handler, asked


async def test_a_failing_server_is_tried_again(serve: Servers) -> None:
    handler, asked = answers(
        lambda: web.Response(status=503),
        lambda: web.Response(status=429, headers={"Retry-After": "0"}),
        # Unavailable, then too busy, then well.
        lambda: web.json_response({"ok": 1}),
    )
    url = await serve({"/x": handler})
    vendor = client(serve)
    assert (await vendor.get(f"{url}/x", {"q": "贵州"})).json() == {"ok": 1}
    # A Chinese query must survive the URL's encoding.
    assert len(asked) == 3
    await vendor.aclose()


async def test_attempts_are_bounded_and_the_cause_is_named(serve: Servers) -> None:
    handler, asked = answers(lambda: web.Response(status=502, text="bad gateway"))
    url = await serve({"/x": handler})
    with pytest.raises(DependencyFailed, match="vendor: answered 502: bad gateway"):
        await client(serve).get(f"{url}/x")
    # Three attempts, as the policy says.
    assert len(asked) == 3


# A redirect is a refusal here: following it would send the key to wherever it points.
@pytest.mark.parametrize("status", [400, 401, 403, 404, 302])
async def test_a_refusal_is_final(serve: Servers, status: int) -> None:
    handler, asked = answers(lambda: web.Response(status=status, headers={"Location": "/elsewhere"}))
    url = await serve({"/x": handler})
    with pytest.raises(UpstreamRefused) as refused:
        await client(serve).get(f"{url}/x")
    assert refused.value.status == status
    assert len(asked) == 1


async def test_secrets_are_blotted_out_of_messages(serve: Servers) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=400, text=f"bad key {request.query['api_key']} {request.headers['x-api-key']}")

    url = await serve({"/x": echo})
    with pytest.raises(UpstreamRefused) as refused:
        # The server echoes the key of the header and of the query, as real ones do in their errors.
        await client(serve).get(f"{url}/x", {"api_key": "open-456"})
    assert str(refused.value) == "vendor answered 400: bad key *** ***"


async def test_a_wish_for_patience_beyond_the_deadline_is_told_at_once(serve: Servers) -> None:
    # Half a minute, of which five seconds are left.
    handler, asked = answers(lambda: web.Response(status=429, headers={"Retry-After": "30"}))
    url = await serve({"/x": handler})
    # Had it waited for the second attempt, the error would be the deadline's.
    with pytest.raises(Overloaded) as overloaded:
        await client(serve).get(f"{url}/x", deadline=time.monotonic() + 5)
    assert overloaded.value.retry_after_s == 30
    assert len(asked) == 1


async def test_a_server_that_does_not_answer_costs_no_more_than_the_deadline(serve: Servers) -> None:
    release = asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    url = await serve({"/x": never})
    with pytest.raises(DeadlineExceeded, match="vendor"):
        await client(serve).get(f"{url}/x", deadline=time.monotonic() + 0.2)
    # A deadline in the past is told without a connection.
    with pytest.raises(DeadlineExceeded, match="no time"):
        await client(serve).get(f"{url}/x", deadline=time.monotonic() - 1)
    release.set()


async def test_nobody_listening(serve: Servers) -> None:
    # Port 1: nobody listens there.
    with pytest.raises(DependencyFailed, match="cannot be reached"):
        await client(serve).get("http://127.0.0.1:1/")


async def test_a_compressed_bomb_is_stopped_while_it_unpacks(serve: Servers) -> None:
    # 50 MB of zeros pack into some 50 KB, far below a bound on what is received.
    bomb = gzip.compress(b"0" * 50_000_000)
    handler, asked = answers(lambda: web.Response(body=bomb, headers={"Content-Encoding": "gzip"}))
    good, _ = answers(lambda: web.Response(body=gzip.compress(b"[1]"), headers={"Content-Encoding": "gzip"}))
    url = await serve({"/bomb": handler, "/good": good})
    vendor = client(serve, body_bytes=1_000_000)
    with pytest.raises(AnswerTooLarge):
        await vendor.get(f"{url}/bomb")
    assert len(asked) == 1
    # The client goes on after the bomb: the connection was closed, not left half read.
    assert (await vendor.get(f"{url}/good")).json() == [1]


# Empty, a page, no UTF-8, and brackets that would overflow a recursive parser.
@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000])
async def test_what_is_not_json_is_said_to_be_so(serve: Servers, body: bytes) -> None:
    handler, _ = answers(lambda: web.Response(body=body))
    url = await serve({"/x": handler})
    answer = await client(serve).get(f"{url}/x")
    with pytest.raises(MalformedAnswer, match="vendor"):
        answer.json()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_broken_compression(serve: Servers, encoding: str) -> None:
    handler, _ = answers(lambda: web.Response(body=b"not packed", headers={"Content-Encoding": encoding}))
    url = await serve({"/x": handler})
    with pytest.raises(MalformedAnswer):
        await client(serve).get(f"{url}/x")


async def test_no_more_calls_at_a_time_than_allowed(serve: Servers) -> None:
    running = most = 0
    release = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return web.Response()

    async def quick(_: web.Request) -> web.Response:
        return web.Response()

    url = await serve({"/x": handler, "/quick": quick})
    vendor = client(serve, concurrency=2)
    calls = [asyncio.create_task(vendor.get(f"{url}/x")) for _ in range(8)]
    await eventually(lambda: running == 2)
    # It went behind them in the order of the loop, so two are the most that had begun.
    await client(serve).get(f"{url}/quick")  # a third call, had it begun, would have arrived before this one
    release.set()
    await asyncio.gather(*calls)
    assert most == 2


def test_retry_after_in_all_its_forms() -> None:
    assert retry_after_s("7") == 7
    # A negative wish, as from a clock that is behind, is none.
    assert retry_after_s("-3") == 0
    assert retry_after_s(None, 2) == 2
    assert retry_after_s("soon", 2) == 2
    in_a_minute = retry_after_s(format_datetime(datetime.now(UTC) + timedelta(minutes=1)))
    # The header's date has no fractions of a second.
    assert 55 < in_a_minute <= 60

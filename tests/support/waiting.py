"""Wait for a state, never for a time: the only module of the tests that may sleep."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]],
    *,
    within_s: float = ...,
    every_s: float = ...,
    ignoring: tuple[type[Exception], ...] = ...,
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T],
    *,
    within_s: float = ...,
    every_s: float = ...,
    ignoring: tuple[type[Exception], ...] = ...,
) -> T: ...


async def eventually(
    condition: Callable[[], Any],
    *,
    within_s: float = 30.0,
    every_s: float = 0.01,
    ignoring: tuple[type[Exception], ...] = (),
) -> Any:
    """Return the first true value of ``condition``, which may be async; ``ignoring`` errors count as not yet.

    Raises ``AssertionError`` with the last value or error when there was none in time. ``within_s`` protects the suite
    from hanging and says nothing about speed. ``every_s`` spares what is costly to ask.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + within_s
    while True:
        try:
            value = condition()
            found = await value if inspect.isawaitable(value) else value
        except ignoring as error:
            last = repr(error)
        else:
            if found:
                return found
            last = repr(found)
        if loop.time() >= ends:
            raise AssertionError(describe_timeout(condition, within_s, last))
        await asyncio.sleep(every_s)


def wait_until(condition: Callable[[], T], *, within_s: float = 30.0, every_s: float = 0.01) -> T:
    """Return the first true value of ``condition``: ``eventually`` for code without an event loop."""
    ends = time.monotonic() + within_s
    while not (found := condition()):
        if time.monotonic() >= ends:
            raise AssertionError(describe_timeout(condition, within_s, repr(found)))
        time.sleep(every_s)
    return found


def describe_timeout(condition: Callable[[], object], within_s: float, last: str) -> str:
    """Return the message for a condition that did not come true."""
    name = getattr(condition, "__qualname__", repr(condition))
    return f"not within {within_s:g} s: {name}, at last {last[:1_000]}"


async def until_listening(host: str, port: int, *, within_s: float = 30.0) -> None:
    """Return when a server takes connections at this address."""

    async def connect() -> bool:
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return True

    await eventually(connect, within_s=within_s, every_s=0.02, ignoring=(OSError,))


async def settle(turns: int = 20) -> None:
    """Let every task of the loop that needs neither time nor a thread run until it waits."""
    for _ in range(turns):
        await asyncio.sleep(0)

"""Interface between a service and its host: a servicer with its life cycle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass


async def nothing() -> None:
    """Do nothing: the default warm-up, drain, finish and close of a service."""


def no_facts() -> tuple[str, ...]:
    """Return no facts, the default of a service."""
    return ()


async def no_changes() -> AsyncIterator[bool]:
    """Yield nothing: the default of a service whose ability to serve never changes."""
    return
    yield True


@dataclass(frozen=True)
class Service:
    """A servicer with its life cycle.

    ``servicer`` has one async method ``(request, call)`` per RPC, named as the RPC; streaming responses are async
    generators, streaming requests arrive as async iterators. Missing RPCs answer UNIMPLEMENTED, with the plan from the
    optional mapping ``unimplemented``.

    Health turns SERVING when ``warm_up`` has returned. ``facts`` are further health names that are then SERVING, so
    that a probe can test for a property such as a level of isolation. ``changes`` yields, after the warm-up, whether
    the service can serve whenever that changes, and health follows; it raises when the service can no longer be used.

    Shutdown runs three steps within the grace period: ``drain`` returns when work that only this replica holds is done
    (calls are still answered); ``finish`` returns when background work is done (while running calls end); then
    ``close``.
    """

    name: str
    servicer: object
    warm_up: Callable[[], Awaitable[None]] = nothing
    close: Callable[[], Awaitable[None]] = nothing
    facts: Callable[[], Sequence[str]] = no_facts
    changes: Callable[[], AsyncIterator[bool]] = no_changes
    drain: Callable[[], Awaitable[None]] = nothing
    finish: Callable[[], Awaitable[None]] = nothing

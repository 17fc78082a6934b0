"""What a service hands to its host, and what it is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fathom.obs import Telemetry

if TYPE_CHECKING:
    from fathom.bus.base import Bus
    from fathom.clients import Clients
    from fathom.store import ObjectStore


async def nothing() -> None:
    """The warm-up and close of a service that needs neither."""


def no_facts() -> tuple[str, ...]:
    """The facts of a service that has none to tell."""
    return ()


async def no_changes() -> AsyncIterator[bool]:
    """The changes of a service that stays as it is."""
    return
    yield True


@dataclass(frozen=True)
class Service:
    """A servicer with its life cycle.

    ``servicer`` has one async method ``(request, call)`` per RPC, named as the RPC; streaming
    responses are async generators, streaming requests arrive as async iterators. RPCs that it
    lacks answer UNIMPLEMENTED, with the plan from its optional mapping ``unimplemented``.
    Health turns SERVING when ``warm_up`` has returned. ``facts`` are further names under which it
    then serves: what a probe can ask for and find or not, such as a level of isolation. ``changes``
    gives whether it can serve at every change after the warm-up, which health follows; it raises when
    the service is of no use any more. At the end come, within the grace period, ``drain``, which
    returns when what this replica alone holds is done with, while calls are still answered; ``finish``, which
    returns when work that no call stands for is done, while running calls end; and then ``close``.
    """

    name: str
    servicer: object
    warm_up: Callable[[], Awaitable[None]] = nothing
    close: Callable[[], Awaitable[None]] = nothing
    facts: Callable[[], Sequence[str]] = no_facts
    changes: Callable[[], AsyncIterator[bool]] = no_changes
    drain: Callable[[], Awaitable[None]] = nothing
    finish: Callable[[], Awaitable[None]] = nothing


@dataclass(frozen=True)
class Deps:
    """The outside world of a service, built by its host and handed to ``build(config, deps)``."""

    clients: Clients
    store: ObjectStore
    bus: Bus
    telemetry: Telemetry

"""Export and erasure of links: what a user has shared of answers, and what others share of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import Conflict, NotFound
from fathom.operations.schedules import Owner, read_values
from fathom.transport.store import ObjectStore

TABLE = "links"
LINKS = "links/"
"""Prefix of the links of a tenant in its store, each under its id."""
OWNERS = "public_links/"
"""Prefix of the tenants of links that anyone may open, in the store of all."""
AT_ONCE = 8
# Looks at a store in which links are made while they are erased.
MAX_ROUNDS = 10


@dataclass(frozen=True)
class Holding:
    """Runs and conversations of a user or a tenant, by which links to them are known whoever has made them."""

    runs: Collection[str]
    conversations: Collection[str] = ()


@dataclass(frozen=True)
class StoredLink:
    """A link as the store holds it; ``values`` are its fields, whichever version has written it."""

    id: str
    values: Mapping[str, Any]

    def is_of(self, owner: Owner, held: Holding) -> bool:
        """Return whether a user, or anyone of the tenant, has made it or is shown by it."""
        if owner.principal is None or self.values.get("creator") == owner.principal:
            return True
        several = self.values.get("runs")
        runs = [self.values.get("run_id"), *(several if isinstance(several, list) else [])]
        if any(runs):
            return any(run in held.runs for run in runs if isinstance(run, str) and run)
        # Links of an earlier version name their conversation alone.
        return str(self.values.get("conversation_id")) in held.conversations


async def list_links(store: ObjectStore, owner: Owner, held: Holding) -> list[StoredLink]:
    """Return the links that a user has made or that show what is held of them, or all of a tenant.

    ``store`` is the tenant's.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def read(key: str) -> StoredLink | None:
        async with slots:
            try:
                return StoredLink(key.removeprefix(LINKS), read_values(await store.get(key)))
            except NotFound:  # withdrawn since it was listed
                return None

    read_links = await asyncio.gather(*map(read, await store.keys(LINKS)))
    return [link for link in read_links if link is not None and link.is_of(owner, held)]


async def erase_links(store: ObjectStore, shared: ObjectStore, owner: Owner, held: Holding) -> Sequence[StoredLink]:
    """Delete what ``list_links`` finds, so that nobody can open it; return what was there.

    ``shared`` is the store of all tenants. Raises ``Conflict`` where new ones come all the time. May be repeated.
    """
    erased: dict[str, StoredLink] = {}
    for _ in range(MAX_ROUNDS):
        left = await list_links(store, owner, held)
        if not left:
            return list(erased.values())
        for link in left:
            # The way in first, as the gateway withdraws them: what is interrupted is found again by its id.
            await shared.delete(OWNERS + link.id)
            await store.delete(LINKS + link.id)
            erased[link.id] = link
    raise Conflict(f"{len(left)} links are there again, such as {left[0].id}: they are made all the time")

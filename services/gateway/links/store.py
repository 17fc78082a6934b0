"""Links as objects of their tenant: made, found by their token, listed, withdrawn; a bounded number of each tenant."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

from fathom.core.call import current_tenant
from fathom.core.errors import CorruptData, FailedPrecondition, NotFound
from fathom.core.ids import checked_id, sha256
from fathom.operations.links import LINKS, OWNERS
from fathom.transport.store import ObjectStore

# 256 random bits cannot be guessed, however often somebody asks.
TOKEN_BYTES = 32
ID_CHARS = 40
TENANT, ANYONE = "tenant", "anyone"
# Of one tenant at a time. A link is an object of 1 to 10 KB, most of it the runs of a conversation.
MAX_LINKS = 1_000


@dataclass(frozen=True)
class Link:
    """Link that shows a run's answer, or the ``runs`` of a conversation's turns that led to ``through``.

    Times are in seconds since 1970.
    """

    id: str
    run_id: str
    conversation_id: str
    through: int
    audience: str
    """``tenant``: whoever the gateway lets in for the same tenant. ``anyone``: whoever has the address."""
    language: str
    title: str
    creator: str
    created: float
    ends: float
    runs: tuple[str, ...] = ()
    gives_uploads: bool = False
    """True to show files that somebody has brought, and what was made of them."""


class LinkStore:
    """Keeps links below ``links/``, each under the hash of its token, so that the store has no token to steal.

    ``own`` is bound to the tenant of the call; ``shared`` is not, and holds the tenants of links for anyone.
    """

    def __init__(self, own: ObjectStore, shared: ObjectStore, clock: Callable[[], float] = time.time) -> None:
        self._own, self._shared, self.clock = own, shared, clock

    async def add(self, about: Link) -> None:
        """Store a new link, whose id is ``hash_token`` of its token; raise ``FailedPrecondition`` for one too many."""
        if await self._is_full():
            # Those that have ended go when they are listed, or here.
            await self.list_links(MAX_LINKS, "")
            if await self._is_full():
                raise FailedPrecondition(f"{MAX_LINKS:,} links show something already: withdraw some")
        await self._own.create(LINKS + about.id, json.dumps(asdict(about)).encode(), "application/json")
        # Whose it is: without it, the tenant would have to stand in the address.
        # The way in last: a failure between the two leaves a link that is listed and opens for its own tenant only.
        if about.audience == ANYONE:
            await self._shared.create(OWNERS + about.id, current_tenant().encode(), "text/plain")

    async def _is_full(self) -> bool:
        return len(await self._own.keys(LINKS, limit=MAX_LINKS)) == MAX_LINKS

    async def find(self, link_id: str) -> Link:
        """Return a link of this tenant; raise ``NotFound`` for one that is not, was withdrawn or has ended."""
        data = await self._own.get(LINKS + checked_id("link_id", link_id))
        found = read_link(data)
        if found.ends <= self.clock():
            raise NotFound("link", link_id)
        return found

    async def find_owner(self, link_id: str) -> str:
        """Return the tenant of a link that anyone may open; raise ``NotFound`` for another one."""
        return (await self._shared.get(OWNERS + link_id)).decode()

    async def list_links(self, size: int, after: str) -> tuple[list[Link], str]:
        """Return a page of links that have not ended, by their ids, and where to go on; delete those that have."""
        keys = await self._own.keys(LINKS, after=LINKS + checked_id("page_token", after) if after else "", limit=size)
        found = []
        for key in keys:
            try:
                found.append(await self.find(key.removeprefix(LINKS)))
            except NotFound:
                await self._remove(key.removeprefix(LINKS))
            except CorruptData:
                # Another version has written it, which lists it; here it opens nothing, and hides no other link.
                continue
        return found, keys[-1].removeprefix(LINKS) if len(keys) == size else ""

    async def withdraw(self, link_id: str) -> None:
        """Delete a link of this tenant, after which nobody can open it; raise ``NotFound``."""
        # One that this version cannot read is withdrawn as well: whoever has its address must not open it elsewhere.
        with suppress(CorruptData):
            await self.find(link_id)
        await self._remove(link_id)

    async def _remove(self, link_id: str) -> None:
        # The way in first: a failure between the two leaves a link that is listed and opens for its own tenant only.
        await self._shared.delete(OWNERS + link_id)
        await self._own.delete(LINKS + link_id)


def read_link(data: bytes) -> Link:
    """Return a link from its object; raise ``CorruptData``."""
    try:
        found = json.loads(data)
        return Link(**{**found, "runs": tuple(found.get("runs", ()))})
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptData("link", "is no link of this version") from error


def make_token() -> str:
    """Return a new token, as it stands in an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: str) -> str:
    """Return the id of the link with this token."""
    return sha256(token.encode("utf-8", errors="replace"))[:ID_CHARS]

"""Sources that a question may leave out: tools of a kind, servers of tools, single vendors of data."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fathom.api.datafetch.v1.datafetch_pb2 import ListConnectorsRequest
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.services.planner.config import Config
from fathom.services.planner.tools.data.catalogue import DataCatalogue
from fathom.services.planner.tools.data.query import Data
from fathom.services.planner.tools.documents import Fetch, Search

# A server of tools may be called as a vendor is.
VENDOR = "vendor:"


def list_tools_off(config: Config, sources: Sequence[str]) -> frozenset[str]:
    """Return the tools of these sources; raise ``InvalidField`` for a name that is none of this planner's sources.

    Vendors have no tools of their own: see ``check_vendors_off``.
    """
    # SQL and Python go on: they read only what the run has, such as the user's own tables.
    known: dict[str, tuple[str, ...]] = {
        "documents": (Search.name, Fetch.name),
        "data": (Data.name, DataCatalogue.name),
    }
    known |= {server.name: tuple(f"{server.name}_{tool}" for tool in server.tools) for server in config.mcp_servers}
    for place, name in enumerate(sources):
        if name not in known and not name.startswith(VENDOR):
            raise refuse_source(place, name, [*known, f"{VENDOR}NAME"])
    return frozenset(tool for name in sources for tool in known.get(name, ()))


def list_vendors_off(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the vendors among these sources, as datafetch has them."""
    return tuple(name.removeprefix(VENDOR) for name in sources if name.startswith(VENDOR))


async def check_vendors_off(clients: Clients, sources: Sequence[str]) -> None:
    """Raise ``InvalidField`` for a vendor among these sources that datafetch does not know."""
    # Most questions leave out none: then nothing is asked.
    if not list_vendors_off(sources):
        return
    found = await clients.datafetch.list_connectors(ListConnectorsRequest())
    known = {f"{VENDOR}{one.name}" for one in found.connectors if not one.is_database}
    for place, name in enumerate(sources):
        if name.startswith(VENDOR) and name not in known:
            raise refuse_source(place, name, known)


def refuse_source(place: int, name: str, known: Collection[str]) -> InvalidField:
    """Return the error of a source that is not known, with those that are."""
    return InvalidField(f"sources_off[{place}]", f"{name[:80]!r} is not one of {', '.join(sorted(known))}")

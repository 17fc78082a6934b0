"""Routes of what questions can draw on."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Path, Request

from fathom.clients import Clients
from fathom.services.gateway.reviews.routes import require_right
from fathom.services.gateway.sources.bodies import Probe, SourceList
from fathom.services.gateway.sources.collecting import Probed, collect_sources, probe_source
from fathom.services.gateway.users import SCOPES, Right


def add_sources(app: FastAPI, clients: Clients) -> None:
    """Add the routes."""

    @app.get("/v1/sources")
    async def list_sources(request: Request) -> SourceList:
        """List the tables, corpora, vendors, databases and servers of tools that questions can draw on.

        Services that do not answer are named under `away`, and the others' sources are there. Settings, keys (set or
        not, never the key) and the words of failures are for callers with the right `sources`.
        """
        is_operator = Right.SOURCES in request.scope.get(SCOPES, ())
        return await collect_sources(clients, is_operator=is_operator)

    @app.post("/v1/sources/{kind}/{name}/probe", dependencies=[Depends(require_right(Right.SOURCES))])
    async def probe(
        kind: Annotated[Probed, Path(description="What it is in the list of sources.")],
        name: Annotated[str, Path(max_length=200, description="Its name there.")],
    ) -> Probe:
        """Ask a source for something small, past every cache, and say whether it answers.

        A vendor for a few figures, a database for a constant, a server of tools for its list, a corpus for a document.
        For callers with the right `sources`; a vendor that is off is refused.
        """
        return await probe_source(clients, kind, name)

"""The route of what questions can draw on."""

from __future__ import annotations

from fastapi import FastAPI, Request

from fathom.clients import Clients
from fathom.services.gateway.sources.bodies import SourceList
from fathom.services.gateway.sources.collecting import collect_sources
from fathom.services.gateway.users import SCOPES, Right


def add_sources(app: FastAPI, clients: Clients) -> None:
    """Add the route."""

    @app.get("/v1/sources")
    async def list_sources(request: Request) -> SourceList:
        """List the tables, corpora, vendors, databases and servers of tools that questions can draw on.

        Services that do not answer are named under `away`, and the others' sources are there. Settings, keys (set or
        not, never the key) and the words of failures are for callers with the right `sources`.
        """
        is_operator = Right.SOURCES in request.scope.get(SCOPES, ())
        return await collect_sources(clients, is_operator=is_operator)

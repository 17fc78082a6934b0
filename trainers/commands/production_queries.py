"""Implementation of ``fathom data queries import``."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import typer

from fathom.api.memory.v1.memory_pb2 import ExportMemoryRequest, MemoryScope
from fathom.cli.records.memory import list_rows
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.core.call import Call, calling
from fathom.core.identity import environment_tenant
from fathom.trainers.commands.left_out import say_left_out
from fathom.trainers.data.export.scrub import Scrubber
from fathom.trainers.data.queries.importing import TABLE, Imported, StoredTurn, import_turns, parse_turn, read_turns
from fathom.trainers.data.queries.record import write_queries
from fathom.transport.store import open_store
from fathom.transport.store.tenant import TenantStore


def import_file(source: Path | None, target: Path, home: Path, tenant: str, threshold: float) -> None:
    """Write the questions of a tenant's conversations as queries; print their number and what was left out.

    Exits with status 1 where nothing is left. Raises ``PermissionDenied`` where the caller may not call for a tenant.
    """
    wanted = environment_tenant(os.environ, tenant)
    done = asyncio.run(collect_queries(source, home, wanted, threshold))
    say_left_out(done.left_out)
    if not done.queries:
        typer.echo("no question can be used, and nothing was written", err=True)
        raise typer.Exit(1)
    typer.echo(f"{target}: {write_queries(done.queries, target):,} queries")


async def collect_queries(source: Path | None, home: Path, tenant: str, threshold: float) -> Imported:
    """Return the queries of a file of turns, or of those that the memory service holds of the tenant."""
    endpoints = read_endpoints(home)
    clients, store = connect(endpoints.services, tenant=tenant), open_store(endpoints.store)
    try:
        # Asked for a file as well: the service decides whether the caller may read for this tenant.
        scope = MemoryScope(tenant=tenant, everybody=True)
        await clients.memory.export_memory(ExportMemoryRequest(scope=scope, page_size=1))
        turns = await list_turns(clients, scope) if source is None else read_turns(source)
        with calling(Call.new(tenant=tenant)):
            return await import_turns(turns, TenantStore(store), tenant, Scrubber(), threshold)
    finally:
        await clients.close()
        await store.close()


async def list_turns(clients: Clients, scope: MemoryScope) -> Sequence[StoredTurn]:
    """Return the turns that the memory service holds of a scope."""
    return [
        parse_turn(json.loads(row.row_json), f"{TABLE} of the memory service")
        async for row in list_rows(clients, scope)
        if row.table == TABLE
    ]

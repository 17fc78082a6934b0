"""Implementation of ``fathom memory``: export and erase what is held of a user or a tenant."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import typer

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.core.call import DEFAULT_TENANT, Call, calling
from fathom.core.ids import new_id
from fathom.operations.erasure import erase_runs
from fathom.transport.store import open_store
from fathom.transport.store.tenant import TenantStore

PAGE = 500
REST = (
    "Left are: messages of runs on the bus, which end by age within a day; tables that datafetch keeps by content,"
    " until their lifetime; and backups: they hold it until `fathom backup create --keep N` has made N newer ones,"
    " and a PostgreSQL's own backups until their server drops them."
)


def make_scope(tenant: str, user: str, *, everybody: bool) -> pb.MemoryScope:
    """Return whose memory is meant."""
    return pb.MemoryScope(tenant=tenant, principal=user, everybody=everybody)


def with_memory(home: Path, memory: str, work: Callable[[Clients], Awaitable[None]]) -> None:
    """Run ``work`` with clients."""

    async def run() -> None:
        clients = connect({"memory": memory} if memory else dict(read_endpoints(home).services))
        try:
            await work(clients)
        finally:
            await clients.close()

    asyncio.run(run())


async def list_rows(clients: Clients, scope: pb.MemoryScope) -> AsyncIterator[pb.ExportedRow]:
    """Yield all rows of a scope, page by page."""
    token = ""
    while True:
        request = pb.ExportMemoryRequest(scope=scope, page_size=PAGE, page_token=token)
        page = await clients.memory.export_memory(request)
        for row in page.rows:
            yield row
        token = page.next_page_token
        if not token:
            return


def export(target: Path, scope: pb.MemoryScope, home: Path, memory: str) -> None:
    """Write the rows of a scope as JSON lines."""

    async def work(clients: Clients) -> None:
        counted: Counter[str] = Counter()
        with target.open("w", encoding="utf-8") as file:
            async for row in list_rows(clients, scope):
                line = {"table": row.table, **json.loads(row.row_json)}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                counted[row.table] += 1
        typer.echo(f"{target}: " + (", ".join(f"{count} {table}" for table, count in counted.items()) or "nothing"))

    with_memory(home, memory, work)


def erase(scope: pb.MemoryScope, store: str, home: Path, memory: str) -> None:
    """Delete the records of the runs of a scope, then its rows."""

    async def work(clients: Clients) -> None:
        # The runs first: their ids are in the rows, and whoever is interrupted can begin again.
        place = store or read_endpoints(home).store
        if place != "-":
            runs = {json.loads(row.row_json).get("run", "") async for row in list_rows(clients, scope)} - {""}
            objects = open_store(place)
            try:
                with calling(Call.new(tenant=scope.tenant or DEFAULT_TENANT)):
                    await erase_runs(TenantStore(objects), runs, typer.echo)
            finally:
                await objects.close()
        deleted: Counter[str] = Counter()
        while True:
            done = await clients.memory.erase_memory(pb.EraseMemoryRequest(request_id=new_id("erase"), scope=scope))
            for table in done.tables:
                deleted[table.table] += table.rows
            if not done.has_more:
                break
        typer.echo(
            "memory: " + (", ".join(f"{count} {table}" for table, count in deleted.items()) or "nothing was there")
        )
        typer.echo(REST)

    with_memory(home, memory, work)

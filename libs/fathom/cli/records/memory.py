"""Implementation of ``fathom memory``: export and erase what is held of a user or a tenant."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.core.call import Call, calling
from fathom.core.errors import InvalidField
from fathom.core.identity import environment_principal, environment_tenant
from fathom.core.ids import new_id
from fathom.operations.erasure import add_delegated, erase_runs
from fathom.operations.links import TABLE as LINK_TABLE
from fathom.operations.links import Holding, erase_links, list_links
from fathom.operations.schedules import TABLE as SCHEDULE_TABLE
from fathom.operations.schedules import Owner, StoredSchedule, erase_schedules, list_schedules, open_schedules
from fathom.transport.bus.base import KeyValue
from fathom.transport.store import ObjectStore, open_store
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


def find_owner(scope: pb.MemoryScope) -> Owner:
    """Return whose schedules a scope means, as the memory service reads it: by default the caller's own."""
    # A token of another tenant is no reason to refuse: it may be an operator's, which the memory service decides.
    tenant = scope.tenant or environment_tenant(os.environ)
    if scope.everybody:
        return Owner(tenant)
    return Owner(tenant, scope.principal or environment_principal(os.environ))


@asynccontextmanager
async def open_bucket(bus: str, home: Path, memory: str) -> AsyncIterator[KeyValue | None]:
    """Open the schedules at a bus, by default the local stack's; None for "-".

    Raises ``InvalidField`` where a memory service is named without the bus beside it: schedules would be left out
    without a word, or those of another stack meant.
    """
    if memory and not bus:
        raise InvalidField("bus", 'must be the URL of NATS, where schedules are, or "-" to leave them out')
    if bus == "-":
        yield None
        return
    async with open_schedules(bus or read_endpoints(home).nats) as bucket:
        yield bucket


@asynccontextmanager
async def open_objects(store: str, home: Path, memory: str) -> AsyncIterator[ObjectStore | None]:
    """Open the object store, by default the local stack's; None for "-".

    Raises ``InvalidField`` where a memory service is named without the store beside it, as ``open_bucket`` does.
    """
    if memory and not store:
        raise InvalidField("store", 'must be the URL of the object store, where links are, or "-" to leave them out')
    if store == "-":
        yield None
        return
    objects = open_store(store or read_endpoints(home).store)
    try:
        yield objects
    finally:
        await objects.close()


@dataclass
class HeldRows:
    """Runs and conversations that the rows of a scope name, collected while these are read."""

    runs: set[str] = field(default_factory=set)
    conversations: set[str] = field(default_factory=set)

    def add(self, values: Mapping[str, Any]) -> None:
        """Note what a row names."""
        self.runs.add(values.get("run", ""))
        self.conversations.add(values.get("conversation", ""))

    def hold(self, schedules: Sequence[StoredSchedule]) -> Holding:
        """Return what the rows name, with the runs that the scope's schedules have asked for."""
        # Runs without a turn, such as one that failed, are known to their schedule alone.
        asked = {run for schedule in schedules for run in schedule.runs}
        return Holding((self.runs | asked) - {""}, self.conversations - {""})


def export(target: Path, scope: pb.MemoryScope, store: str, bus: str, home: Path, memory: str) -> None:
    """Write the rows of a scope, its schedules and its links, as JSON lines."""

    async def work(clients: Clients) -> None:
        counted: Counter[str] = Counter()
        with target.open("w", encoding="utf-8") as file:

            def write(table: str, values: Mapping[str, Any]) -> None:
                file.write(json.dumps({"table": table, **values}, ensure_ascii=False) + "\n")
                counted[table] += 1

            async with open_bucket(bus, home, memory) as bucket, open_objects(store, home, memory) as objects:
                held = HeldRows()
                # Rows first: the memory service says whether the caller may have what is of others.
                async for row in list_rows(clients, scope):
                    values = json.loads(row.row_json)
                    held.add(values)
                    write(row.table, values)
                owner = find_owner(scope)
                schedules = await list_schedules(bucket, owner) if bucket else []
                for schedule in schedules:
                    write(SCHEDULE_TABLE, schedule.values)
                if objects is not None:
                    with calling(Call.new(tenant=owner.tenant)):
                        for link in await list_links(TenantStore(objects), owner, held.hold(schedules)):
                            write(LINK_TABLE, link.values)
        typer.echo(f"{target}: " + (", ".join(f"{count} {table}" for table, count in counted.items()) or "nothing"))

    with_memory(home, memory, work)


def erase(scope: pb.MemoryScope, store: str, bus: str, home: Path, memory: str) -> None:
    """Delete the schedules and links of a scope, the records of its runs, then its rows."""

    async def work(clients: Clients) -> None:
        deleted: Counter[str] = Counter()
        async with open_bucket(bus, home, memory) as bucket, open_objects(store, home, memory) as objects:
            # A page of rows first: the memory service says whether the caller may erase what is of others.
            await clients.memory.export_memory(pb.ExportMemoryRequest(scope=scope, page_size=1))
            # Before the runs are listed: what is asked no more adds none.
            schedules = await erase_schedules(bucket, find_owner(scope)) if bucket else []
            deleted[SCHEDULE_TABLE] = len(schedules)
            if objects is not None:
                # Before the rows: the ids of runs are in them, and whoever is interrupted can begin again.
                held = HeldRows()
                async for row in list_rows(clients, scope):
                    held.add(json.loads(row.row_json))
                deleted[LINK_TABLE] = await erase_objects(objects, find_owner(scope), held.hold(schedules))
        while True:
            done = await clients.memory.erase_memory(pb.EraseMemoryRequest(request_id=new_id("erase"), scope=scope))
            for table in done.tables:
                deleted[table.table] += table.rows
            if not done.has_more:
                break
        said = [f"{count} {table}" for table, count in deleted.items() if count]
        typer.echo("memory: " + (", ".join(said) or "nothing was there"))
        typer.echo(REST)

    with_memory(home, memory, work)


async def erase_objects(objects: ObjectStore, owner: Owner, held: Holding) -> int:
    """Delete the links to the runs of a scope, then what the runs left in the store; return the number of links."""
    with calling(Call.new(tenant=owner.tenant)):
        own = TenantStore(objects)
        # A link shows a run that was delegated as well, and has its question for a title.
        shown = Holding(await add_delegated(own, set(held.runs)), held.conversations)
        links = await erase_links(own, objects, owner, shown)
        await erase_runs(own, held.runs, typer.echo)
    return len(links)

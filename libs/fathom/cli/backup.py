"""``fathom backup``: backs up streams, objects and conversations to a separate object store, and restores them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.core.config import ConfigError
from fathom.operations.backup import Manifest, Sources, back_up, list_backups, prune, read_manifest, restore, verify
from fathom.transport.store import ObjectStore, open_store

POSTGRES = "its server's own backups, such as pg_dump or its base backups with the log of changes"

app = typer.Typer(help="Back up and restore streams, objects and conversations.", no_args_is_help=True)

Place = Annotated[
    str,
    typer.Option("--at", help="Where backups are stored: file:///dir or s3://host/bucket.", envvar="FATHOM_BACKUP_URL"),
]
Bus = Annotated[str, typer.Option(help='URL of NATS; "" skips the streams.', envvar="FATHOM_RUNTIME_BUS_URL")]
Store = Annotated[str, typer.Option(help='URL of the object store; "" skips it.', envvar="FATHOM_RUNTIME_STORE_URL")]
Memory = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        help="SQLite file of the memory service; without it conversations are skipped.", envvar="FATHOM_MEMORY_PATH"
    ),
]
Id = Annotated[str, typer.Argument(help="Id of a backup, or latest.")]


@app.command()
def create(
    at: Place,
    bus: Bus = "",
    store: Store = "",
    memory: Memory = None,
    keep: Annotated[int, typer.Option(help="Number of backups to keep, including this one; 0 keeps all.", min=0)] = 0,
) -> None:
    """Make a backup while the services run; print its id."""

    async def run() -> None:
        async with places(at, bus, store, memory) as (place, sources):
            manifest = await back_up(sources, place, typer.echo)
            if memory is None:
                typer.echo(f"conversations: left out; those in PostgreSQL need {POSTGRES}")
            for gone in await prune(place, keep) if keep else ():
                typer.echo(f"removed {gone}")
            typer.echo(f"{manifest.id} is whole")

    asyncio.run(run())


@app.command("list")
def list_all(at: Place) -> None:
    """List the backups, oldest first."""

    async def run() -> None:
        async with places(at, "", "", None, nothing=True) as (place, _):
            for backup_id in await list_backups(place):
                typer.echo(line(await read_manifest(place, backup_id)))

    asyncio.run(run())


@app.command("verify")
def check(at: Place, backup_id: Id = "latest") -> None:
    """Read a whole backup and compare every checksum."""

    async def run() -> list[str]:
        async with places(at, "", "", None, nothing=True) as (place, _):
            manifest = await read_manifest(place, backup_id)
            typer.echo(line(manifest))
            return await verify(manifest, place)

    wrong = asyncio.run(run())
    for said in wrong:
        typer.echo(said, err=True)
    if wrong:
        raise typer.Exit(1)
    typer.echo("every checksum is right")


@app.command("restore")
def bring_back(
    at: Place,
    backup_id: Id = "latest",
    bus: Bus = "",
    store: Store = "",
    memory: Memory = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete streams and conversations that exist there.")
    ] = False,
) -> None:
    """Restore a backup, while no service runs, into empty streams and no database (or with --replace)."""

    async def run() -> None:
        async with places(at, bus, store, memory) as (place, targets):
            manifest = await read_manifest(place, backup_id)
            typer.echo(line(manifest))
            await restore(manifest, place, targets, typer.echo, replace=replace)

    asyncio.run(run())


@asynccontextmanager
async def places(
    at: str, bus: str, store: str, memory: Path | None, *, nothing: bool = False
) -> AsyncIterator[tuple[ObjectStore, Sources]]:
    """Open the backup store and the parts to back up or restore.

    Raises ``ConfigError`` when there are no parts, or when the store to back up is the backup store itself.
    """
    from fathom.transport.bus.nats.snapshots import open_snapshots

    # The defaults of a service that runs alone: there is nothing to back up in another process' memory.
    bus, store = bus.replace("memory://", ""), store.replace("memory://", "")
    for variable in ("FATHOM_MEMORY_DATABASE_URL", "FATHOM_MEMORY_DATABASE_URL_FILE"):
        # The file would be none, or the one of before: a backup of it is no backup of the conversations.
        if memory and os.environ.get(variable):
            message = f"memory: {variable} is set: conversations are in PostgreSQL, which `fathom backup` leaves out:"
            message += f" they need {POSTGRES}; leave out --memory and FATHOM_MEMORY_PATH"
            raise ConfigError(message, metadata={"field": "memory"})
    if not nothing and not (bus or store or memory):
        raise ConfigError("bus: give --bus, --store or --memory", metadata={"field": "bus"})
    if store and store == at:
        raise ConfigError("at: a backup in the store that it is of is lost with it", metadata={"field": "at"})
    async with AsyncExitStack() as stack:
        place = open_store(at)
        stack.push_async_callback(place.close)
        source = open_store(store) if store else None
        if source:
            stack.push_async_callback(source.close)
        snapshots = await stack.enter_async_context(open_snapshots(bus)) if bus else None
        yield place, Sources(snapshots, source, memory)


def line(manifest: Manifest) -> str:
    """Describe a backup in one line."""
    when = datetime.fromtimestamp(manifest.created, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    held = sum(int(stream.state["messages"]) for stream in manifest.streams)
    conversations = "conversations" if manifest.memory else "no conversations"
    return (
        f"{manifest.id}  {when}  fathom {manifest.version}  {len(manifest.streams)} streams, {held} messages, "
        f"{len(manifest.objects)} objects, {conversations}"
    )

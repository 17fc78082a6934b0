"""``fathom quota``: what an upstream may be asked at once and per second, changed while its services run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from fathom.core.admission import Quota
from fathom.core.admission.quota import KINDS
from fathom.core.config import load
from fathom.core.errors import InvalidField

Home = Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")]
Name = Annotated[str, typer.Argument(help="tool., model., source. or tenant.NAME, e.g. tool.python.")]
HOME = Path(".fathom")
app = typer.Typer(help="Quotas of tools, models, data sources and tenants, over all replicas.", no_args_is_help=True)


@asynccontextmanager
async def open_bucket(home: Path) -> AsyncIterator[Any]:
    """Open the quotas of the bus in FATHOM_RUNTIME_*, or of the local stack."""
    # Imported here: the command line must set its environment before gRPC is imported.
    from fathom.clients.local import read_endpoints
    from fathom.hosting.host import Runtime
    from fathom.transport.bus import open_bus
    from fathom.transport.bus.streams import QUOTAS
    from fathom.transport.store import open_store

    runtime = load(Runtime, "runtime")
    url, store = runtime.bus_url, runtime.store_url
    if url == "memory://":
        there = read_endpoints(home)
        url, store = there.nats, there.store
    bus = await open_bus(url, open_store(store))
    try:
        yield bus.bucket(QUOTAS)
    finally:
        await bus.close()


def checked_name(name: str) -> str:
    """Return the name of a quota; raise ``InvalidField`` for one of another kind."""
    if not name.startswith(KINDS) or name in KINDS:
        raise InvalidField("name", f"must be {' or '.join(f'{kind}NAME' for kind in KINDS)}")
    return name


@app.command("list")
def list_quotas(home: Home = HOME) -> None:
    """Print all quotas; what is not listed has the limits of its settings."""

    async def read() -> None:
        async with open_bucket(home) as bucket:
            for key in sorted(await bucket.keys()):
                entry = await bucket.get(key)
                if entry is not None and entry.value is not None:
                    quota = Quota.parse(entry.value)
                    typer.echo(f"{key}\trunning {quota.running}\tper second {quota.per_second}")

    asyncio.run(read())


@app.command("set")
def set_quota(
    name: Name,
    running: Annotated[Optional[int], typer.Option(help="At once; 0 refuses all.")] = None,  # noqa: UP045
    per_second: Annotated[Optional[float], typer.Option(help="Per second.")] = None,  # noqa: UP045
    home: Home = HOME,
) -> None:
    """Set a quota; what runs goes on, and what waits follows it at once."""
    if running is None and per_second is None:
        raise InvalidField("running", "or per_second must be given")
    quota = Quota(running, per_second)

    async def write() -> None:
        async with open_bucket(home) as bucket:
            await bucket.put(checked_name(name), quota.to_json())

    asyncio.run(write())


@app.command("unset")
def unset_quota(name: Name, home: Home = HOME) -> None:
    """Go back to the limits of the settings."""

    async def remove() -> None:
        async with open_bucket(home) as bucket:
            await bucket.delete(checked_name(name))

    asyncio.run(remove())

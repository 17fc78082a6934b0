"""Commands of ``fathom memory``: facts about the caller; export and erasure of what is held of a user or a tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fathom.cli.options import HOME, Home

app = typer.Typer(help="List, forget, export and erase what is remembered.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Tenant; by default the token's. Another one is for operators.")]
User = Annotated[str, typer.Option(help="User as identities name it, e.g. user:anne; by default the caller.")]
Everybody = Annotated[bool, typer.Option("--everybody", help="All users of the tenant; for operators.")]
Bus = Annotated[
    str,
    typer.Option(
        help='URL of NATS, where questions that are asked again are; by default the local stack\'s, "-" none.',
        envvar="FATHOM_RUNTIME_BUS_URL",
    ),
]
Store = Annotated[
    str,
    typer.Option(
        help="URL of the object store, where links and the records of runs are; by default the local stack's,"
        ' "-" none.',
        envvar="FATHOM_RUNTIME_STORE_URL",
    ),
]
Url = Annotated[str, typer.Option(help="URL of a memory service; by default the local stack's.")]


@app.command()
def export(
    target: Annotated[Path, typer.Argument(help="File for the rows, one JSON object a line.")],
    tenant: Tenant = "",
    user: User = "",
    everybody: Everybody = False,
    store: Store = "",
    bus: Bus = "",
    home: Home = HOME,
    memory: Url = "",
) -> None:
    """Write all that memory holds of a user or a tenant, the schedules and the links; nothing computed from it."""
    from fathom.cli.records import memory as memory_records

    scope = memory_records.make_scope(tenant, user, everybody=everybody)
    memory_records.export(target, scope, store, bus, home, memory)


@app.command()
def erase(
    tenant: Tenant = "",
    user: User = "",
    everybody: Everybody = False,
    store: Store = "",
    bus: Bus = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    home: Home = HOME,
    memory: Url = "",
) -> None:
    """Delete all that memory holds of a user or a tenant, schedules, links and records of runs; may be repeated."""
    from fathom.cli.records import memory as memory_records

    if not yes:
        typer.confirm("Delete it all? Nothing but a backup brings it back.", abort=True)
    memory_records.erase(memory_records.make_scope(tenant, user, everybody=everybody), store, bus, home, memory)


@app.command()
def facts(home: Home = HOME, memory: Url = "") -> None:
    """List what is remembered of the caller: id, kind, value, day and sentence."""
    from fathom.cli.records import facts as fact_records

    fact_records.show(home, memory)


@app.command()
def forget(
    fact: Annotated[list[str], typer.Argument(help="Ids, as `fathom memory facts` lists them.")],
    home: Home = HOME,
    memory: Url = "",
) -> None:
    """Delete facts; the questions that they were learnt from do not bring them back."""
    from fathom.cli.records import facts as fact_records

    fact_records.forget(fact, home, memory)

"""``fathom export``: writes recorded episodes as files for SFT, DPO, PPO or RL."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import typer

from fathom.clients.local import read_endpoints
from fathom.core.call import Call, calling
from fathom.core.errors import NotFound
from fathom.core.identity import environment_tenant
from fathom.trainers.commands.left_out import say_left_out

if TYPE_CHECKING:
    from fathom.api.memory.v1.memory_pb2 import Feedback
    from fathom.clients import Clients
    from fathom.trainers.data.export.files import Exported

Kind = Literal["sft", "dpo", "ppo", "rl"]
KINDS = get_args(Kind)


@dataclass(frozen=True)
class Source:
    """Source of episodes: a stack's folder, and one of its tenants."""

    home: Path
    tenant: str


def export_episodes(kind: str, target: Path, home: Path, *, tenant: str, **options: Any) -> None:
    """Export episodes and print the rows written and left out; exit with status 1 when there is no row.

    Raises ``NotFound`` for an unknown kind, and ``PermissionDenied`` for a tenant that the caller may not call for.
    """
    if kind not in KINDS:
        raise NotFound("kind of training data", kind, KINDS)
    source = Source(home, environment_tenant(os.environ, tenant))
    done = asyncio.run(write(cast(Kind, kind), target, source, **options))
    typer.echo(f"{done.rows:,} rows in {target}: {done.learned_tokens:,} of {done.tokens:,} tokens carry loss")
    say_left_out(done.left_out)
    if not done.rows:
        typer.echo("nothing was found to export, and nothing was written", err=True)
        raise typer.Exit(1)


async def write(kind: Kind, target: Path, source: Source, *, model: str, **options: Any) -> Exported:
    """Open the stack's store and services, then export the episodes of one tenant."""
    from fathom.api.planner.v1.planner_pb2 import ListToolsRequest
    from fathom.clients import connect
    from fathom.trainers.data.export.files import Wanted, export
    from fathom.trainers.data.export.tokens import PolicyRenderer
    from fathom.transport.store import open_store
    from fathom.transport.store.tenant import TenantStore

    endpoints = read_endpoints(source.home)
    clients, store = connect(endpoints.services, tenant=source.tenant), open_store(endpoints.store)
    try:
        # First of all: the services decide whether the caller may read for this tenant, before the store is opened.
        judged = await read_judgements(clients)
        tools = list((await clients.planner.list_tools(ListToolsRequest())).tools)
        reviewed = await read_reviewed(clients) if kind == "dpo" and options.get("production") else {}
        wanted = Wanted(kind, model, tools=tools, judged=judged, reviewed=reviewed, **options)
        renderer = PolicyRenderer(clients, model, tools) if model else None
        with calling(Call.new(tenant=source.tenant)):
            return await export(TenantStore(store), wanted, target, renderer)
    finally:
        await clients.close()
        await store.close()


async def read_judgements(clients: Clients) -> dict[str, Feedback]:
    """Return the last judgement of each run of the caller's tenant."""
    from fathom.api.memory.v1.memory_pb2 import ListFeedbackRequest

    found: dict[str, Feedback] = {}
    token = ""
    while True:
        page = await clients.memory.list_feedback(ListFeedbackRequest(page_size=1000, page_token=token))
        found |= {item.run_id: item for item in page.feedback}
        token = page.next_page_token
        if not token:
            return found


async def read_reviewed(clients: Clients) -> dict[str, str]:
    """Return the better answer of each run of the caller's tenant that was reviewed, "" where it was refused."""
    from fathom.trainers.commands.reviews.queues import KINDS, read_decisions
    from fathom.trainers.data.reviews.candidates import find_reviewed

    return find_reviewed([item async for item in read_decisions(clients, KINDS["candidate"])])

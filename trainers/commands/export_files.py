"""``fathom export``: writes recorded episodes as files for SFT, DPO or PPO."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal, cast

import typer

from fathom.clients.local import read_endpoints
from fathom.core.errors import NotFound

KINDS = ("sft", "dpo", "ppo")


def export_episodes(
    kind: str,
    target: Path,
    home: Path,
    *,
    model: str,
    prefix: str,
    least_reward: float,
    margin: float,
    production: bool,
) -> None:
    """Export episodes and print the rows written and left out; raise ``NotFound`` for an unknown kind."""
    if kind not in KINDS:
        raise NotFound("kind of training data", kind, KINDS)
    asyncio.run(
        write(
            cast(Literal["sft", "dpo", "ppo"], kind),
            target,
            home,
            model=model,
            prefix=prefix,
            least_reward=least_reward,
            margin=margin,
            production=production,
        )
    )


async def write(
    kind: Literal["sft", "dpo", "ppo"],
    target: Path,
    home: Path,
    *,
    model: str,
    prefix: str,
    least_reward: float,
    margin: float,
    production: bool,
) -> None:
    """Open the stack's store and services, then export."""
    from fathom.api.planner.v1.planner_pb2 import ListToolsRequest
    from fathom.clients import connect
    from fathom.trainers.data.export.files import Wanted, export
    from fathom.trainers.data.export.tokens import PolicyRenderer
    from fathom.transport.store import open_store

    endpoints = read_endpoints(home)
    clients, store = connect(endpoints.services), open_store(endpoints.store)
    try:
        tools = list((await clients.planner.list_tools(ListToolsRequest())).tools)
        wanted = Wanted(kind, model, least_reward, margin, production, prefix, tools)
        done = await export(store, wanted, target, PolicyRenderer(clients, model, tools) if model else None)
    finally:
        await clients.close()
        await store.close()
    typer.echo(f"{done.rows:,} rows in {target}: {done.learned_tokens:,} of {done.tokens:,} tokens carry loss")
    for reason, count in sorted(done.left_out.items()):
        typer.echo(f"left out: {count:,} ({reason})")

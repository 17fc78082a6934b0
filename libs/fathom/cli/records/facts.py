"""Implementation of ``fathom memory facts`` and ``fathom memory forget``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import typer

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.cli.records.memory import with_memory
from fathom.clients import Clients


def show(home: Path, memory: str) -> None:
    """Print a line per fact: id, kind, value, when it was said or learnt, and the sentence."""

    async def work(clients: Clients) -> None:
        async for fact in list_facts(clients):
            kind = pb.FactKind.Name(fact.kind).removeprefix("FACT_KIND_").lower()
            day = fact.update_time.ToDatetime().date()
            typer.echo("\t".join((fact.id, kind, fact.value or "-", str(day), fact.text)))

    with_memory(home, memory, work)


def forget(ids: list[str], home: Path, memory: str) -> None:
    """Delete facts; raise ``NotFound``."""

    async def work(clients: Clients) -> None:
        for fact_id in ids:
            await clients.memory.delete_fact(pb.DeleteFactRequest(fact_id=fact_id))
            typer.echo(f"{fact_id} is deleted")

    with_memory(home, memory, work)


async def list_facts(clients: Clients) -> AsyncIterator[pb.Fact]:
    """Yield all facts of the caller, newest first."""
    token = ""
    while True:
        page = await clients.memory.list_facts(pb.ListFactsRequest(page_token=token))
        for fact in page.facts:
            yield fact
        token = page.next_page_token
        if not token:
            return

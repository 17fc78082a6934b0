"""Ingests into a corpus of an engine, as tests want them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fathom.services.retrieval.corpus.ingest import Item
from fathom.services.retrieval.engine import Engine, Ingested


async def bring(engine: Engine, *brought: Item, activate: bool = True) -> Ingested:
    """Ingest items into the corpus "main" and serve the new snapshot at once."""

    async def items() -> AsyncIterator[Item]:
        for item in brought:
            yield item

    done = await engine.ingest("main", items())  # type: ignore[arg-type]
    if activate:
        await engine.corpora.activate("main", done.snapshot)
    return done

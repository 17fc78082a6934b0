"""Difficulty of queries by a model: easy, medium or hard, with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from fathom.domain.chat.quoting import write_sections
from fathom.domain.journal import Journal
from fathom.trainers.data.instructions import instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.queries.record import Difficulty, Query

# Rows that are asked for at a time: what a killed process has to ask for again.
BATCH = 8


class Rating(BaseModel):
    """A model's reply; the reason stands first, so that the label follows from it."""

    model_config = ConfigDict(title="fathom.data.difficulty")

    rationale: str = Field(min_length=1)
    difficulty: Difficulty


async def rate_all(queries: Sequence[Query], asker: Asker, target: Path) -> int:
    """Append each query with its difficulty to ``target``; return how many could not be rated.

    Queries that are in the file already are not asked for again. Raises ``FathomError`` when the model is away, and
    ``CorruptData`` for a file with another content.
    """
    journal = Journal(target)
    known = {str(row.get("id")) for row in journal.read()}
    fresh = [query for query in queries if query.id not in known]
    dropped = 0
    for start in range(0, len(fresh), BATCH):
        rated = await asyncio.gather(*(rate(query, asker) for query in fresh[start : start + BATCH]))
        journal.append(query.model_dump(mode="json", exclude_defaults=True) for query in rated if query is not None)
        dropped += rated.count(None)
    return dropped


async def rate(query: Query, asker: Asker) -> Query | None:
    """Return the query with its difficulty; None when the model gave no readable label in two attempts."""
    system = instruction("difficulty", query.language)
    # Noise makes a question harder to read, not to answer; quoted, so that it cannot instruct the model.
    found = await asker.ask(system, write_sections({"Question": query.clean or query.text}), Rating, seed=0)
    if found is None:
        return None
    return query.model_copy(update={"difficulty": found.difficulty, "rationale": found.rationale})

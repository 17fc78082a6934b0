"""Rows on Ray Data: the same as by one process, without loss or repetition when some are there or a task fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fathom.clients import Clients, connect
from fathom.core.errors import NotFound
from fathom.trainers.data.on_ray import Recipe, run_on_ray
from fathom.trainers.data.queries.record import Query, make_query
from fathom.trainers.data.stages.running import Task, run_tasks

# Ray Data reads settings of its own that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context")
ASKED = "What was the return of Apple in {year}?"


def make_rows(clients: Clients, some: Sequence[Query]) -> list[Task[Query]]:
    """Two rows of each query; those of a query without a year fail."""

    def make_task(query: Query, number: int) -> Task[Query]:
        async def make() -> Query:
            if not any(map(str.isdigit, query.text)):
                raise NotFound("year", query.text)
            return query.model_copy(update={"id": f"{query.id}-{number}", "intent": f"intent {number}"})

        return Task(f"{query.id}-{number}", make)

    return [make_task(query, number) for query in some for number in range(2)]


RECIPE = Recipe(make_rows, Query, Query)


async def make_on_ray(queries: Sequence[Query], target: Path) -> None:
    clients = connect({})
    try:
        await run_on_ray(RECIPE, queries, clients, target, workers=2)
    finally:
        await clients.close()


def read_rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_ray_data_makes_what_one_process_makes(cluster: None, tmp_path: Path) -> None:
    queries = [make_query(ASKED.format(year=year), "q.txt:1") for year in range(1960, 2020)]
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    asyncio.run(run_tasks(make_rows(connect({}), queries), here, Query))
    # Of an earlier run that was killed: one row of the first query is there, and its second one is not.
    there.write_text(f"{json.dumps(read_rows(here)[0])}\n", encoding="utf-8")
    # A query that stands twice in its file is made once.
    asyncio.run(make_on_ray([*queries, queries[5]], there))
    made = read_rows(there)
    assert len(made) == len({row["id"] for row in made}) == 120
    assert {row["id"]: row for row in made} == {row["id"]: row for row in read_rows(here)}
    # The error of a task comes through as itself, and what there is stays.
    with pytest.raises(NotFound, match="year"):
        asyncio.run(make_on_ray([*queries, make_query("How is Apple?", "q.txt:2")], there))
    assert read_rows(there) == made

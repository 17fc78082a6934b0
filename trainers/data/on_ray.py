"""Rows of many sources on Ray Data: its workers make them, and this process alone writes them down."""

from __future__ import annotations

import asyncio
import base64
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from fathom.core.errors import FathomError
from fathom.domain.journal import Journal
from fathom.trainers.data.stages.running import AT_ONCE, Row, Task, hold, parse_rows
from fathom.trainers.ray_cluster import start_ray

if TYPE_CHECKING:
    from fathom.clients import Clients

Source = TypeVar("Source", bound=BaseModel)
# Sources of a block, which is delivered whole: what a killed process has asked models for in vain is at most this much
# for each worker. Smaller ones would cost Ray more than they hold.
BLOCK = 16
# Blocks that wait to be written down; Ray holds its workers up beyond that.
STORE_BYTES = 256 << 20


@dataclass(frozen=True)
class Recipe(Generic[Source, Row]):
    """Maker of rows from sources; each task is of one source alone, so that any part can be made elsewhere."""

    make: Callable[[Clients, Sequence[Source]], Sequence[Task[Row]]]
    source: type[Source]
    row: type[Row]


@dataclass(frozen=True)
class Scale:
    """Above how many sources Ray Data makes the rows, None for never, and with how many workers."""

    ray_above: int | None = None
    workers: int = 2


async def run_on_ray(
    recipe: Recipe[Source, Row], sources: Sequence[Source], clients: Clients, target: Path, workers: int
) -> None:
    """Append the rows that ``target`` lacks, made by ``workers`` processes that call the same services.

    They are the rows that ``run_tasks`` makes, in another order. An error of one task ends the others and is raised.
    Raises ``MissingExtra`` without Ray.
    """
    with hold(target):
        journal = Journal(target)
        found = {str(getattr(row, "id")) for row in parse_rows(journal, recipe.row)}  # noqa: B009 - no base class
        wanted = list(_list_wanted(recipe, sources, clients, found))
        if not wanted:
            return
        stop = await asyncio.to_thread(start_ray, workers, STORE_BYTES)
        try:
            # In a thread, since the services may run on this loop.
            await asyncio.to_thread(_write, recipe, wanted, clients.endpoints, journal, workers)
        finally:
            # Also ends the thread of a run that was interrupted.
            stop()


def _list_wanted(
    recipe: Recipe[Source, Row], sources: Sequence[Source], clients: Clients, found: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield each source that lacks rows, with the ids of those."""
    # Added to, so that a source that stands in its file twice is made once.
    seen = set(found)
    for source in sources:
        ids = [task.id for task in recipe.make(clients, [source]) if task.id not in seen]
        seen.update(ids)
        if ids:
            yield {"source": source.model_dump_json(), "ids": ids}


def _write(
    recipe: Recipe[Source, Row],
    wanted: Sequence[Mapping[str, Any]],
    services: Mapping[str, str],
    journal: Journal,
    workers: int,
) -> None:
    """Append the rows as their blocks arrive; raise the first error of a task."""
    import ray.data

    # Its bars would run through the lines that the command prints.
    ray.data.DataContext.get_current().enable_progress_bars = False
    blocks = -(-len(wanted) // BLOCK)
    made = ray.data.from_items(list(wanted), override_num_blocks=blocks).map_batches(
        Maker,
        fn_constructor_args=(recipe, dict(services)),
        batch_size=BLOCK,
        num_cpus=1,
        # No more than there are blocks: Ray would start the others and wait for them.
        compute=ray.data.ActorPoolStrategy(size=min(workers, blocks)),
    )
    for row in made.iter_rows():
        if row["error"]:
            error: FathomError = pickle.loads(base64.b64decode(row["error"]))  # noqa: S301 - of our own workers
            raise error
        journal.append([recipe.row.model_validate_json(row["row"]).model_dump(mode="json", exclude_defaults=True)])


class Maker(Generic[Source, Row]):
    """Makes the rows of a batch of sources in a worker of Ray."""

    def __init__(self, recipe: Recipe[Source, Row], services: Mapping[str, str]) -> None:
        self._recipe, self._services = recipe, services

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the rows as JSON, and behind them the error that ended the batch, if one did."""
        return asyncio.run(self._make(batch))

    async def _make(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        from fathom.clients import connect
        from fathom.core.call import Lane

        sources = [self._recipe.source.model_validate_json(text) for text in batch["source"]]
        ids = {name for names in batch["ids"] for name in names}
        rows, errors = list[str](), list[str]()
        gate = asyncio.Semaphore(AT_ONCE)
        clients = connect(self._services, lane=Lane.TRAINING)

        async def work(task: Task[Row]) -> None:
            async with gate:
                # After an error the others would only go on asking a model that is away.
                if errors:
                    return
                try:
                    row = await task.make()
                # As a value: Ray would wrap it in errors of its own, and lose the rows that were made before.
                except FathomError as error:
                    errors.append(base64.b64encode(pickle.dumps(error)).decode())
                else:
                    rows.append(row.model_dump_json(exclude_defaults=True))

        try:
            tasks = {task.id: task for task in self._recipe.make(clients, sources) if task.id in ids}
            await asyncio.gather(*map(work, tasks.values()))
        finally:
            await clients.close()
        return {"row": rows + [""] * len(errors), "error": [""] * len(rows) + errors}

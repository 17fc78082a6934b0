"""The one way in which stages run: tasks in parallel, a row each, resumed after a crash without loss or repetition."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from fathom.core.errors import Conflict, CorruptData
from fathom.domain.journal import Journal

Row = TypeVar("Row", bound=BaseModel)
# What a killed process has asked models for in vain is at most this much.
AT_ONCE = 8


@dataclass(frozen=True)
class Task(Generic[Row]):
    """One row to be made; ``id`` follows from what it is made of and is the row's own."""

    id: str
    make: Callable[[], Awaitable[Row]]


async def run_tasks(
    tasks: Sequence[Task[Row]], target: Path, schema: type[Row], at_once: int = AT_ONCE
) -> dict[str, Row]:
    """Append the row of each task that ``target`` does not have; return all rows of the tasks by id.

    A row is written whole as soon as it is made, so that a killed process loses what was in flight and nothing else.
    An error of one task, such as a model that is away, ends the others and is raised. Raises ``Conflict`` while another
    process writes to the file, and ``CorruptData`` for a file of something else.
    """
    with hold(target):
        journal = Journal(target)
        found = {row.id: row for row in parse_rows(journal, schema)}  # type: ignore[attr-defined]
        # Tasks of one id are one task: a question that stands in its file twice is played once.
        fresh = {task.id: task for task in tasks if task.id not in found}
        gate = asyncio.Semaphore(at_once)

        async def work(task: Task[Row]) -> None:
            async with gate:
                row = await task.make()
            # No await between the two: the file never lacks a row that is taken for done.
            journal.append([row.model_dump(mode="json", exclude_defaults=True)])
            found[task.id] = row

        running = [asyncio.create_task(work(task)) for task in fresh.values()]
        try:
            # Not a task group, which would wrap the error of a model that is away.
            await asyncio.gather(*running)
        finally:
            # After an error the others would go on asking models, and write to a file that is no longer held.
            for one in running:
                one.cancel()
        return {task.id: found[task.id] for task in tasks}


def parse_rows(journal: Journal, schema: type[Row]) -> list[Row]:
    """Return the rows of a journal; raise ``CorruptData`` for rows of another kind, or an id twice."""
    rows: dict[str, Row] = {}
    for number, value in enumerate(journal.read(), 1):
        try:
            row = schema.model_validate(value)
        except ValidationError as error:
            raise CorruptData(f"{journal.path}:{number}", str(error)) from error
        name = str(getattr(row, "id"))  # noqa: B009 - the schemas share the field, not a base class
        if name in rows:
            raise CorruptData(f"{journal.path}:{number}", f"has the id {name} for the second time")
        rows[name] = row
    return list(rows.values())


@contextmanager
def hold(target: Path) -> Iterator[None]:
    """Keep other processes from writing to ``target``; the lock ends with this process, however it ends."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # A file beside the target: a lock on the target itself would be lost as soon as somebody replaces it.
    with target.with_name(f".{target.name}.lock").open("w") as file:
        try:
            # Without waiting, since a second run would otherwise stand still for hours and say nothing.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"another process writes to {target}", metadata={"field": "target"}) from error
        yield

"""Erasure of runs from the object store: what a question and its answer left there, with the runs that it delegated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fathom.core.errors import Conflict
from fathom.transport.store import ObjectStore

CHILDREN = "runs/children/"
AT_ONCE = 8


@dataclass(frozen=True)
class ErasedRuns:
    """Counts of the runs that were erased, delegated ones included, and of the objects."""

    runs: int
    objects: int


async def erase_runs(store: ObjectStore, run_ids: Iterable[str], say: Callable[[str], None]) -> ErasedRuns:
    """Delete every object of these runs, and look again whether one is left; ``store`` is the tenant's.

    Raises ``Conflict`` when objects came meanwhile: a run that is under way writes on. May be repeated.
    """
    runs = await add_delegated(store, set(run_ids))
    if not runs:
        return ErasedRuns(0, 0)
    keys = await list_keys(store, runs)
    slots = asyncio.Semaphore(AT_ONCE)

    async def delete(key: str) -> None:
        async with slots:
            await store.delete(key)

    await asyncio.gather(*(delete(key) for key in keys))
    left = await list_keys(store, runs)
    if left:
        raise Conflict(f"{len(left)} objects of these runs are there again, such as {left[0]}: stop the runs first")
    say(f"objects of {len(runs)} runs: {len(keys)} deleted, none left")
    return ErasedRuns(len(runs), len(keys))


async def add_delegated(store: ObjectStore, runs: set[str]) -> set[str]:
    """Return the runs with all that they have delegated, at any depth."""
    found, open_ones = set(runs), list(runs)
    while open_ones:
        keys = await store.keys(f"{CHILDREN}{open_ones.pop()}/")
        new = {key.rpartition("/")[2].partition(".")[0] for key in keys} - found
        found |= new
        open_ones += new
    return found


async def list_keys(store: ObjectStore, runs: set[str]) -> list[str]:
    """Return the keys of all objects that have the id of one of the runs in their path."""
    return [key for key in await store.keys("") if not runs.isdisjoint(list_ids(key))]


def list_ids(key: str) -> set[str]:
    """Return what may be a run's id in a key: each part of its path, also behind a time as in the index of runs."""
    parts = [part.partition(".")[0] for part in key.split("/")]
    return {*parts, *(part.partition("-")[2] for part in parts)}

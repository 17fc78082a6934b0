"""Note of what has changed between the answer of a run and the one before it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import FathomError, NotFound
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.reports.report import list_material
from fathom.services.gateway.schedules.comparing import MAX_FIGURES, Figure, TablePair, compare_code, compare_tables
from fathom.services.gateway.schedules.firing import Origin, Scheduler

# Times before that had no answer, and are passed over.
MAX_BACK = 5
# Each is read twice as a whole.
MAX_TABLES = 4


@dataclass(frozen=True)
class Changes:
    """Differences between two runs; ``before`` is "" where there is nothing to compare with."""

    before: str
    origin: Origin | None
    compared: int
    """Figures of the later run's code."""
    changed: int
    figures: tuple[Figure, ...]
    """The first of those that differ."""
    tables: tuple[TablePair, ...]
    """Those that differ."""
    uncompared: int
    """Further tables that differ, and are too many, too large or gone."""


class RunComparer:
    """Compares runs through the gateway's engine."""

    def __init__(self, engine: Engine, scheduler: Scheduler) -> None:
        self._engine, self._scheduler = engine, scheduler

    async def compare(self, run_id: str, before: str = "") -> Changes:
        """Return what differs in a run from another one, or from the time before of the schedule that asked for it.

        Raises ``NotFound`` for a run that is not there.
        """
        later = (await self._engine.read_run(run_id)).trajectory
        origin = await self._scheduler.read_origin(run_id)
        earlier = await self._find_answer(before or (origin.before if origin else ""))
        if earlier is None or not later.answer.markdown:
            return Changes("", origin, 0, 0, (), (), 0)
        figures, compared = await asyncio.to_thread(compare_code, earlier, later)
        tables, uncompared = await self._compare_tables(earlier, later)
        shown = tuple(figures[:MAX_FIGURES])
        return Changes(earlier.run_id, origin, compared, len(figures), shown, tuple(tables), uncompared)

    async def _find_answer(self, run_id: str) -> trajectory.Trajectory | None:
        """Return the newest run with an answer among one and those that its schedule asked for before it."""
        # A time that failed has nothing to compare with, and the one before it has.
        # Bounded, since each step reads a whole record.
        for _ in range(MAX_BACK):
            if not run_id:
                return None
            try:
                found = (await self._engine.read_run(run_id)).trajectory
            except NotFound:
                found = trajectory.Trajectory()
            if found.answer.markdown:
                return found
            origin = await self._scheduler.read_origin(run_id)
            run_id = origin.before if origin else ""
        return None

    async def _compare_tables(
        self, earlier: trajectory.Trajectory, later: trajectory.Trajectory
    ) -> tuple[list[TablePair], int]:
        """Return how tables differ, and the number of those that differ in a way that is not known."""
        pairs = pair_sheets(list_sheets(earlier), list_sheets(later))
        found, uncompared = [], len(pairs[MAX_TABLES:])
        for old, new in pairs[:MAX_TABLES]:
            try:
                tables = [await self._engine.read_table(sheet.id) for sheet in (old, new)]
                pair = await asyncio.to_thread(compare_tables, new.title or new.id, *tables)
            # One that is too large, or gone since, leaves the others to be compared.
            except FathomError:
                uncompared += 1
                continue
            if pair.added or pair.removed or pair.changed:
                found.append(pair)
            elif not pair.is_whole:
                uncompared += 1
        return found, uncompared


def list_sheets(run: trajectory.Trajectory) -> list[Sheet]:
    """Return the tables that a run has found, each once."""
    found = {item.sheet.id: item.sheet for item in list_material(run) if item.HasField("sheet")}
    return list(found.values())


def pair_sheets(before: list[Sheet], after: list[Sheet]) -> list[tuple[Sheet, Sheet]]:
    """Return the tables of two runs that have the same columns and other content, in the order of the later run."""
    known = {sheet.id for sheet in before}
    earlier, pairs = [sheet for sheet in before if sheet.id not in {one.id for one in after}], []
    for sheet in after:
        columns = [column.name for column in sheet.columns]
        same = next((one for one in earlier if [column.name for column in one.columns] == columns), None)
        # An id says the content: an equal one has no differences.
        if sheet.id not in known and same is not None:
            earlier.remove(same)
            pairs.append((same, sheet))
    return pairs

"""Findings of earlier turns, from the records of their runs."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.core.errors import CorruptData, NotFound
from fathom.services.planner.model.episode import MaterialKind
from fathom.services.planner.model.turns import EarlierFigure, EarlierTable, TurnFindings
from fathom.services.planner.proto.episode import material_from_proto
from fathom.services.planner.runs.repository import RunRepository


@dataclass(frozen=True)
class RecordedTurns:
    """Reader of what the runs of turns have found."""

    record: RunRepository

    async def load(self, run_id: str) -> TurnFindings:
        """Return the findings of a turn's run; none for a run whose record is gone."""
        try:
            trajectory = await self.record.get_trajectory(run_id) if run_id else None
        except (NotFound, CorruptData):
            trajectory = None
        if trajectory is None:
            return TurnFindings()
        messages = [*trajectory.given, *(item for step in trajectory.steps for item in step.material)]
        material = [material_from_proto(message) for message in messages]
        tables = {
            item.variable: EarlierTable(item.variable, item.item)
            for item in material
            if item.kind is MaterialKind.SHEET and item.variable
        }
        figures = [
            EarlierFigure(figure, item.item.code, item.item.run_id or run_id)
            for item in material
            if item.kind is MaterialKind.CODE
            for figure in item.item.figures
        ]
        return TurnFindings(tuple(tables.values()), tuple(figures))

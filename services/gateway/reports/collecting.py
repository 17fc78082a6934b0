"""Collection of what a report needs: the run, the rows of its tables, its figures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import FailedPrecondition, FathomError
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.reports.report import Figure, Report, Table, build_report, build_table, list_material
from fathom.services.gateway.tables import View

# A report shows what a table looks like; all of its rows are an export of their own.
SHOWN_ROWS = 50


class Collector:
    """Reads reports through the gateway's engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def collect(self, run_id: str, language: str, pictures: Mapping[str, bytes]) -> Report:
        """Return the report of a run, its figures as ``pictures`` where they are given.

        Raises ``NotFound``, and ``FailedPrecondition`` for a run without an answer. A table or a figure that cannot be
        read is left out, and the report says so at its place.
        """
        run = (await self._engine.read_run(run_id)).trajectory
        if not run.answer.markdown:
            raise FailedPrecondition(f"run {run_id} has no answer to export", metadata={"field": "run_id"})
        report = build_report(run, language, datetime.now(UTC))
        material = list_material(run)
        sheets = {item.variable: item for item in material if item.HasField("sheet")}
        figures = {figure.id: figure for item in material for figure in item.code.figures}
        # Each once, however often the answer refers to it.
        places = dict.fromkeys(report.places)
        tables = [place.name for place in places if place.kind == "table" and place.name in sheets]
        drawn = [place.name for place in places if place.kind == "figure" and place.name in figures]
        # Side by side, because each one is read from another service or a store.
        read_tables, read_figures = await asyncio.gather(
            asyncio.gather(*(self._table(sheets[name], language) for name in tables)),
            asyncio.gather(*(self._figure(run_id, figures[name], pictures.get(name)) for name in drawn)),
        )
        return replace(
            report,
            tables={name: table for name, table in zip(tables, read_tables, strict=True) if table},
            figures={name: figure for name, figure in zip(drawn, read_figures, strict=True) if figure},
        )

    async def _table(self, item: trajectory.Material, language: str) -> Table | None:
        try:
            page = await self._engine.get_table_page(item.sheet.id, View(limit=SHOWN_ROWS))
        except FathomError:  # an answer is worth more than one of its tables
            return None
        return build_table(item.sheet, page, language)

    async def _figure(self, run_id: str, figure: trajectory.Figure, picture: bytes | None) -> Figure | None:
        # The caller's picture goes before what is stored, which may be a drawing that only a browser can show.
        if picture is not None:
            return Figure(figure.title, "image/png", picture)
        try:
            content, media_type = await self._engine.get_figure(run_id, figure.id)
        except FathomError:
            return None
        return Figure(figure.title, media_type, content)

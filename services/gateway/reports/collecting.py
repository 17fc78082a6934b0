"""Collection of what a report needs: the run, the rows of its tables, its figures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import FailedPrecondition, FathomError
from fathom.services.gateway.engine import Engine, list_figures
from fathom.services.gateway.reports.report import Figure, Report, Table, build_report, build_table, list_sheets
from fathom.services.gateway.tables import View

# A report shows what a table looks like; all of its rows are an export of their own.
SHOWN_ROWS = 50
# Titles are worth less than the file, which does not wait long for them.
TITLES_TIMEOUT_S = 3.0


class Collector:
    """Reads reports through the gateway's engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read_run(self, run_id: str) -> trajectory.Trajectory:
        """Return a run whose tables have the titles that their conversation gives them; raise ``NotFound``.

        Where the conversation cannot be read, they have their own.
        """
        found = await self._engine.read_run(run_id)
        run = found.trajectory
        if found.conversation_id and list_sheets(run):
            request = memory.ListTurnsRequest(conversation_id=found.conversation_id, page_size=1)
            with suppress(FathomError):
                page = await self._engine.clients.memory.list_turns(request, timeout_s=TITLES_TIMEOUT_S)
                titles = {view.sheet_id: view.title for view in page.sheets if view.title}
                for item in list_sheets(run):
                    item.sheet.title = titles.get(item.sheet.id, item.sheet.title)
        return run

    def begin(self, run: trajectory.Trajectory, language: str) -> Report:
        """Return the report of a run, still without rows and figures."""
        return build_report(run, language, datetime.now(UTC))

    async def collect(
        self,
        run: trajectory.Trajectory,
        language: str,
        pictures: Mapping[str, bytes],
        *,
        has_parentheses: bool = False,
    ) -> Report:
        """Return the report of a run, its figures as ``pictures`` where they are given.

        With ``has_parentheses``, negative numbers of its tables stand in them.

        Raises ``FailedPrecondition`` for a run without an answer. A table or a figure that cannot be read is left out,
        and the report says so at its place.
        """
        report = self.begin(require_answer(run), language)
        sheets = {item.variable: item for item in list_sheets(run)}
        # Each once, however often the answer refers to it.
        places = dict.fromkeys(report.places)
        tables = [place.name for place in places if place.kind == "table" and place.name in sheets]
        drawn = {place.name for place in places if place.kind == "figure"}
        # Side by side, because each one is read from another service or a store.
        read_tables, figures = await asyncio.gather(
            asyncio.gather(*(self._table(sheets[name], language, has_parentheses) for name in tables)),
            self.collect_figures(run, pictures, drawn),
        )
        found = {name: table for name, table in zip(tables, read_tables, strict=True) if table}
        return replace(report, tables=found, figures=figures)

    async def collect_figures(
        self, run: trajectory.Trajectory, pictures: Mapping[str, bytes], names: Set[str] | None = None
    ) -> dict[str, Figure]:
        """Return those figures of a run that can be read, by their ids; only ``names`` where they are given."""
        known = {figure.id: figure for figure in list_figures(run)}
        wanted = [name for name in known if names is None or name in names]
        read = await asyncio.gather(*(self._figure(run.run_id, known[name], pictures.get(name)) for name in wanted))
        return {name: figure for name, figure in zip(wanted, read, strict=True) if figure}

    async def read_sheet(self, sheet_id: str) -> bytes | None:
        """Return a whole table as an Arrow stream; None for one that cannot be read."""
        try:
            return await self._engine.read_table(sheet_id)
        except FathomError:
            return None

    async def _table(self, item: trajectory.Material, language: str, has_parentheses: bool) -> Table | None:
        try:
            page = await self._engine.get_table_page(item.sheet.id, View(limit=SHOWN_ROWS))
        except FathomError:  # an answer is worth more than one of its tables
            return None
        return build_table(item.sheet, page, language, has_parentheses=has_parentheses)

    async def _figure(self, run_id: str, figure: trajectory.Figure, picture: bytes | None) -> Figure | None:
        # The caller's picture goes before what is stored, which may be a drawing that only a browser can show.
        if picture is not None:
            return Figure(figure.title, "image/png", picture)
        try:
            content, media_type = await self._engine.get_figure(run_id, figure.id)
        except FathomError:
            return None
        return Figure(figure.title, media_type, content)


def require_answer(run: trajectory.Trajectory) -> trajectory.Trajectory:
    """Return the run; raise ``FailedPrecondition`` for one without an answer."""
    if not run.answer.markdown:
        raise FailedPrecondition(f"run {run.run_id} has no answer to export", metadata={"field": "run_id"})
    return run

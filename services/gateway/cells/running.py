"""Runs a cell of a run's code again, changed or not: beside its record, which stays as it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients.services import SandboxClient
from fathom.clients.tables import embed_table, make_frame_request
from fathom.core.deadline import time_limit
from fathom.core.errors import (
    DependencyFailed,
    FailedPrecondition,
    FathomError,
    InvalidField,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    PermissionDenied,
)
from fathom.core.ids import new_id
from fathom.services.gateway.bodies import check_length
from fathom.services.gateway.config import Config
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.reports.report import list_material, list_sheets
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import read_ref

# Sessions of this gateway at once; the sandbox has limits of its own, by tenant.
MAX_AT_ONCE = 4
BUSY_RETRY_S = 5.0
# All cells together may take so many times what one may.
TOTAL_CELLS = 4
CLOSE_TIMEOUT_S = 5.0
# Beyond the wall-clock time of the cell itself.
SPARE_S = 15.0
MAX_CODE_CHARS = 65_536
MAX_TEXT_CHARS, MAX_FIGURES, MAX_FIGURE_BYTES = 100_000, 8, 4_000_000
# As figures are stored, and shown: drawings, pictures, and HTML that the sandbox has cleaned.
PLOTLY_TYPE, HTML_TYPE = "application/json", "text/html"
SHOWN = {
    "application/vnd.plotly.v1+json": PLOTLY_TYPE,
    "image/png": "image/png",
    "image/svg+xml": "image/svg+xml",
    HTML_TYPE: HTML_TYPE,
}


@dataclass(frozen=True)
class DisplayedFigure:
    """A figure that the cell displayed."""

    media_type: str
    content: bytes


@dataclass(frozen=True)
class CellRun:
    """Outcome of a cell that ran again."""

    status: str
    """``ok``, ``error`` (an exception of the code), or what ended it: ``timeout``, ``oom``, ``output_limit``, …"""
    stdout: str
    stderr: str
    result: str
    traceback: str
    cause: str
    duration_ms: int
    figures: tuple[DisplayedFigure, ...]
    left_out: int
    """Displays that are not shown here: those beyond the bounds, and drawings that are no JSON."""
    missing: tuple[str, ...]
    """Tables of the run that are gone."""


class CellRunner:
    """Opens a session per cell, with the run's tables and the state that the cells before it make, and closes it."""

    def __init__(self, config: Config, engine: Engine, store: ObjectStore) -> None:
        self._config, self._engine = config, engine
        self._store = store
        self._places = asyncio.Semaphore(MAX_AT_ONCE)

    async def run(self, run_id: str, number: int, code: str) -> CellRun:
        """Run ``code`` in the place of the material ``number`` of a run.

        Raises ``InvalidField`` for code that is empty or too long, ``PermissionDenied`` where settings forbid it,
        ``NotFound`` for a run or a cell that is not there, ``FailedPrecondition`` for a run that goes on and for a
        cell that another run has run, ``Overloaded`` where others run, ``DependencyFailed`` or ``DeadlineExceeded``
        where the sandbox is away.
        """
        if not self._config.cell_seconds:
            raise PermissionDenied("cells are not run again here (FATHOM_GATEWAY_CELL_SECONDS)")
        check_length("code", code, MAX_CODE_CHARS)
        found = await self._engine.read_run(run_id)
        if found.running:
            raise FailedPrecondition(f"run {run_id} goes on: its cells can be run again when it has ended")
        # Before a place is taken: a number that is no cell costs no session.
        before = list_cells_before(found.trajectory, number)
        if self._places.locked():
            raise Overloaded(f"{MAX_AT_ONCE} cells are being run again just now", retry_after_s=BUSY_RETRY_S)
        limit_s = TOTAL_CELLS * self._config.cell_seconds + SPARE_S
        message = f"the cell and those before it took more than {limit_s:g} s"
        async with self._places, time_limit(limit_s, message=message), self._session(len(before) + 1) as session:
            missing = await self._inject(session, found.trajectory)
            for cell in before:
                # Its own output is in the record; a failure of one that once succeeded shows in what needs it.
                await self._execute(session, cell)
            return await self._read(await self._execute(session, code), missing)

    @property
    def _sandbox(self) -> SandboxClient:
        try:
            return self._engine.clients.sandbox
        except InvalidField as error:
            raise DependencyFailed("sandbox", "no address of it is configured") from error

    @asynccontextmanager
    async def _session(self, cells: int) -> AsyncIterator[str]:
        limits = pb.Limits(cell_wall_ms=self._config.cell_seconds * 1_000, cells=cells)
        sandbox = self._sandbox
        request = pb.CreateSessionRequest(request_id=new_id("cells"), limits=limits)
        session = (await sandbox.create_session(request)).session_id
        try:
            yield session
        finally:
            # A session that cannot be closed ends by itself when it is idle.
            with suppress(FathomError):
                await asyncio.shield(
                    sandbox.close_session(pb.CloseSessionRequest(session_id=session), timeout_s=CLOSE_TIMEOUT_S)
                )

    async def _inject(self, session: str, run: trajectory.Trajectory) -> tuple[str, ...]:
        """Give the session the run's tables under their names; return the names of those that are gone."""
        missing = []
        store = None if self._config.frames_by_reference else self._store
        for item in list_sheets(run):
            # Lazily, since a cell rarely reads all of them; its source says which.
            request = make_frame_request(session, item.variable, item.sheet, is_lazy=True)
            try:
                await self._sandbox.put_frame(await embed_table(request, store))
            # Uploads end, and a table may be larger than a message: the cell may do without it.
            except (NotFound, PayloadTooLarge):
                missing.append(item.variable)
        return tuple(missing)

    async def _execute(self, session: str, code: str) -> list[pb.ExecuteResponse]:
        request = pb.ExecuteRequest(request_id=new_id("cell"), session_id=session, code=code)
        timeout_s = self._config.cell_seconds + SPARE_S
        async with aclosing(self._sandbox.execute(request, timeout_s=timeout_s)) as events:
            found = [event async for event in events]
        outcome = found[-1].outcome if found and found[-1].HasField("outcome") else None
        if outcome is None or outcome.status == pb.EXECUTE_STATUS_INFRA_ERROR:
            raise DependencyFailed("sandbox", outcome.cause if outcome else "the cell's stream broke off")
        return found

    async def _read(self, events: Sequence[pb.ExecuteResponse], missing: tuple[str, ...]) -> CellRun:
        outcome = events[-1].outcome
        displays = [event.display for event in events if event.HasField("display")]
        figures = [one for one in displays if one.media_type in SHOWN]
        drawn = await self._read_figures(figures)
        return CellRun(
            status=pb.ExecuteStatus.Name(outcome.status).removeprefix("EXECUTE_STATUS_").lower(),
            stdout=join_output(events, pb.OUTPUT_STREAM_STDOUT),
            stderr=join_output(events, pb.OUTPUT_STREAM_STDERR),
            result=outcome.result[:MAX_TEXT_CHARS],
            traceback=outcome.traceback[:MAX_TEXT_CHARS],
            cause=outcome.cause,
            duration_ms=outcome.duration_ms,
            figures=tuple(drawn),
            left_out=len(figures) - len(drawn),
            missing=missing,
        )

    async def _read_figures(self, displays: Sequence[pb.Display]) -> list[DisplayedFigure]:
        found: list[DisplayedFigure] = []
        room = MAX_FIGURE_BYTES
        for display in displays[:MAX_FIGURES]:
            size = display.ref.size_bytes if display.HasField("ref") else len(display.data)
            if size > room:
                continue
            content = display.data or await read_ref(self._store, display.ref, room)
            # A cell can claim any media type for its bytes; what is no JSON would break the page's reading.
            if SHOWN[display.media_type] != PLOTLY_TYPE or is_json(content):
                room -= len(content)
                found.append(DisplayedFigure(SHOWN[display.media_type], content))
        return found


def list_cells_before(run: trajectory.Trajectory, number: int) -> list[str]:
    """Return the source of the cells that make the state of the one with a number, in their order.

    Raises ``NotFound`` for a number that is no cell, ``FailedPrecondition`` for one that another run has run.
    """
    found: list[str] = []
    cells = [item for item in list_material(run) if item.HasField("code")]
    for item in cells:
        if item.number == number:
            if item.code.run_id:
                raise FailedPrecondition(f"cell {number} was run by {item.code.run_id}: run it again there")
            return found
        if item.code.ok and not item.code.run_id:
            found.append(item.code.code)
    raise NotFound("cell", str(number), [str(item.number) for item in cells])


def join_output(events: Sequence[pb.ExecuteResponse], stream: pb.OutputStream) -> str:
    """Return what was written to one stream, as far as it is shown."""
    text = "".join(one.output.text for one in events if one.HasField("output") and one.output.stream == stream)
    return text[:MAX_TEXT_CHARS]


def is_json(content: bytes) -> bool:
    """Return whether bytes are JSON text."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True

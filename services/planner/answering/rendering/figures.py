"""Execution of ``<figure>`` blocks in the run's Python session, with one repair attempt, and their replacement."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.core.errors import FathomError
from fathom.services.planner.answering.parsing import FigureBlock
from fathom.services.planner.model.episode import Episode, Material, MaterialKind, ToolStatus
from fathom.services.planner.tools.figures import is_drawing
from fathom.services.planner.tools.tool import NumberedReply, Reply

# Each figure runs a cell and perhaps a repair, all within the time left for the answer.
MAX_FIGURES = 8
SPARE_S = 5.0
"""Seconds reserved for the answer before the deadline."""
SHEET = re.compile(r"\bsheet_\d+\b")
NO_FIGURE = "The cell ended without an error but showed no plotly figure: end it with the figure as last expression."


class Cell(Protocol):
    """Code execution in the run's session, as by the ``python`` tool. Raises ``FathomError``."""

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | NumberedReply: ...


class Coder(Protocol):
    """Code repair; returns "" when it fails. Raises ``FathomError``."""

    async def mend(self, request_id: str, episode: Episode, code: str, traceback: str) -> str: ...


@dataclass(frozen=True)
class DrawnFigure:
    """Result of a figure block: replacement Markdown, records of its cells, and an error ("" on success)."""

    markdown: str
    records: tuple[Material, ...]
    error: str = ""


@dataclass(frozen=True)
class Figures:
    """Executor of an answer's figure blocks."""

    cell: Cell
    coder: Coder

    async def draw(self, blocks: Sequence[FigureBlock], episode: Episode) -> list[DrawnFigure]:
        """Return one result per block, in order; a failure is a result, never an exception."""
        drawn: list[DrawnFigure] = []
        number = len(episode.material)
        for position, block in enumerate(blocks):
            if position >= MAX_FIGURES:
                drawn.append(
                    DrawnFigure(f"```python\n{block.code}\n```", (), f"an answer has at most {MAX_FIGURES} figures")
                )
                continue
            done = await self._draw_one(block.code, f"{episode.task.run_id}-figure-{position}", number + 1, episode)
            number += len(done.records)
            drawn.append(done)
        return drawn

    async def _draw_one(self, code: str, call_id: str, number: int, episode: Episode) -> DrawnFigure:
        record = await self._run(code, call_id, number, episode)
        records = [Material(number, MaterialKind.CODE, record)]
        if not record.figures:
            mended = await self._request_repair(record, f"{call_id}-repair", episode)
            if mended:
                record = await self._run(mended, f"{call_id}-repaired", number + 1, episode)
                records.append(Material(number + 1, MaterialKind.CODE, record))
        if record.figures:
            return DrawnFigure("\n\n".join(f"{{{{figure:{figure.id}}}}}" for figure in record.figures), tuple(records))
        return DrawnFigure(
            render_fallback(records[-1], code, episode.material), tuple(records), read_last_line(record.traceback)
        )

    async def _run(self, code: str, call_id: str, number: int, episode: Episode) -> CodeRecord:
        """Run a cell and return its record; if it cannot run at all, the traceback holds the reason."""
        # A figure is worth less than the answer, which must still be built and stored.
        left = episode.task.limits.deadline - time.monotonic() - SPARE_S
        try:
            async with asyncio.timeout(max(0.0, left)) as limit:
                made = await self.cell(call_id, {"code": code})
        except TimeoutError:
            if not limit.expired():
                return CodeRecord(id=call_id, code=code, traceback="TimeoutError: the cell did not answer in time")
            return CodeRecord(id=call_id, code=code, traceback="TimeoutError: the time for this run was spent")
        except FathomError as error:
            return CodeRecord(id=call_id, code=code, traceback=f"{type(error).__name__}: {error.message}")
        reply = made if isinstance(made, Reply) else made(number)
        record: CodeRecord = reply.material[0].item
        if reply.status is ToolStatus.OK and not any(map(is_drawing, record.figures)):
            record.traceback = NO_FIGURE
        elif not record.ok and not record.traceback:
            record.traceback = str(reply.head.get("error", "failed"))
        return record

    async def _request_repair(self, record: CodeRecord, request_id: str, episode: Episode) -> str:
        """Request a repair once; return "" when there is none or the code is unchanged."""
        left = episode.task.limits.deadline - time.monotonic() - SPARE_S
        try:
            async with asyncio.timeout(max(0.0, left)):
                mended = await self.coder.mend(request_id, episode, record.code, record.traceback)
        except (FathomError, TimeoutError):
            return ""
        # The same code would fail the same way.
        return "" if mended.strip() == record.code.strip() else mended


def render_fallback(record: Material, code: str, material: Sequence[Material]) -> str:
    """Return an error placeholder and references to the tables that the figure uses."""
    sheets = {item.variable for item in material if item.kind is MaterialKind.SHEET}
    named = [name for name in dict.fromkeys(SHEET.findall(code)) if name in sheets][:2]
    parts = [f"{{{{figure:code_{record.number}}}}}", *(f"{{{{table:{name}}}}}" for name in named)]
    return "\n\n".join(parts)


def read_last_line(traceback: str) -> str:
    """Return the last line of a traceback, which names the error."""
    lines = traceback.strip().splitlines()
    return lines[-1][:300] if lines else "failed"

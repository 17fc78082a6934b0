"""``<figure>`` blocks of an answer: run in the run's own session, repaired once, replaced by a reference (row G04)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.errors import FathomError
from services.planner.answering.parsing import FigureBlock
from services.planner.model import Episode, Kind, Material, ToolState
from services.planner.tools.tool import Numbered, Reply

MAX_FIGURES = 8
SPARE_S = 5.0
"""What of the run's time is kept for the answer itself."""
SHEET = re.compile(r"\bsheet_\d+\b")
NO_FIGURE = "The cell ended without an error but showed no plotly figure: end it with the figure as last expression."


class Cell(Protocol):
    """Runs code in the run's session; the ``python`` tool does. Raises ``FathomError``."""

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply | Numbered: ...


class Coder(Protocol):
    """Mends code; "" when it cannot. Raises ``FathomError``."""

    async def mend(self, request_id: str, episode: Episode, code: str, traceback: str) -> str: ...


@dataclass(frozen=True)
class Drawn:
    """What stands in the place of a block, the records of its cells, and why it failed ("" when it did not)."""

    markdown: str
    records: tuple[Material, ...]
    error: str = ""


@dataclass(frozen=True)
class Figures:
    """Draws the blocks of one answer."""

    cell: Cell
    coder: Coder

    async def draw(self, blocks: Sequence[FigureBlock], episode: Episode) -> list[Drawn]:
        """One result per block, in order; a failure is a result, never an error."""
        drawn: list[Drawn] = []
        number = len(episode.material)
        for position, block in enumerate(blocks):
            if position >= MAX_FIGURES:
                drawn.append(Drawn(f"```python\n{block.code}\n```", (), f"an answer has at most {MAX_FIGURES} figures"))
                continue
            done = await self._one(block.code, f"{episode.task.run_id}-figure-{position}", number + 1, episode)
            number += len(done.records)
            drawn.append(done)
        return drawn

    async def _one(self, code: str, call_id: str, number: int, episode: Episode) -> Drawn:
        record = await self._run(code, call_id, number, episode)
        records = [Material(number, Kind.CODE, record)]
        if not record.figures:
            mended = await self._mended(record, f"{call_id}-repair", episode)
            if mended:
                record = await self._run(mended, f"{call_id}-repaired", number + 1, episode)
                records.append(Material(number + 1, Kind.CODE, record))
        if record.figures:
            return Drawn("\n\n".join(f"{{{{figure:{figure.id}}}}}" for figure in record.figures), tuple(records))
        return Drawn(fallback(records[-1], code, episode.material), tuple(records), last_line(record.traceback))

    async def _run(self, code: str, call_id: str, number: int, episode: Episode) -> CodeRecord:
        """The record of a cell; one that could not run at all has the reason as its traceback."""
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
        record: CodeRecord = reply.findings[0].item
        if reply.status is ToolState.OK and not record.figures:
            record.traceback = NO_FIGURE
        elif not record.ok and not record.traceback:
            record.traceback = str(reply.head.get("error", "failed"))
        return record

    async def _mended(self, record: CodeRecord, request_id: str, episode: Episode) -> str:
        """Better code from the coder, asked once; "" without any, or when it is the same."""
        left = episode.task.limits.deadline - time.monotonic() - SPARE_S
        try:
            async with asyncio.timeout(max(0.0, left)):
                mended = await self.coder.mend(request_id, episode, record.code, record.traceback)
        except (FathomError, TimeoutError):
            return ""
        return "" if mended.strip() == record.code.strip() else mended


def fallback(record: Material, code: str, material: Sequence[Material]) -> str:
    """An error chip and the tables that the figure was to show."""
    sheets = {item.variable for item in material if item.kind is Kind.SHEET}
    named = [name for name in dict.fromkeys(SHEET.findall(code)) if name in sheets][:2]
    parts = [f"{{{{figure:code_{record.number}}}}}", *(f"{{{{table:{name}}}}}" for name in named)]
    return "\n\n".join(parts)


def last_line(traceback: str) -> str:
    """The line of a traceback that says what went wrong."""
    lines = traceback.strip().splitlines()
    return lines[-1][:300] if lines else "failed"

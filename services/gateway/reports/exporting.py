"""Export of a run's answer in each format: what it is written from, and how a browser takes the file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fathom import __version__
from fathom.domain import frames
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.reports.collecting import Collector, require_answer
from fathom.services.gateway.reports.markdown import write_markdown
from fathom.services.gateway.reports.notebook import write_notebook, write_script
from fathom.services.gateway.reports.pdf import write_pdf
from fathom.services.gateway.reports.report import Report, list_sheets
from fathom.services.gateway.reports.slides import write_slides
from fathom.services.gateway.reports.web_page import write_page
from fathom.services.gateway.reports.word import write_word
from fathom.services.gateway.reports.workbook import WorkbookWriter, iterate_rows

OFFICE = "application/vnd.openxmlformats-officedocument"
MEDIA_TYPES = MappingProxyType(
    {
        "md": "text/markdown; charset=utf-8",
        "html": "text/html; charset=utf-8",
        "pdf": "application/pdf",
        "docx": f"{OFFICE}.wordprocessingml.document",
        "pptx": f"{OFFICE}.presentationml.presentation",
        "xlsx": f"{OFFICE}.spreadsheetml.sheet",
        "ipynb": "application/x-ipynb+json",
        "py": "text/x-python; charset=utf-8",
        "json": "application/json",
    }
)
FORMATS = tuple(MEDIA_TYPES)
# Readers of a trace look here first; the fields of its ``run`` are those of GET /v1/runs/{run_id}.
TRACE_FORMAT, TRACE_VERSION = "fathom.trace", 1
# A file is made by one thread and in a few times its size; more at once would take the processors from event streams.
MAX_AT_ONCE = 2


@dataclass(frozen=True)
class Order:
    """Order of a caller: a run in a format, the language of its own words, and pictures of figures by their ids."""

    run_id: str
    format: str
    language: str
    base_url: str
    """Of this gateway, as the caller has reached it."""
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    is_printed: bool = False
    has_parentheses: bool = False
    """Write negative numbers of tables in parentheses."""


@dataclass(frozen=True)
class Exported:
    """A file, with the title to name it by; ``policy`` is the Content-Security-Policy of a page."""

    content: bytes
    media_type: str
    title: str
    policy: str = ""


class Exporter:
    """Makes the files, a few at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._collector = engine, Collector(engine)
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._writers: Mapping[str, Callable[[Order], Awaitable[tuple[bytes, str]]]] = {
            "ipynb": self._write_notebook, "py": self._write_script, "json": self._write_trace,
            "xlsx": self._write_workbook,
        }  # fmt: skip

    async def export(self, order: Order) -> Exported:
        """Return the file; raise ``NotFound``, and ``FailedPrecondition`` for a run without an answer."""
        async with self._places:
            if writer := self._writers.get(order.format):
                content, title = await writer(order)
                return Exported(content, MEDIA_TYPES[order.format], title)
            run = await self._collector.read_run(order.run_id)
            report = await self._collector.collect(
                run, order.language, order.pictures, has_parentheses=order.has_parentheses
            )
            # The writing, up to a second, does not hold up other requests.
            content, policy = await asyncio.to_thread(write_report, report, order)
            return Exported(content, MEDIA_TYPES[order.format], report.question, policy)

    async def _write_trace(self, order: Order) -> tuple[bytes, str]:
        run = await self._engine.get_run(order.run_id)
        return await asyncio.to_thread(write_trace, run), str(run["trajectory"]["question"])

    async def _write_notebook(self, order: Order) -> tuple[bytes, str]:
        run = await self._collector.read_run(order.run_id)
        figures = await self._collector.collect_figures(run, order.pictures)
        content = await asyncio.to_thread(write_notebook, run, order.language, order.base_url, figures)
        return content, run.question

    async def _write_script(self, order: Order) -> tuple[bytes, str]:
        run = await self._collector.read_run(order.run_id)
        return await asyncio.to_thread(write_script, run, order.language, order.base_url), run.question

    async def _write_workbook(self, order: Order) -> tuple[bytes, str]:
        run = require_answer(await self._collector.read_run(order.run_id))
        writer = WorkbookWriter(self._collector.begin(run, order.language), has_parentheses=order.has_parentheses)
        for item in {item.sheet.id: item for item in list_sheets(run)}.values():
            arrow = await self._collector.read_sheet(item.sheet.id)
            if arrow is not None:
                rows = iterate_rows(frames.read_table(arrow, item.sheet.id))
                await asyncio.to_thread(writer.add_table, item.sheet, item.variable, rows)
        return await asyncio.to_thread(writer.save), run.question


def write_report(report: Report, order: Order) -> tuple[bytes, str]:
    """Return a report in a format, and a page's policy."""
    match order.format:
        case "html":
            page, policy = write_page(report, is_printed=order.is_printed)
            return page.encode(), policy
        case "pdf":
            return write_pdf(report), ""
        case "docx":
            return write_word(report), ""
        case "pptx":
            return write_slides(report), ""
        case _:
            return write_markdown(report).encode(), ""


def write_trace(run: Mapping[str, Any]) -> bytes:
    """Return a run, given in the contract's JSON form, as a file for other programs."""
    about = {"format": TRACE_FORMAT, "version": TRACE_VERSION, "written_by": f"fathom {__version__}"}
    text = json.dumps({**about, "run": run}, ensure_ascii=False, indent=1)
    return text.encode("utf-8", errors="replace") + b"\n"

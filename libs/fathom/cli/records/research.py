"""Implementation of ``fathom eval public deep_research_bench``: makes reports, and grades them by their criteria.

Reports and gradings are kept as they are made, so that a stopped call goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer
from pydantic import BaseModel, ConfigDict, ValidationError

import fathom
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.records.public import Draw
from fathom.cli.records.set33 import AT_ONCE, Target
from fathom.clients import Clients, connect
from fathom.clients.runs import run as run_events
from fathom.core.call import Lane
from fathom.core.errors import CorruptData, FathomError
from fathom.core.ids import content_hash
from fathom.domain.journal import Journal
from fathom.domain.text.markup import list_citations
from fathom.operations.evaluation.public.question import PublicItem
from fathom.operations.evaluation.public.report import Scored, keep_first_run
from fathom.operations.evaluation.research.citing import MAX_SOURCE, Report, measure_citations, measure_support
from fathom.operations.evaluation.research.judging import Judge, find_judge
from fathom.operations.evaluation.research.report import (
    Measured,
    format_figures,
    list_figures,
    render_reports,
    select_shares,
)
from fathom.operations.evaluation.research.tasks import REFERENCES, ReportTask, load_tasks

WITHOUT_REFERENCES = (
    f"no reference reports ({REFERENCES}): scores by criteria are the report's own, of 10, and not RACE's share of "
    "report and reference"
)


M = TypeVar("M", bound=BaseModel)


class Grading(BaseModel):
    """Figures of a report by a judge; ``report`` is the hash of what was graded."""

    model_config = ConfigDict(frozen=True)

    item: str
    report: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Found:
    """Reports and gradings by item, the judge, "" for none, notes on how they were made, and what failed."""

    judge: str
    reports: Mapping[str, Report]
    gradings: Mapping[str, Grading]
    notes: tuple[str, ...]
    failed: tuple[str, ...]


def run(target: Target, draw: Draw, output: Path, judge: str) -> int:
    """Make and grade what is missing, print the table and write the page; return the exit status.

    The status is 1 when a report could not be asked for or graded, which the next call does. Without a judge there are
    the figures that need none. Raises ``FathomError``.
    """
    tasks = load_tasks(draw.folder, draw.limit, draw.seed)
    folder = output / draw.name
    found = asyncio.run(make_and_grade(target, tasks, folder, judge))
    for note in found.notes:
        typer.echo(note)
    for reason in found.failed:
        typer.echo(reason, err=True)
    if not found.reports:
        return 1
    measured: Measured = {
        name: measure_citations(report) | dict(found.gradings[name].figures if name in found.gradings else {})
        for name, report in found.reports.items()
    }
    figures = list_figures([task for task in tasks if task.id in measured], measured, draw.seed)
    typer.echo(f"{draw.name}, {target.name}\n{format_figures(figures)}")
    if not found.failed:
        scored = [Scored(make_item(task), found.reports[task.id].answer, measured[task.id]) for task in tasks]
        journal, shares = Journal(output / "first_runs.jsonl"), select_shares(figures)
        # What one judge has graded, or none, is no first run for another.
        name = f"{target.name}, judge {found.judge or 'none'}"
        typer.echo(keep_first_run(journal, draw.name, name, fathom.__version__, scored, shares))
    page = folder / f"{target.name}.html"
    title = f"{draw.name}, {target.name}"
    page.write_text(render_reports(title, found.notes, tasks, found.reports, measured, figures), encoding="utf-8")
    typer.echo(f"{page}: the report; reports and gradings beside it")
    return int(bool(found.failed))


def make_item(task: ReportTask) -> PublicItem:
    """Return a task as an item of the record of first runs."""
    return PublicItem(task.id, task.prompt, (), task.language, (), lambda _: {})


async def make_and_grade(target: Target, tasks: Sequence[ReportTask], folder: Path, name: str) -> Found:
    """Return the reports of the tasks, and their gradings by the model or role ``name``."""
    clients = connect(dict(target.endpoints), lane=Lane.EVALUATION)
    try:
        reports, failed = await make_reports(clients, target.model, tasks, Journal(folder / f"{target.name}.jsonl"))
        judge = await find_judge(clients, name)
        if isinstance(judge, str):
            note = f"no judge ({judge}): printed is only what needs none; --judge names a language model"
            return Found("", reports, {}, (note,), tuple(failed))
        journal = Journal(folder / f"{target.name}.by.{judge.model.replace('/', '_')}.jsonl")
        gradings, refused = await grade_reports(judge, tasks, reports, journal)
    finally:
        await clients.close()
    notes = [f"judge: {judge.model}"]
    if not all(task.reference for task in tasks):
        notes.append(WITHOUT_REFERENCES)
    return Found(judge.model, reports, gradings, tuple(notes), (*failed, *refused))


async def make_reports(
    clients: Clients, model: str, tasks: Sequence[ReportTask], journal: Journal
) -> tuple[dict[str, Report], list[str]]:
    """Return the reports by task, those of the journal among them, and why some could not be asked for."""
    known, gate, failed = {row.item: row for row in read_rows(journal, Report)}, asyncio.Semaphore(AT_ONCE), list[str]()

    async def make(task: ReportTask) -> None:
        async with gate:
            try:
                report = await make_report(clients, model, task)
            except FathomError as error:
                # The others are made all the same: each may take many minutes.
                failed.append(f"not asked: {task.id}: {error.message}")
                return
            journal.append([report.model_dump(mode="json")])
            known[task.id] = report

    await asyncio.gather(*(make(task) for task in tasks if task.id not in known))
    return {task.id: known[task.id] for task in tasks if task.id in known}, failed


async def make_report(clients: Clients, model: str, task: ReportTask) -> Report:
    """Ask the agent for the report of a task; raise ``FathomError``."""
    request = pb.RunRequest(question=task.prompt, model=model)
    events = [event async for event in run_events(clients, request)]
    finished = events[-1].finished
    if finished.stop_reason != trajectory.STOP_REASON_FINISHED:
        fault = finished.error or trajectory.StopReason.Name(finished.stop_reason)
        return Report(item=task.id, question=task.prompt, answer="", fault=fault, sources={}, unresolved=())
    answer = finished.answer
    given = {item.number: item for item in (*finished.material, *answer.material) if not item.HasField("missing")}
    cited = list_citations(answer.markdown) | set(answer.cited)
    return Report(
        item=task.id,
        question=task.prompt,
        answer=answer.markdown,
        fault="",
        sources={number: read_source(given[number]) for number in sorted(cited & set(given))},
        # The planner removes citations of nothing from the text, and says which they were.
        unresolved=tuple(sorted((cited - set(given)) | set(answer.unresolved))),
    )


def read_source(item: trajectory.Material) -> str:
    """Return a source as a judge reads it: a passage, a table's digest, or a calculation with its result."""
    if item.HasField("passage"):
        text = f"{item.passage.title}\n{item.passage.text}"
    elif item.HasField("sheet"):
        text = f"{item.sheet.title}\n{item.sheet.digest}"
    else:
        text = "\n".join((item.code.code, item.code.stdout, item.code.result, item.code.traceback))
    return text.strip()[:MAX_SOURCE]


async def grade_reports(
    judge: Judge, tasks: Sequence[ReportTask], reports: Mapping[str, Report], journal: Journal
) -> tuple[dict[str, Grading], list[str]]:
    """Return the gradings by task, those of the journal among them, and why some reports were not graded."""
    hashes = {name: content_hash(report.answer) for name, report in reports.items() if not report.fault}
    known = {row.item: row for row in read_rows(journal, Grading) if hashes.get(row.item) == row.report}
    gate, failed = asyncio.Semaphore(AT_ONCE), list[str]()

    async def grade(task: ReportTask) -> None:
        async with gate:
            try:
                figures = await judge.score_criteria(task, reports[task.id])
                figures |= measure_support(await judge.check_citations(reports[task.id]))
            except FathomError as error:
                failed.append(f"not graded: {task.id}: {error.message}")
                return
            known[task.id] = Grading(item=task.id, report=hashes[task.id], figures=figures)
            journal.append([known[task.id].model_dump(mode="json")])

    await asyncio.gather(*(grade(task) for task in tasks if task.id in hashes and task.id not in known))
    return known, failed


def read_rows(journal: Journal, schema: type[M]) -> list[M]:
    """Return the rows of a journal; raise ``CorruptData`` for one that is none of the schema."""
    found = []
    for number, row in enumerate(journal.read(), 1):
        try:
            found.append(schema.model_validate(row))
        except ValidationError as error:
            raise CorruptData(f"{journal.path}:{number}", f"is no {schema.__name__.lower()}: {error}") from error
    return found

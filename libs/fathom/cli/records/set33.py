"""Implementation of ``fathom eval set33``: asks the questions, scores the answers, writes them for the ranking."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.records.ranking import Files
from fathom.cli.records.ranking import run as rank_answers
from fathom.cli.uploads.sending import Uploaded, upload_files
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.clients.runs import run as run_events
from fathom.core.call import Lane
from fathom.core.errors import CorruptData, FathomError
from fathom.domain.journal import Journal
from fathom.operations.evaluation.items import DOCUMENTS, Item, choose_items, find_set, load_items
from fathom.operations.evaluation.page import render_scores
from fathom.operations.evaluation.references import ReferenceData, check_items
from fathom.operations.evaluation.scoring import Answer, Score, format_lines, score_answer, summarise_scores
from fathom.operations.ranking.answers import REFERENCE
from fathom.operations.ranking.judging import Rule

# A question needs a planner's place and a sandbox; two fill the processors of a small machine.
AT_ONCE = 2


@dataclass(frozen=True)
class Target:
    """Target of the questions: a stack's endpoints and gateway, and the model, "" for the stack's own."""

    endpoints: Mapping[str, str]
    gateway: str
    model: str = ""

    @property
    def name(self) -> str:
        """Return the name under which the answers are kept."""
        return (self.model or "default").replace("/", "_")


def run(target: Target, wanted: Sequence[str], output: Path, method: str, seed: int) -> int:
    """Ask what was not asked before, print the table, write report and answers, and rank them; return the status.

    The status is 1 when a question has no answer, which the next call asks again. ``method`` "" ranks nothing. Raises
    ``FathomError``.
    """
    rule = Rule(method) if method else None
    items = choose_items(load_items(), list(wanted))
    journal = Journal(output / "answers" / f"{target.name}.jsonl")
    failed = asyncio.run(ask_items(target, items, journal))
    answers = read_answers(journal)
    scores = [score_answer(item, answers[item.id]) for item in items if item.id in answers]
    for reason in failed:
        typer.echo(f"no answer: {reason}", err=True)
    if not scores:
        return 1
    write_references(output / "answers" / f"{REFERENCE}.jsonl", items)
    report(f"{target.name}: the 33 questions", scores, output / f"{target.name}.html", seed)
    if rule is not None:
        contestants = [str(path) for path in sorted((output / "answers").glob("*.jsonl"))]
        ranked = Files(output / "matches.jsonl", output / "ranking.html")
        return max(bool(failed), rank_answers(contestants, rule, ranked, seed, target.endpoints))
    return int(bool(failed))


def report(title: str, scores: Sequence[Score], page: Path, seed: int) -> None:
    """Print the table and write the page."""
    lines = summarise_scores(scores, seed)
    typer.echo(format_lines(lines))
    page.write_text(render_scores(title, lines, scores), encoding="utf-8")
    typer.echo(f"{page}: the report; {page.parent / 'answers'}: answers and references, for `fathom eval rank`")


async def ask_items(target: Target, items: Sequence[Item], journal: Journal) -> list[str]:
    """Ask the items that the journal has no answer to, some at a time; return why some have none."""
    known, gate, failed = read_answers(journal), asyncio.Semaphore(AT_ONCE), list[str]()
    clients = connect(dict(target.endpoints), lane=Lane.EVALUATION)

    async def ask(item: Item) -> None:
        async with gate:
            try:
                answer = await ask_item(clients, target, item)
            except FathomError as error:
                # The others are asked all the same: an evaluation may take hours.
                failed.append(f"{item.id}: {error.message}")
                return
            journal.append([{"question": item.question, "answer": answer.text, **asdict(answer)}])

    try:
        await asyncio.gather(*(ask(item) for item in items if item.id not in known))
    finally:
        await clients.close()
    return failed


async def ask_item(clients: Clients, target: Target, item: Item) -> Answer:
    """Ask one question, with its attachments sent before; raise ``FathomError``."""
    files = [find_set() / DOCUMENTS / name for name in item.attachments]
    # A thread: the upload is a plain HTTP call, and other questions are being answered meanwhile.
    own = await asyncio.to_thread(upload_files, target.gateway, files, ignore_note) if files else Uploaded()
    request = pb.RunRequest(
        question=item.question,
        model=target.model,
        table_ids=own.table_ids,
        corpora=[own.corpus] if own.corpus else [],
    )
    events = [event async for event in run_events(clients, request)]
    finished = events[-1].finished
    unsupported = sum(one.kind == trajectory.FINDING_KIND_UNSUPPORTED for one in finished.answer.findings)
    is_finished = finished.stop_reason == trajectory.STOP_REASON_FINISHED
    return Answer(item.id, finished.answer.markdown, unsupported, is_finished)


def ignore_note(_: str) -> None:
    """Ignore what an upload notes of a file: the set's own files are checked by its tests."""


def read_answers(journal: Journal) -> dict[str, Answer]:
    """Return the answers of a journal by item; raise ``CorruptData`` for a row that is none."""
    answers = {}
    for number, row in enumerate(journal.read(), 1):
        try:
            answers[row["item"]] = Answer(row["item"], row["text"], row["unsupported"], row["is_finished"])
        except KeyError as error:
            raise CorruptData(f"{journal.path}:{number}", f"has no {error}") from error
    return answers


def write_references(path: Path, items: Sequence[Item]) -> None:
    """Write the references as a contestant of the ranking."""
    rows = [{"question": item.question, "answer": item.reference} for item in items]
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


def check(home: Path) -> int:
    """Compute every number of the references anew, print what differs, and return the exit status."""
    items, data = load_items(), ReferenceData(home)
    try:
        problems = check_items(items, data)
    finally:
        data.close()
    for problem in problems:
        typer.echo(f"{problem.item}: {problem.text}", err=True)
    figures = sum(len(item.figures) for item in items)
    typer.echo(f"{len(items)} items, {figures} figures computed or quoted anew, {len(problems)} problems")
    return int(bool(problems))


def find_target(home: Path, planner: str, reward: str, gateway: str, model: str) -> Target:
    """Return the given endpoints, by default those of the local stack."""
    if planner:
        return Target({"planner": planner, "reward": reward}, gateway, model)
    local = read_endpoints(home)
    return Target(dict(local.services), gateway or local.gateway, model)

"""Implementation of ``fathom eval public``: asks the questions of a public set, and scores as its authors do."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

import fathom
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.cli.records.set33 import AT_ONCE, Target, ignore_note
from fathom.cli.uploads.sending import upload_files
from fathom.clients import Clients, connect
from fathom.clients.completions import read_completion
from fathom.clients.runs import run as run_events
from fathom.core.call import Lane
from fathom.core.errors import CorruptData, FathomError
from fathom.core.ids import new_id
from fathom.domain.journal import Journal
from fathom.operations.evaluation.public.items import find_set, load_items, load_passages
from fathom.operations.evaluation.public.question import PublicItem
from fathom.operations.evaluation.public.report import (
    format_means,
    keep_first_run,
    list_means,
    render_report,
    score_answers,
)

# Of a model that writes on without end; the longest statement of the sets has a third of it.
STATEMENT_TOKENS, STATEMENT_S = 512, 600.0


@dataclass(frozen=True)
class Draw:
    """Sample of a set: its name, the folder of all sets, the most items, and the seed of draw and intervals."""

    name: str
    folder: Path
    limit: int
    seed: int = 0


def run(target: Target, draw: Draw, output: Path) -> int:
    """Ask what was not asked before, print the table and write the report; return the exit status.

    The status is 1 when a question could not be asked, which the next call does; a run that ends without an answer is
    a wrong answer. Raises ``FathomError``.
    """
    items = load_items(draw.name, draw.folder, draw.limit, draw.seed)
    passages = load_passages(draw.name, draw.folder, items)
    journal = Journal(output / draw.name / f"{target.name}.jsonl")
    failed = asyncio.run(ask_items(target, items, passages, journal))
    for reason in failed:
        typer.echo(f"not asked: {reason}", err=True)
    scored = score_answers(items, read_answers(journal))
    if not scored:
        return 1
    means, metric = list_means(scored, draw.seed), find_set(draw.name).metric
    typer.echo(f"{draw.name}, {target.name}: {metric}\n{format_means(means)}")
    for fault, count in Counter(one.fault for one in scored if one.fault).most_common():
        typer.echo(f"without an answer: {count} ({fault})")
    # A part of a sample is no run: its figures would stand as the first ones.
    if not failed:
        typer.echo(
            keep_first_run(
                Journal(output / "first_runs.jsonl"), draw.name, target.name, fathom.__version__, scored, means
            )
        )
    page = output / draw.name / f"{target.name}.html"
    page.write_text(render_report(f"{draw.name}, {target.name}", metric, means, scored), encoding="utf-8")
    typer.echo(f"{page}: the report; answers beside it")
    return int(bool(failed))


async def ask_items(
    target: Target, items: Sequence[PublicItem], passages: Mapping[str, str], journal: Journal
) -> list[str]:
    """Ask the items that the journal has no answer to, some at a time; return why some could not be asked."""
    known, gate, failed = read_answers(journal), asyncio.Semaphore(AT_ONCE), list[str]()
    clients = connect(dict(target.endpoints), lane=Lane.EVALUATION)

    async def ask(item: PublicItem) -> None:
        async with gate:
            try:
                corpora = await send_passages(target, [passages[ident] for ident in item.passages if passages])
                if item.prompt:
                    answer, fault = await write_statement(clients, target.model, item), ""
                else:
                    answer, fault = await ask_item(clients, target.model, item, corpora)
            except FathomError as error:
                # The others are asked all the same: an evaluation may take hours.
                failed.append(f"{item.id}: {error.message}")
                return
            journal.append([{"item": item.id, "question": item.question, "answer": answer, "fault": fault}])

    try:
        await asyncio.gather(*(ask(item) for item in items if item.id not in known))
    finally:
        await clients.close()
    return failed


async def send_passages(target: Target, texts: Sequence[str]) -> list[str]:
    """Send the passages of a question as documents, and return the corpus of them alone; [] without any."""
    if not texts:
        return []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"passage_{number}.txt" for number in range(1, len(texts) + 1)]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text, encoding="utf-8")
        # A thread: the upload is a plain HTTP call, and other questions are being answered meanwhile.
        uploaded = await asyncio.to_thread(upload_files, target.gateway, files, ignore_note)
    return [uploaded.corpus]


async def ask_item(clients: Clients, model: str, item: PublicItem, corpora: Sequence[str]) -> tuple[str, str]:
    """Return the short answer to a question, or why the run ended without one; raise ``FathomError``.

    Asked in Search-R1's tags, whose answer is a name, a date or a number and no report with citations.
    """
    request = pb.RunRequest(
        question=item.question, model=model, protocol=trajectory.PROTOCOL_SEARCH_R1, corpora=corpora
    )
    events = [event async for event in run_events(clients, request)]
    finished = events[-1].finished
    if finished.stop_reason != trajectory.STOP_REASON_FINISHED:
        return "", finished.error or trajectory.StopReason.Name(finished.stop_reason)
    return finished.answer.markdown.strip(), ""


async def write_statement(clients: Clients, model: str, item: PublicItem) -> str:
    """Return what the model replies to the question with its tables; raise ``FathomError``.

    The model itself is asked, since no tool of the agent runs SQL over other tables than its own.
    """
    request = policy.GenerateRequest(
        request_id=new_id("statement"),
        model=model,
        messages=[policy.Message(role=policy.ROLE_USER, content=item.prompt)],
        sampling=policy.Sampling(max_tokens=STATEMENT_TOKENS),
        without_deltas=True,
    )
    return await read_completion(clients, request, lambda completion: completion.text.strip(), timeout_s=STATEMENT_S)


def read_answers(journal: Journal) -> dict[str, tuple[str, str]]:
    """Return answer and fault by item; raise ``CorruptData`` for a row that is none."""
    found = {}
    for number, row in enumerate(journal.read(), 1):
        if not all(isinstance(row.get(key), str) for key in ("item", "answer", "fault")):
            raise CorruptData(f"{journal.path}:{number}", "has no item, answer and fault")
        found[row["item"]] = (row["answer"], row["fault"])
    return found

"""Implementation of ``fathom review``: files and runs to queues, and decisions to files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.cli.records.feedback import has_consent, make_request, read_judgements, run_with_clients
from fathom.clients import Clients
from fathom.core.call import Lane
from fathom.core.errors import InvalidField
from fathom.trainers.commands.left_out import say_left_out
from fathom.trainers.commands.reviews.deciding import Terminal, decide_all
from fathom.trainers.commands.reviews.queues import KINDS, find_kind, read_decisions, send_items
from fathom.trainers.data.reviews.candidates import (
    Candidate,
    find_disliked,
    find_failed,
    make_pair,
    propose_again,
    read_candidates,
)
from fathom.trainers.data.reviews.comparisons import list_grades, list_rechecks, make_comparisons
from fathom.trainers.data.reviews.stage_rows import STAGES, list_decisions, make_stage_items

NO_CONSENT = "its user has not consented to training"


@dataclass(frozen=True)
class Draw:
    """Pairs of a comparison: judged ``matches``, and how many are drawn by which seed."""

    matches: Path | None = None
    limit: int = 30
    seed: int = 0


def add_files(files: Sequence[str], kind_name: str, draw: Draw, tenant: str, home: Path) -> None:
    """Send the items of files; print how many were added. Raises ``InvalidField`` and ``CorruptData`` before that."""
    left_out = Counter[str]()
    items = read_items(files, kind_name, draw, left_out)

    async def work(clients: Clients) -> None:
        added, known = await send_items(clients, items)
        say_counts(f"{kind_name}: {added:,} added, {known:,} were there", left_out)

    run_with_clients(home, tenant, work)


def read_items(files: Sequence[str], kind_name: str, draw: Draw, left_out: Counter[str]) -> list[pb.NewReviewItem]:
    """Return the items that files have for a queue; raise ``InvalidField``."""
    kind = find_kind(kind_name)
    if kind == pb.REVIEW_KIND_COMPARISON:
        return make_comparisons(files, draw.matches, draw.limit, draw.seed)
    if draw.matches is not None:
        raise InvalidField("matches", "goes with comparison alone")
    if kind in STAGES:
        return [item for file in files for item in make_stage_items(Path(file), kind, left_out)]
    if kind == pb.REVIEW_KIND_CANDIDATE:
        return [item for file in files for item in read_candidates(Path(file), left_out)]
    raise InvalidField("kind", "rechecks follow from grades that are apart, and are not added")


def collect_candidates(since: datetime | None, limit: int, tenant: str, home: Path, *, is_played_again: bool) -> None:
    """Send the answers that failed, of users who consented; print how many were added."""

    async def work(clients: Clients) -> None:
        left_out = Counter[str]()
        candidates = await find_candidates(clients, since, limit, left_out)
        if is_played_again:
            candidates = [await complete(clients, one) for one in candidates]
        added, known = await send_items(clients, [one.to_item() for one in candidates])
        say_counts(f"candidate: {added:,} added, {known:,} were there", left_out)

    # Questions that are asked again wait behind those of people.
    run_with_clients(home, tenant, work, Lane.EVALUATION)


async def find_candidates(
    clients: Clients, since: datetime | None, limit: int, left_out: Counter[str]
) -> list[Candidate]:
    """Return one candidate per run: of what its user said of the answer, else of what the checks found."""
    asked = make_request(None, "", "", since, edited=False)
    # The user's word comes before the checks': it may bring a better answer.
    found = {one.run_id: one for one in find_disliked([item async for item in read_judgements(clients, asked)])}
    async for one in find_failed(clients, limit):
        found.setdefault(one.run_id, one)
    allowed = []
    for one in found.values():
        # Asked before an answer is shown to a reviewer, and again when a pair is exported: it may be taken back.
        if await has_consent(clients, one.run_id):
            allowed.append(one)
        else:
            left_out[NO_CONSENT] += 1
    return allowed


async def complete(clients: Clients, candidate: Candidate) -> Candidate:
    """Return a candidate with a new answer where nobody has proposed one."""
    if candidate.proposed:
        return candidate
    proposed, model = await propose_again(clients, candidate)
    return replace(candidate, proposed=proposed, proposed_by=model)


def show_queues(tenant: str, home: Path) -> None:
    """Print the counts of each queue."""

    async def work(clients: Clients) -> None:
        names = {kind: name for name, kind in KINDS.items()}
        found = await clients.memory.list_review_queues(pb.ListReviewQueuesRequest())
        typer.echo(f"{'queue':<15}{'open':>8}{'decided':>9}")
        for one in found.queues:
            typer.echo(f"{names[one.kind]:<15}{one.open:>8,}{one.decided:>9,}")

    run_with_clients(home, tenant, work)


def decide_in_terminal(kind_name: str, tenant: str, home: Path) -> None:
    """Let a person decide on the items of a queue; print how many were decided."""
    from fathom.trainers.commands.stage_reviews import edit_text

    kind = find_kind(kind_name)

    def ask(prompt: str) -> str:
        return str(typer.prompt(prompt, default="", show_default=False))

    async def work(clients: Clients) -> None:
        count = await decide_all(clients, kind, Terminal(ask, edit_text, typer.echo))
        typer.echo(f"{kind_name}: {count:,} decided now")

    run_with_clients(home, tenant, work)


def export_decisions(kind_name: str, output: Path, source: str, tenant: str, home: Path) -> None:
    """Write the decisions of a queue; exit with status 1, and without a file, when there is none to write."""
    kind = find_kind(kind_name)
    if source and kind not in STAGES:
        raise InvalidField("source", "goes with rewriting and hallucination alone")

    rows, left_out = list[Mapping[str, Any]](), Counter[str]()

    async def work(clients: Clients) -> None:
        rows.extend(await list_rows(clients, kind, Path(source).name if source else "", left_out))

    run_with_clients(home, tenant, work)
    # An empty file would be taken for a finished review by whatever reads it next.
    if rows:
        output.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    say_counts(f"{output}: {len(rows):,} rows" if rows else "nothing to export, and nothing was written", left_out)
    if not rows:
        raise typer.Exit(1)


async def list_rows(
    clients: Clients, kind: pb.ReviewKind, source: str, left_out: Counter[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a queue's decisions."""
    items = [item async for item in read_decisions(clients, kind)]
    if kind == pb.REVIEW_KIND_RECHECK:
        return list_rechecks(items)
    if kind == pb.REVIEW_KIND_COMPARISON:
        # Rechecks decide which of two grades counts, and are read with the comparisons.
        rechecks = [item async for item in read_decisions(clients, pb.REVIEW_KIND_RECHECK)]
        return list_grades(items, rechecks, left_out)
    if kind in STAGES:
        return list_decisions(items, source, left_out)
    rows = []
    for item in items:
        pair = make_pair(item)
        if pair is None:
            left_out["a reviewer has rejected it"] += 1
        elif item.run_id and not await has_consent(clients, item.run_id):
            left_out[NO_CONSENT] += 1
        else:
            rows.append(pair)
    return rows


def say_counts(line: str, left_out: Counter[str]) -> None:
    """Print what was done, and what was left out for which reason."""
    typer.echo(line)
    say_left_out(left_out)

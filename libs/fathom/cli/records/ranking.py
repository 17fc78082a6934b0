"""Implementation of ``fathom eval rank``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from fathom.clients import connect
from fathom.clients.local import read_endpoints
from fathom.core.call import Lane
from fathom.operations.ranking.agreement import Compared, compare, measure_agreement, read_human
from fathom.operations.ranking.answers import read_contestants
from fathom.operations.ranking.judging import Round, Rule, judge_all
from fathom.operations.ranking.matches import MatchJournal, Pairing, pair_all
from fathom.operations.ranking.page import describe_agreement, render_page
from fathom.operations.ranking.strengths import Standing, rank


@dataclass(frozen=True)
class Files:
    """Files of a ranking: matches as they are judged, the page, people's grades, and what they look at again."""

    matches: Path
    page: Path
    human: Path | None = None
    review: Path | None = None


def run(sources: Sequence[str], rule: Rule, files: Files, seed: int, endpoints: Mapping[str, str]) -> int:
    """Judge what is not judged yet, print the ranking and write the page; return the exit status.

    It is 1 when no match was judged. Raises ``FathomError``.
    """
    # Before the judge is asked: a mistake in a file must not cost a round of judgements.
    human = read_human(files.human) if files.human else {}
    contestants = read_contestants(sources)
    done = asyncio.run(judge_pairings(pair_all(contestants), rule, files.matches, endpoints))
    for reason, count in sorted(done.failed.items()):
        typer.echo(f"not judged: {count} ({reason})", err=True)
    if not done.matches:
        typer.echo("no match was judged, and nothing was written", err=True)
        return 1
    judges = sorted({match.judge for match in done.matches if match.judge})
    if len(judges) > 1:
        typer.echo(f"matches of several judges are counted together: {', '.join(judges)}", err=True)
    standings = rank(done.matches, seed=seed)
    typer.echo(format_standings(standings))
    compared = compare(done.matches, human)
    agreement = measure_agreement(compared) if files.human else None
    if agreement is not None:
        typer.echo(describe_agreement(agreement))
    if files.review is not None:
        write_review(files.review, compared)
    title = f"{len(standings)} contestants, {len(done.matches):,} matches, {rule.method}"
    files.page.write_text(render_page(title, standings, done.matches, compared, agreement), encoding="utf-8")
    typer.echo(f"{files.page}: the report; {files.matches}: each match with grade and reason")
    return 0


async def judge_pairings(pairings: Sequence[Pairing], rule: Rule, journal: Path, endpoints: Mapping[str, str]) -> Round:
    """Judge the pairings in the lane of evaluations."""
    clients = connect(dict(endpoints), lane=Lane.EVALUATION)
    try:
        return await judge_all(clients, pairings, rule, MatchJournal(journal))
    finally:
        await clients.close()


def find_endpoints(home: Path, reward: str) -> dict[str, str]:
    """Return the reward service's URL, by default that of the local stack."""
    return {"reward": reward} if reward else dict(read_endpoints(home).services)


def format_standings(standings: Sequence[Standing]) -> str:
    """Format the table of strengths with their intervals."""
    width = max(12, *(len(one.name) + 2 for one in standings))
    lines = [f"{'contestant':<{width}}{'strength':>9}{'95 %':>16}{'wins':>7}{'ties':>7}{'losses':>8}{'points':>9}"]
    for one in standings:
        interval = f"{one.low:.0f} to {one.high:.0f}"
        lines.append(
            f"{one.name:<{width}}{one.strength:>9.0f}{interval:>16}{one.wins:>7}{one.ties:>7}{one.losses:>8}"
            f"{one.share:>9.1%}"
        )
    return "\n".join(lines)


def write_review(target: Path, compared: Sequence[Compared]) -> None:
    """Write the matches that a person looks at again, with both grades and the judge's reason, and print how many."""
    rows = [{**asdict(one.match), "human": one.human} for one in compared if one.is_apart]
    target.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    typer.echo(f"{target}: {len(rows)} matches to look at again, graded two apart or more")

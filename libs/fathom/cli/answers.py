"""Implementation of ``fathom eval answers``: grades a sample of past runs as in training.

The reward service counts every grade under the lane ``evaluation`` (``fathom_reward_value``). For continuous grading of
a deployment see ``fathom eval watch`` (``fathom.operations.monitoring``).
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.core.call import Lane
from fathom.domain.intervals import bootstrap_mean
from fathom.operations.evaluation.page import render_shares
from fathom.operations.monitoring.grades import Draw, Row, Ungraded, check_known, grade, read_references
from fathom.operations.ranking.page import render_table

PAGE = 100


@dataclass(frozen=True)
class Sample(Draw):
    """Sampling of the newest runs, at most ``limit`` of them."""

    limit: int = 50


async def grade_sample(
    clients: Clients, graders: Sequence[str], sample: Sample, references: Mapping[str, Sequence[str]]
) -> tuple[list[Row], list[Ungraded]]:
    """Grade the sampled runs that have ended, newest first; return grades and those that could not be computed.

    Graders of cells grade each cell; one that needs a reference grades runs whose question has one. Raises
    ``FathomError``.
    """
    await check_known(clients, graders)
    rows: list[Row] = []
    ungraded: list[Ungraded] = []
    for run_id in await list_ended_runs(clients, sample):
        episode = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory
        for grader in graders:
            found, lacking = await grade(clients, episode, grader, references.get(episode.question.strip(), ()))
            rows += found
            ungraded += lacking
    return rows, ungraded


async def list_ended_runs(clients: Clients, sample: Sample) -> list[str]:
    """Return the ids of sampled runs that have ended, from at most ``limit`` of the newest runs."""
    found, token, looked = list[str](), "", 0
    while looked < sample.limit:
        request = pb.ListRunsRequest(page_size=min(PAGE, sample.limit - looked), page_token=token)
        page = await clients.planner.list_runs(request)
        looked += len(page.runs)
        # A delegated run answers its parent's question, not a user's.
        asked = [run for run in page.runs if not run.parent_run_id]
        over = [run.run_id for run in asked if run.stop_reason != trajectory.STOP_REASON_UNSPECIFIED]
        found += [run_id for run_id in over if sample.takes(run_id)]
        token = page.next_page_token
        if not token:
            break
    return found


@dataclass(frozen=True)
class Mean:
    """Mean grade by one grader, with its 95 % interval of a bootstrap over runs: cells of one are no independent
    evidence.
    """

    grader: str
    runs: int
    values: Sequence[float]
    """All grades, in ascending order."""
    low: float
    high: float

    @property
    def mean(self) -> float:
        """Return the mean of all grades."""
        return sum(self.values) / len(self.values)


def list_means(rows: Sequence[Row], seed: int = 0) -> list[Mean]:
    """Return the means by grader, in the order of their names."""
    by_grader: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_grader[row.grader][row.run_id].append(row.value)
    return [
        Mean(
            grader, len(by_run), sorted(value for values in by_run.values() for value in values),
            *bootstrap_mean(list(by_run.values()), seed=seed),
        )
        for grader, by_run in sorted(by_grader.items())
    ]  # fmt: skip


def format_table(means: Sequence[Mean]) -> str:
    """Format per grader: number of runs and grades, mean with its interval, 10th percentile, grades at 0 or below."""
    lines = [f"{'grader':<18}{'runs':>7}{'grades':>8}{'mean':>8}{'95 %':>16}{'p10':>8}{'at 0':>8}"]
    for one in means:
        count, zero = len(one.values), sum(value <= 0 for value in one.values)
        lines.append(
            f"{one.grader:<18}{one.runs:>7}{count:>8}{one.mean:>8.3f}{f'{one.low:.3f} to {one.high:.3f}':>16}"
            f"{one.values[count // 10]:>8.3f}{zero:>8}"
        )
    return "\n".join(lines)


def render_grades(means: Sequence[Mean], ungraded: Sequence[Ungraded]) -> str:
    """Return the report as HTML: means drawn with their intervals, the table, and what could not be graded.

    Graders whose grades leave the range of 0 to 1 stand in the table alone.
    """
    drawn = [one for one in means if one.values[0] >= 0 and one.values[-1] <= 1]
    shares = [(one.grader, one.mean, one.low, one.high) for one in drawn]
    lacking = Counter((one.grader, one.reason) for one in ungraded)
    table = render_table(
        ["grader", "not graded", "reason"],
        [[grader, str(count), reason] for (grader, reason), count in sorted(lacking.items())],
    )
    return render_shares(
        "Grades of past answers", "Mean grades with 95 % intervals", shares, format_table(means), table
    )


def run(
    home: Path, endpoints: Mapping[str, str], graders: Sequence[str], sample: Sample, references: Path | None,
    json_lines: bool, page: Path | None = None,
) -> None:  # fmt: skip
    """Print the table, or one line per grade; report missing grades on stderr; write the page where one is named."""

    async def work() -> tuple[list[Row], list[Ungraded]]:
        services = dict(endpoints) or dict(read_endpoints(home).services)
        clients = connect(services, lane=Lane.EVALUATION)
        try:
            return await grade_sample(clients, graders, sample, read_references(references))
        finally:
            await clients.close()

    rows, ungraded = asyncio.run(work())
    # The intervals are drawn once, and not at all where neither table nor page has them.
    means = list_means(rows, sample.seed) if page is not None or not json_lines else []
    for line in [row.to_json() for row in rows] if json_lines else [format_table(means)]:
        typer.echo(line)
    for (grader, reason), count in sorted(Counter((one.grader, one.reason) for one in ungraded).items()):
        typer.echo(f"{grader}: {count} not graded ({reason})", err=True)
    if page is not None:
        page.write_text(render_grades(means, ungraded), encoding="utf-8")

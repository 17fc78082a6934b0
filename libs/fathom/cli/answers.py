"""The work of ``fathom eval answers``: a sample of production's runs, graded as in training.

Reward counts every grade under the lane ``evaluation`` (``fathom_reward_value``), so that Prometheus shows what is
printed here; with ``every_s`` new runs are graded as they come.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.call import Lane
from fathom.cli.local import read_endpoints
from fathom.clients import Clients, connect
from fathom.errors import InvalidField
from fathom.grading.episodes import answer_item, cell_items

CELL_GRADERS = frozenset({"code", "code_style", "code_length", "code_execution", "code_run"})
PAGE, BATCH = 100, 256


@dataclass(frozen=True)
class Sample:
    """Which runs: at most ``limit`` newest, each with probability ``share``, drawn by ``seed`` and the run's id."""

    limit: int = 50
    share: float = 1.0
    seed: int = 0

    def takes(self, run_id: str) -> bool:
        """The same for the same run, whenever it is asked."""
        return random.Random(f"{self.seed}:{run_id}").random() < self.share


@dataclass(frozen=True)
class Row:
    """One grade of one run; ``position`` is the cell's for graders of cells."""

    run_id: str
    grader: str
    value: float
    reason: str
    position: int = 0

    def to_json(self) -> str:
        return json.dumps(self.__dict__, ensure_ascii=False)


def read_references(path: Path | None) -> dict[str, list[str]]:
    """References by question from JSON lines ``{"question": …, "references": […]}``; raises ``InvalidField``."""
    if path is None:
        return {}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                entry = json.loads(line)
                found[str(entry["question"]).strip()] = [str(one) for one in entry["references"]]
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidField("references", f"line {number} has no question with references: {error}") from error
    return found


async def graded(
    clients: Clients,
    graders: Sequence[str],
    sample: Sample,
    references: Mapping[str, Sequence[str]],
    seen: set[str] | None = None,
) -> list[Row]:
    """Grades of the sampled runs that have ended, newest first; those in ``seen`` are left out and new ones added.

    Graders of cells grade each cell; one that needs a reference grades runs whose question has one. Raises
    ``FathomError``.
    """
    seen = set() if seen is None else seen
    known = {grader.name for grader in (await clients.reward.list_graders(reward.ListGradersRequest())).graders}
    unknown = [name for name in graders if name not in known]
    if unknown:
        raise InvalidField("grader", f"{unknown[0]!r} is none of {', '.join(sorted(known))}")
    rows = []
    for run_id in await ended(clients, sample, seen):
        episode = (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory
        rows += await of_episode(clients, episode, graders, references.get(episode.question.strip(), ()))
        seen.add(run_id)
    return rows


async def ended(clients: Clients, sample: Sample, seen: set[str]) -> list[str]:
    """Ids of sampled runs that have ended, at most ``limit`` of the newest runs."""
    found, token, looked = list[str](), "", 0
    while looked < sample.limit:
        request = pb.ListRunsRequest(page_size=min(PAGE, sample.limit - looked), page_token=token)
        page = await clients.planner.list_runs(request)
        looked += len(page.runs)
        asked = [run for run in page.runs if not run.parent_run_id]
        over = [run.run_id for run in asked if run.stop_reason != trajectory.STOP_REASON_UNSPECIFIED]
        found += [run_id for run_id in over if run_id not in seen and sample.takes(run_id)]
        token = page.next_page_token
        if not token:
            break
    return found


async def of_episode(
    clients: Clients, episode: trajectory.Trajectory, graders: Sequence[str], references: Sequence[str]
) -> list[Row]:
    """Grades of one run; a grader that needs what this run has not is left out for it."""
    rows = []
    for grader in graders:
        if grader in CELL_GRADERS:
            items = cell_items(episode, grader)
        else:
            items = [answer_item(episode, grader, references=references)]
        for start in range(0, len(items), BATCH):
            try:
                request = reward.ScoreRequest(items=items[start : start + BATCH])
                scores = (await clients.reward.score(request, timeout_s=120.0)).scores
            except InvalidField as error:
                if references or not error.field.endswith(".references"):
                    raise
                continue
            rows += [
                Row(episode.run_id, grader, score.value, score.reason, start + position)
                for position, score in enumerate(scores)
            ]
    return rows


def table(rows: Sequence[Row]) -> str:
    """Per grader: how many, mean, lowest tenth, and how many are worth nothing."""
    by_grader: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_grader[row.grader].append(row.value)
    lines = [f"{'grader':<18}{'runs':>7}{'grades':>8}{'mean':>8}{'p10':>8}{'at 0':>8}"]
    for grader, values in sorted(by_grader.items()):
        ordered, runs = sorted(values), len({row.run_id for row in rows if row.grader == grader})
        low, zero = ordered[len(ordered) // 10], sum(value <= 0 for value in values)
        lines.append(f"{grader:<18}{runs:>7}{len(values):>8}{sum(values) / len(values):>8.3f}{low:>8.3f}{zero:>8}")
    return "\n".join(lines)


def run(
    home: Path, endpoints: Mapping[str, str], graders: Sequence[str], sample: Sample, references: Path | None,
    every_s: float, json_lines: bool,
) -> None:  # fmt: skip
    """Prints the table, or one line per grade; with ``every_s`` again and again until it is interrupted."""

    async def work() -> None:
        services = dict(endpoints) or dict(read_endpoints(home).services)
        clients = connect(services, lane=Lane.EVALUATION)
        seen: set[str] = set()
        known = read_references(references)
        try:
            while True:
                rows = await graded(clients, graders, sample, known, seen)
                for line in [row.to_json() for row in rows] if json_lines else [table(rows)]:
                    typer.echo(line)
                if not every_s:
                    return
                await asyncio.sleep(every_s)
        finally:
            await clients.close()

    asyncio.run(work())

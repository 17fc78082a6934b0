"""Grading of one finished run, with the same items, graders and service as in training."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients import Clients
from fathom.core.errors import FathomError, InvalidField, is_retryable
from fathom.domain.grading.episodes import answer_item, cell_items

# Graders of code: they get one item per executed cell, all others one per answer.
CELL_GRADERS = frozenset({"code", "code_style", "code_length", "code_execution", "code_run"})
# Maximum items per call, and its deadline in seconds.
BATCH, SCORE_S = 256, 120.0
NO_REFERENCE, FAILED = "no_reference", "failed"


@dataclass(frozen=True)
class Draw:
    """Sampling of runs: each with probability ``share``, decided by ``seed`` and the run's id."""

    share: float = 1.0
    seed: int = 0

    def takes(self, run_id: str) -> bool:
        """Return True if the run is sampled; the same for the same run, at any time and in any copy."""
        return random.Random(f"{self.seed}:{run_id}").random() < self.share  # noqa: S311 - a draw that can be repeated


@dataclass(frozen=True)
class Row:
    """One grade of one run; ``position`` is the index of the cell for graders of cells."""

    run_id: str
    grader: str
    value: float
    reason: str
    position: int = 0

    def to_json(self) -> str:
        return json.dumps(self.__dict__, ensure_ascii=False)


@dataclass(frozen=True)
class Ungraded:
    """A grade that could not be computed: ``reason`` is a code of ``core.errors``, ``no_reference`` or ``failed``."""

    run_id: str
    grader: str
    reason: str


def read_references(path: Path | None) -> dict[str, list[str]]:
    """Load references by question from JSON lines ``{"question": …, "references": […]}``.

    Raises ``InvalidField`` for a file that cannot be read or a malformed line.
    """
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidField("references", f"{path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                entry = json.loads(line)
                found[str(entry["question"]).strip()] = [str(one) for one in entry["references"]]
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidField("references", f"line {number} has no question with references: {error}") from error
    return found


async def check_known(clients: Clients, graders: Sequence[str]) -> None:
    """Raise ``InvalidField`` for a grader that the reward service does not have."""
    known = {grader.name for grader in (await clients.reward.list_graders(reward.ListGradersRequest())).graders}
    unknown = [name for name in graders if name not in known]
    if unknown:
        raise InvalidField("graders", f"{unknown[0]!r} is none of {', '.join(sorted(known))}")


def model_of(episode: trajectory.Trajectory) -> str:
    """Return the model that answered last; ``none`` when none did."""
    return next((step.completion.model for step in reversed(episode.steps) if step.completion.model), "none")


async def grade(
    clients: Clients, episode: trajectory.Trajectory, grader: str, references: Sequence[str]
) -> tuple[list[Row], list[Ungraded]]:
    """Grade one run by one grader; return the grades and those that could not be computed.

    Raises ``FathomError`` only for retryable errors.
    """
    if grader in CELL_GRADERS:
        items = cell_items(episode, grader)
    else:
        items = [answer_item(episode, grader, references=references)]
    rows: list[Row] = []
    for start in range(0, len(items), BATCH):
        request = reward.ScoreRequest(items=items[start : start + BATCH])
        try:
            scores = (await clients.reward.score(request, timeout_s=SCORE_S)).scores
        except FathomError as error:
            if is_retryable(error):
                raise
            # A grader that compares with references refuses questions that have none; that is no failure.
            lacking = isinstance(error, InvalidField) and not references and error.field.endswith(".references")
            return rows, [Ungraded(episode.run_id, grader, NO_REFERENCE if lacking else error.code)]
        rows += [
            Row(episode.run_id, grader, score.value, score.reason, start + position)
            for position, score in enumerate(scores)
            if not score.components.get("failed")
        ]
    failed = len(items) - len(rows)
    return rows, [Ungraded(episode.run_id, grader, FAILED)] * failed

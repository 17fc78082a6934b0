"""GRPO of the code interpreter.

Episodes come from the planner: the model writes cells, which the sandbox runs on injected tables. A cell's reward is
the reward service's grader ``code``, R = e * (w_s * s + w_l * f) - w_h * [any hack flag], with style s, length f and
execution e. An episode's reward is the mean over its cells, plus the weighted score of its answer when the task has
one, minus a small cost per cell; an episode without cells has code reward 0. The loss is on sampled tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf import json_format

from fathom.api.datafetch.v1.datafetch_pb2 import QueryRequest, Sheet, TypedQuery
from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.api.reward.v1.reward_pb2 import Score, ScoreItem, ScoreRequest
from fathom.clients import Clients
from fathom.core.errors import DependencyFailed, InvalidField
from fathom.domain.grading import code_style
from fathom.domain.grading.episodes import answer_item, cell_items, cells
from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import component_advantages
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.sections import InterpreterConfig
from fathom.trainers.interfaces import Metrics
from fathom.trainers.monitor.collapse import Signal
from fathom.trainers.rollouts.groups import Group, Row
from fathom.trainers.rollouts.requests import question_of, references_of

COMPONENTS = ("style", "length", "execution")
FLAGS = ("hack_no_function_called", "hack_constant_print", "hack_dataframe_only")
# The reward service's own bound on the items of one call.
MAX_ITEMS = 4096
LENGTH, REWARD = ("code/length",), ("critic/score/mean",)


@dataclass(frozen=True)
class CodeGrader:
    """Grades groups by the cells they ran; used as ``PlannerRollouts.grade``."""

    clients: Clients
    config: InterpreterConfig
    timeout_s: float = 60.0

    async def __call__(self, groups: Sequence[Group]) -> tuple[list[Group], Metrics]:
        """Return the groups with rewards and reward components set, and metrics of the code.

        Raises ``InvalidField`` when the service rejects an item, ``DependencyFailed`` when it returns too few scores.
        """
        items: list[ScoreItem] = []
        for group in groups:
            for episode in group.episodes:
                items += self._cells(episode)
                items += self._answer(group.row, episode)
        # One call for all cells and answers of a batch; the scores come back in the order of the items, which the loop
        # below repeats.
        scores = iter(await self._scores(items))
        graded = []
        for group in groups:
            episodes = []
            for episode in group.episodes:
                found = [next(scores) for _ in cells(episode)]
                answer = next(scores) if self._answer(group.row, episode) else None
                episodes.append(self._with_reward(episode, found, answer))
            graded.append(Group(group.row, tuple(episodes)))
        return graded, cell_metrics(graded)

    def _cells(self, episode: Trajectory) -> list[ScoreItem]:
        """Return one grading item per cell, with the configured weights."""
        config, items = self.config, cell_items(episode, "code")
        for item in items:
            item.parameters["style_weight"] = config.style_weight
            item.parameters["length_weight"] = config.length_weight
            item.parameters["hack_weight"] = config.hack_weight
        return items

    def _answer(self, row: Row, episode: Trajectory) -> list[ScoreItem]:
        """Return the answer's grading item, or none when the task has no references or no weight."""
        references = references_of(row)
        if not references or not self.config.task_weight:
            return []
        return [answer_item(episode, self.config.answer_grader, references=references)]

    async def _scores(self, items: Sequence[ScoreItem]) -> list[Score]:
        found: list[Score] = []
        for start in range(0, len(items), MAX_ITEMS):
            request = ScoreRequest(items=items[start : start + MAX_ITEMS])
            found += (await self.clients.reward.score(request, timeout_s=self.timeout_s)).scores
        # A missing score would shift all later ones to other cells.
        if len(found) != len(items):
            raise DependencyFailed("reward", f"gave {len(found)} scores for {len(items)} items")
        return found

    def _with_reward(self, episode: Trajectory, found: Sequence[Score], answer: Score | None) -> Trajectory:
        """Return a copy of the episode with the total reward and its components."""
        copy = Trajectory.FromString(episode.SerializeToString())
        # An episode without cells has code reward 0, not an undefined mean.
        count = max(1, len(found))
        parts = {name: sum(s.components.get(name, 0.0) for s in found) / count for name in (*COMPONENTS, *FLAGS)}
        parts["code"] = sum(score.value for score in found) / count
        parts["answer"] = answer.value if answer is not None else 0.0
        parts["cost"] = self.config.cost_per_call * len(found)
        copy.reward = parts["code"] + self.config.task_weight * parts["answer"] - parts["cost"]
        # What the planner's grader has set belongs to another reward.
        copy.reward_components.clear()
        copy.reward_components.update(parts)
        if answer is not None:
            copy.reward_components["correct"] = answer.value
        return copy


def cell_metrics(groups: Sequence[Group]) -> Metrics:
    """Compute metrics of the cells: number per episode, mean length, error rate and rate of hack flags.

    Lengths are in statements of called functions.
    """
    episodes = [episode for group in groups for episode in group.episodes]
    ran = [cell for episode in episodes for cell in cells(episode)]
    metrics = {"code/cells": len(ran) / max(1, len(episodes))}
    if ran:
        metrics["code/length"] = sum(code_style.length(cell.code) for cell in ran) / len(ran)
        metrics["code/error_rate"] = sum(not cell.ok for cell in ran) / len(ran)
        metrics["code/hack_rate"] = sum(bool(code_style.hacks(cell.code)) for cell in ran) / len(ran)
    return metrics


def falling_length(config: InterpreterConfig) -> Signal:
    """Return the collapse signal for code that gets much shorter while the reward rises, a sign of reward hacking."""
    return Signal("code length", LENGTH, share_of_start=config.length_share, while_rising=REWARD)


def epoch_warning(config: TrainConfig) -> str:
    """Return a warning about more than one epoch; "" for one."""
    epochs = config.trainer.total_epochs
    if epochs <= 1:
        return ""
    return f"trainer.total_epochs is {epochs}: beyond one epoch the interpreter's rewards were seen to be hacked"


async def attach_sheets(rows: Sequence[Row], clients: Clients, timeout_s: float = 60.0) -> list[Row]:
    """Add to each row the tables its question needs, as ``sheets``; rows that have sheets keep them.

    ``extra_info.data_query`` requests the tables, as a question or as the JSON of a typed query; otherwise the question
    itself does. Raises ``InvalidField`` naming a row for which no table is found.
    """
    found: dict[str, tuple[Sheet, ...]] = {}
    prepared: list[Row] = []
    for place, row in enumerate(rows):
        wanted = (row.get("extra_info") or {}).get("data_query") or question_of({"uid": place, **row})
        if row.get("sheets"):
            prepared.append(row)
            continue
        # Rows of a set often ask about the same tables: each query is made once.
        if wanted not in found:
            response = await clients.datafetch.query(build_query(wanted, place), timeout_s=timeout_s)
            found[wanted] = tuple(response.sheets)
        if not found[wanted]:
            # Without a table an episode could only print constants.
            raise InvalidField("train_files", f"row {place}: there are no tables for {wanted!r}")
        prepared.append({**row, "sheets": found[wanted]})
    return prepared


def build_query(wanted: str, row: int) -> QueryRequest:
    """Build the request for a row's tables; raises ``InvalidField`` for JSON that is not a typed query."""
    if not wanted.startswith("{"):
        return QueryRequest(question=wanted)
    try:
        return QueryRequest(typed=json_format.Parse(wanted, TypedQuery()))
    except json_format.ParseError as error:
        raise InvalidField(f"rows[{row}].extra_info.data_query", str(error)) from error


class Interpreter(Algorithm):
    """GRPO that normalises total rewards, or each reward component separately (GDPO)."""

    def grader(self, clients: Clients) -> CodeGrader:
        """Return the grader of the cells that an episode ran."""
        return CodeGrader(clients, self.config.interpreter, self.config.reward.timeout_s)

    async def prepare_prompts(self, rows: Sequence[Row], clients: Clients) -> list[Row]:
        """Attach the tables that the questions need."""
        return await attach_sheets(rows, clients)

    def collapse_signals(self) -> tuple[Signal, ...]:
        """Watch for code that gets shorter while its reward rises."""
        return (falling_length(self.config.interpreter),)

    def notes(self) -> list[str]:
        """Warn of more than one epoch."""
        return [note for note in (epoch_warning(self.config),) if note]

    def advantages(self, batch: DataProto) -> DataProto:
        """Compute advantages from total rewards or, with ``interpreter.normalise: components``, per component."""
        settings = self.config.interpreter
        if settings.normalise == "total":
            return super().advantages(batch)
        weights = {
            "style": settings.style_weight,
            "length": settings.length_weight,
            # In the total reward execution is a factor and has no weight of its own.
            "execution": 1.0,
            "answer": settings.task_weight,
        }
        advantages = component_advantages(batch, weights)
        return batch.with_tensors(advantages=advantages, returns=advantages)

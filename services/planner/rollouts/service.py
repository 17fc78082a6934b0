"""Episode groups for trainers: the same ``Engine.play`` as production, plus a grader's reward."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients import Clients
from fathom.core.call import Call, Lane
from fathom.core.errors import InvalidField
from fathom.core.ids import checked_id, new_id
from fathom.domain.chat.messages import ToolCall
from fathom.domain.chat.proto import sampling_from_proto
from fathom.domain.grading.episodes import tool_steps
from fathom.services.planner.answering.rendering.citations import resolve_citations
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol, Engine, Play
from fathom.services.planner.episode.dialogue import Research, SearchR1
from fathom.services.planner.episode.limits import (
    cap_cost,
    cap_limit,
    cap_sampling,
    make_limits,
    resolve_today,
    validate_question,
)
from fathom.services.planner.model.compaction import Compaction
from fathom.services.planner.model.episode import Step, StopReason, Task, ToolResult
from fathom.services.planner.prompts.data_summary import DataSummary
from fathom.services.planner.prompts.selection import SHORT_TOOLS, is_small_window
from fathom.services.planner.proto.episode import step_to_proto, trajectory_to_proto
from fathom.services.planner.proto.window import settings_from_proto
from fathom.services.planner.rollouts.storage import Place, format_key, format_trajectory_key, load_stored
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.runs.worker import LANES
from fathom.services.planner.tools.data.query import Data
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import trajectory_subject
from fathom.transport.store.refs import to_ref

# Bounds of what one request makes a planner hold; trainers split larger batches.
MAX_TASKS, MAX_GROUP = 1024, 64


class NullObserver:
    """Observer of rollouts that does nothing: they have no readers, and the trajectory is stored at the end."""

    async def on_sampled(self, step: Step) -> None: ...

    async def on_tool_started(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def on_tool_finished(self, index: int, result: ToolResult) -> None: ...

    async def on_compacted(self, index: int, compaction: Compaction) -> None: ...

    async def on_step_finished(self, step: Step) -> None: ...

    def on_drafted(self, index: int, text: str) -> None: ...

    def on_draft_dropped(self, index: int, why: str) -> None: ...


@dataclass
class Rollouts:
    """Executor of rollout requests."""

    config: Config
    engine: Engine
    protocols: Mapping[int, AnyProtocol]
    record: RunRepository
    clients: Clients
    bus: Bus
    log: Any
    summary: DataSummary | None = None
    """Summary of the data for the system prompt; None leaves it out."""

    async def run(self, request: pb.RolloutRequest, call: Call) -> AsyncIterator[trajectory.Trajectory]:
        """Yield trajectories in the order in which episodes end, each graded and stored in the object store.

        A grader's validation error ends the request and names its field; a failed episode is returned with its error,
        for the trainer to mask. A repeated request id first yields the stored trajectories, then plays only the rest.
        """
        rollout_id = checked_id("request_id", request.request_id or new_id("rollout"))
        self.check(request, rollout_id)
        kept = await load_stored(self.record.store, rollout_id, request) if request.request_id else {}
        for _, message in sorted(kept.items()):
            yield message
        every = [(index, sample) for index in range(len(request.tasks)) for sample in range(request.group_size)]
        missing = [place for place in every if place not in kept]
        async with aclosing(self.play(request, rollout_id, missing, choose_lane(call.lane))) as messages:
            async for message in messages:
                await self._store(message, rollout_id)
                yield message

    def check(self, request: pb.RolloutRequest, rollout_id: str) -> None:
        """Raise ``InvalidField`` for an invalid request."""
        self._make_tasks(request, rollout_id, self._choose_protocol(request))
        cap_limit(request.concurrency, self.config.concurrent_rollouts, "concurrency")

    async def play(
        self, request: pb.RolloutRequest, rollout_id: str, places: Sequence[Place], lane: Lane
    ) -> AsyncGenerator[trajectory.Trajectory, None]:
        """Yield the episodes at these places as they end, graded but not stored."""
        protocol = self._choose_protocol(request)
        tasks = self._make_tasks(request, rollout_id, protocol)
        if self.summary is not None and isinstance(protocol, Research):
            # One for the whole group: what differs between siblings is what they sampled.
            known = await self.summary.describe(request.as_of if request.HasField("as_of") else None)
            tasks = [replace(task, data_summary=known if allows_data(task) else "") for task in tasks]
        concurrency = cap_limit(request.concurrency, self.config.concurrent_rollouts, "concurrency")
        async for index, sample, play in self.engine.play_group(
            tasks, request.group_size, concurrency, protocol, NullObserver(), places, lane
        ):
            message = self._make_trajectory(play, request, protocol, lane)
            message.task_index, message.sample_index = index, sample
            await self._grade(message, play, request, index)
            yield message

    def _choose_protocol(self, request: pb.RolloutRequest) -> AnyProtocol:
        protocol = self.protocols.get(request.protocol)
        if isinstance(protocol, SearchR1) and request.system_prompt:
            return protocol.with_system_prompt(request.system_prompt)
        if request.system_prompt:
            raise InvalidField("system_prompt", "only PROTOCOL_SEARCH_R1 takes another system prompt")
        if protocol is None:
            raise InvalidField("protocol", f"{request.protocol} is no protocol of this planner")
        return protocol

    def _make_tasks(self, request: pb.RolloutRequest, rollout_id: str, protocol: AnyProtocol) -> list[Task]:
        if not 1 <= len(request.tasks) <= MAX_TASKS:
            raise InvalidField("tasks", f"must be 1 to {MAX_TASKS:,}")
        if not 1 <= request.group_size <= MAX_GROUP:
            raise InvalidField("group_size", f"must be 1 to {MAX_GROUP}")
        # Tag protocols have no Python session to put a table into.
        for place in (place for place, task in enumerate(request.tasks) if task.sheets and protocol.tags):
            raise InvalidField(f"tasks[{place}].sheets", "are for protocols with tools")
        if request.tools and protocol.tags:
            raise InvalidField("tools", "are for protocols with tools")
        config, budget = self.config, request.budget
        rounds = cap_limit(budget.max_rounds, config.max_rounds, "budget.max_rounds")
        tokens = cap_limit(budget.max_tokens, config.max_tokens, "budget.max_tokens")
        milliseconds = cap_limit(budget.max_ms, config.max_run_ms, "budget.max_ms")
        cost = cap_cost(budget.max_cost, config.max_cost, "budget.max_cost")
        sampling = cap_sampling(sampling_from_proto(request.sampling), config.completion_tokens)
        model = request.model or config.default_model
        window = settings_from_proto(request.window, config.window)
        is_small = isinstance(protocol, Research) and is_small_window(window.tokens)
        return [
            Task(
                rollout_id,
                validate_question(task.question, config.max_question_chars, f"tasks[{index}].question"),
                model,
                sampling,
                make_limits(rounds, tokens, milliseconds, max_cost=cost),
                request.policy_version,
                as_of=request.as_of if request.HasField("as_of") else None,
                window=window,
                date=resolve_today(request.as_of if request.HasField("as_of") else None, time.time()),
                # One choice for a task's whole group: what differs between siblings is what they sampled.
                prompts=protocol.prompts(task.question, request.prompts, window.tokens),
                sheets=tuple(task.sheets),
                tools=tuple(request.tools) or (SHORT_TOOLS if is_small else ()),
                is_rollout=True,
                is_compared=config.rollout_coverage,
            )
            for index, task in enumerate(request.tasks)
        ]

    @staticmethod
    def _make_trajectory(
        play: Play, request: pb.RolloutRequest, protocol: AnyProtocol, lane: Lane
    ) -> trajectory.Trajectory:
        prompt_hash = protocol.prompt_hash(play.episode.task)
        steps = [step_to_proto(step, prompt_hash) for step in play.episode.steps]
        return trajectory_to_proto(play.episode, play.outcome, request.protocol, LANES[lane], steps)

    async def _grade(self, message: trajectory.Trajectory, play: Play, request: pb.RolloutRequest, index: int) -> None:
        """Grade the answer and the response; without a grader the reward stays 0."""
        task = request.tasks[index]
        judge = task if task.grader else request
        # An episode without a step has nothing to grade, and one that failed is no sample: its error says why.
        if not judge.grader or not play.episode.steps or play.outcome.stop is StopReason.FAILED:
            return
        item = reward.ScoreItem(
            grader=judge.grader,
            answer=strip_citations(play.outcome.answer.markdown) if play.outcome.answer else "",
            references=task.references,
            parameters=judge.grader_parameters,
            # What was said after the opening, information included: form is judged on the whole exchange.
            response="".join(message.content for message in play.episode.messages[len(play.episode.opening) :]),
            steps=tool_steps(message.steps),
            expected_tools=task.expected_tools,
        )
        response = await self.clients.reward.score(reward.ScoreRequest(items=[item]))
        score = response.scores[0]
        message.reward = score.value
        message.reward_components.update(score.components)

    async def _store(self, message: trajectory.Trajectory, rollout_id: str) -> None:
        key = format_trajectory_key(rollout_id, message.task_index, message.sample_index)
        stored = await self.record.put_trajectory(message, key)
        subject = trajectory_subject(rollout_id, format_key(message.task_index, message.sample_index))
        await self.bus.publish(subject, to_ref(stored).SerializeToString(), message_id=f"{key}:{stored.sha256[:32]}")


def allows_data(task: Task) -> bool:
    """Return whether the task has the tool that fetches data."""
    return not task.tools or Data.name in task.tools


def choose_lane(asked: Lane) -> Lane:
    """Return the lane of a rollout, never the interactive one."""
    return asked if asked is not Lane.INTERACTIVE else Lane.TRAINING


def strip_citations(markdown: str) -> str:
    """Return the answer without citations, so that a parser of its last number reads "25.21 [2]" as 25.21."""
    return resolve_citations(markdown, ()).markdown.strip()

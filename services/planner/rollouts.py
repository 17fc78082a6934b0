"""Episode groups for trainers: the same ``Engine.play`` as production, plus a grader's reward."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.bus.base import Bus
from fathom.bus.streams import trajectory_subject
from fathom.call import Call, Lane
from fathom.clients import Clients
from fathom.errors import InvalidField
from fathom.grading.episodes import tool_steps
from fathom.ids import checked_id, new_id
from fathom.protocol.messages import ToolCall
from fathom.protocol.proto import sampling_from_proto
from fathom.store.refs import to_ref
from services.planner.answering.citations import check_citations
from services.planner.config import Config
from services.planner.convert import step_to_proto, trajectory_to_proto
from services.planner.engine import Engine, Play, asked_on, bounded, cheaper, checked_question, limits, tightened
from services.planner.kept import Place, begun, spelled, trajectory_key
from services.planner.model import Step, Task, ToolResult
from services.planner.playing import AnyProtocol
from services.planner.protocols import SearchR1
from services.planner.record import Record
from services.planner.window.convert import settings_from_proto
from services.planner.window.record import Compaction
from services.planner.worker import LANES

MAX_TASKS, MAX_GROUP = 1024, 64


class Silent:
    """Observer of rollouts that does nothing: they have no readers, and the trajectory is stored at the end."""

    async def sampled(self, step: Step) -> None: ...

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...

    async def compacted(self, index: int, compaction: Compaction) -> None: ...

    async def step_done(self, step: Step) -> None: ...

    def drafted(self, index: int, text: str) -> None: ...

    def dropped(self, index: int, why: str) -> None: ...


@dataclass
class Rollouts:
    """Executor of rollout requests."""

    config: Config
    engine: Engine
    protocols: Mapping[int, AnyProtocol]
    record: Record
    clients: Clients
    bus: Bus
    log: Any

    async def run(self, request: pb.RolloutRequest, call: Call) -> AsyncIterator[trajectory.Trajectory]:
        """Yield trajectories in the order in which episodes end, each graded and stored in the object store.

        A grader's validation error ends the request and names its field; a failed episode is returned with its error,
        for the trainer to mask. A repeated request id first yields the stored trajectories, then plays only the rest.
        """
        rollout_id = checked_id("request_id", request.request_id or new_id("rollout"))
        self.check(request, rollout_id)
        kept = await begun(self.record.store, rollout_id, request) if request.request_id else {}
        for _, message in sorted(kept.items()):
            yield message
        every = [(index, sample) for index in range(len(request.tasks)) for sample in range(request.group_size)]
        missing = [place for place in every if place not in kept]
        async with aclosing(self.play(request, rollout_id, missing, lane_of(call.lane))) as messages:
            async for message in messages:
                await self._keep(message, rollout_id)
                yield message

    def check(self, request: pb.RolloutRequest, rollout_id: str) -> None:
        """Raise ``InvalidField`` for an invalid request."""
        self._tasks(request, rollout_id, self._protocol(request))
        tightened(request.concurrency, self.config.concurrent_rollouts, "concurrency")

    async def play(
        self, request: pb.RolloutRequest, rollout_id: str, places: Sequence[Place], lane: Lane
    ) -> AsyncGenerator[trajectory.Trajectory, None]:
        """Yield the episodes at these places as they end, graded but not stored."""
        protocol = self._protocol(request)
        tasks = self._tasks(request, rollout_id, protocol)
        concurrency = tightened(request.concurrency, self.config.concurrent_rollouts, "concurrency")
        async for index, sample, play in self.engine.group(
            tasks, request.group_size, concurrency, protocol, Silent(), places
        ):
            message = self._trajectory(play, request, protocol, lane)
            message.task_index, message.sample_index = index, sample
            await self._grade(message, play, request, index)
            yield message

    def _protocol(self, request: pb.RolloutRequest) -> AnyProtocol:
        protocol = self.protocols.get(request.protocol)
        if isinstance(protocol, SearchR1) and request.system_prompt:
            return protocol.with_system_prompt(request.system_prompt)
        if request.system_prompt:
            raise InvalidField("system_prompt", "only PROTOCOL_SEARCH_R1 takes another system prompt")
        if protocol is None:
            raise InvalidField("protocol", f"{request.protocol} is no protocol of this planner")
        return protocol

    def _tasks(self, request: pb.RolloutRequest, rollout_id: str, protocol: AnyProtocol) -> list[Task]:
        if not 1 <= len(request.tasks) <= MAX_TASKS:
            raise InvalidField("tasks", f"must be 1 to {MAX_TASKS:,}")
        if not 1 <= request.group_size <= MAX_GROUP:
            raise InvalidField("group_size", f"must be 1 to {MAX_GROUP}")
        for place in (place for place, task in enumerate(request.tasks) if task.sheets and protocol.tags):
            raise InvalidField(f"tasks[{place}].sheets", "are for protocols with tools")
        if request.tools and protocol.tags:
            raise InvalidField("tools", "are for protocols with tools")
        config, budget = self.config, request.budget
        rounds = tightened(budget.max_rounds, config.max_rounds, "budget.max_rounds")
        tokens = tightened(budget.max_tokens, config.max_tokens, "budget.max_tokens")
        milliseconds = tightened(budget.max_ms, config.max_run_ms, "budget.max_ms")
        cost = cheaper(budget.max_cost, config.max_cost, "budget.max_cost")
        sampling = bounded(sampling_from_proto(request.sampling), config.completion_tokens)
        model = request.model or config.default_model
        window = settings_from_proto(request.window, config.window)
        return [
            Task(
                rollout_id,
                checked_question(task.question, config.max_question_chars, f"tasks[{index}].question"),
                model,
                sampling,
                limits(rounds, tokens, milliseconds, max_cost=cost),
                request.policy_version,
                as_of=request.as_of if request.HasField("as_of") else None,
                window=window,
                date=asked_on(request.as_of if request.HasField("as_of") else None, time.time()),
                # One choice for a task's whole group: what differs between siblings is what they sampled.
                prompts=protocol.prompts(task.question, f"{rollout_id}-{index}", request.prompts),
                sheets=tuple(task.sheets),
                tools=tuple(request.tools),
            )
            for index, task in enumerate(request.tasks)
        ]

    @staticmethod
    def _trajectory(play: Play, request: pb.RolloutRequest, protocol: AnyProtocol, lane: Lane) -> trajectory.Trajectory:
        prompt_hash = protocol.prompt_hash(play.episode.task)
        steps = [step_to_proto(step, prompt_hash) for step in play.episode.steps]
        return trajectory_to_proto(play.episode, play.outcome, request.protocol, LANES[lane], steps)

    async def _grade(self, message: trajectory.Trajectory, play: Play, request: pb.RolloutRequest, index: int) -> None:
        """Grade the answer and the response; without a grader the reward stays 0."""
        task = request.tasks[index]
        judge = task if task.grader else request
        if not judge.grader or not play.episode.steps:
            return
        item = reward.ScoreItem(
            grader=judge.grader,
            answer=asserted(play.outcome.answer.markdown) if play.outcome.answer else "",
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

    async def _keep(self, message: trajectory.Trajectory, rollout_id: str) -> None:
        key = trajectory_key(rollout_id, message.task_index, message.sample_index)
        stored = await self.record.finish(message, key)
        subject = trajectory_subject(rollout_id, spelled(message.task_index, message.sample_index))
        await self.bus.publish(subject, to_ref(stored).SerializeToString(), message_id=f"{key}:{stored.sha256[:32]}")


def lane_of(asked: Lane) -> Lane:
    """Return the lane of a rollout, never the interactive one."""
    return asked if asked is not Lane.INTERACTIVE else Lane.TRAINING


def asserted(markdown: str) -> str:
    """Return the answer without citations, so that a parser of its last number reads "25.21 [2]" as 25.21."""
    return check_citations(markdown, ()).markdown.strip()

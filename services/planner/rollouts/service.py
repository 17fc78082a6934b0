"""Episode groups for trainers: the same ``Engine.play`` as production, plus a grader's reward."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1.policy_pb2 import Model
from fathom.clients import Clients
from fathom.core.call import Call, Lane
from fathom.core.errors import InvalidField
from fathom.core.ids import checked_id, new_id
from fathom.domain.chat.messages import Message, ToolCall
from fathom.domain.chat.proto import sampling_from_proto
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol, Engine, Play
from fathom.services.planner.episode.dialogue import SearchR1, TagTexts
from fathom.services.planner.episode.limits import (
    cap_cost,
    cap_limit,
    cap_sampling,
    make_limits,
    validate_budget,
    validate_question,
)
from fathom.services.planner.model.compaction import Compaction
from fathom.services.planner.model.effort import Granted
from fathom.services.planner.model.episode import Step, Task, ToolResult
from fathom.services.planner.prompts.data_summary import DataSummary
from fathom.services.planner.proto.effort import asked_from_proto
from fathom.services.planner.proto.episode import step_to_proto, trajectory_to_proto
from fathom.services.planner.proto.lanes import LANES
from fathom.services.planner.proto.memory import memory_from_proto
from fathom.services.planner.proto.recording import recording_from_proto
from fathom.services.planner.proto.window import settings_from_proto
from fathom.services.planner.questions.routing import Form, Route
from fathom.services.planner.remembering.remembering import complete
from fathom.services.planner.rollouts.grading import grade_episodes
from fathom.services.planner.rollouts.storage import Place, format_trajectory_key, load_stored
from fathom.services.planner.runs.conversation import load_trained_conversation, read_history
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.tasks import TaskMaker, Wanted, read_follow_up
from fathom.services.planner.workflow.convert import PLAYED_BY
from fathom.services.planner.workflow.rewriting import STAGE, Reading, Rewriter

# Fields of a request that are texts of a protocol with tags.
TAG_TEXTS = ("system_prompt", "instruction", "invalid_action")

# Bounds of what one request makes a planner hold; trainers split larger batches.
MAX_TASKS, MAX_GROUP = 1024, 64
# Questions read, routed and classified at once, before their episodes begin.
PLANNED_AT_ONCE = 16


@dataclass(frozen=True)
class Planned:
    """A task with the protocol that plays it, and that protocol's value in the API."""

    task: Task
    protocol: AnyProtocol
    protocol_value: trajectory.Protocol


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
    log: Any
    summary: DataSummary | None = None
    """Summary of the data for the system prompt; None leaves it out."""
    rewriter: Rewriter | None = None
    """Makes follow-ups whole; without one each question is played in its own words."""
    route: Callable[[str], Awaitable[Route]] | None = None
    """Routes the questions of PROTOCOL_AUTO; without it the agent plays them."""
    find_form: Callable[[str], Awaitable[Form]] | None = None
    """Tells whether a question asks for a report; without it none does."""

    @property
    def _maker(self) -> TaskMaker:
        return TaskMaker(self.config, self.clients, self.summary, is_strict=True)

    async def run(self, request: pb.RolloutRequest, call: Call) -> AsyncGenerator[pb.RolloutResponse, None]:
        """Yield trajectories in the order in which episodes end, each graded and stored in the object store.

        A grader's validation error ends the request and names its field; a failed episode is returned with its error,
        for the trainer to mask. A repeated request id first yields the stored trajectories, then plays only the rest.
        """
        rollout_id = checked_id("request_id", request.request_id or new_id("rollout"))
        self.check(request)
        await self.engine.open_recording(recording_from_proto(request.recording))
        kept = await load_stored(self.record.store, rollout_id, request) if request.request_id else {}
        for _, message in sorted(kept.items()):
            yield pb.RolloutResponse(trajectory=message)
        every = [(index, sample) for index in range(len(request.tasks)) for sample in range(request.group_size)]
        missing = [place for place in every if place not in kept]
        async with aclosing(self.play(request, rollout_id, missing, choose_lane(call.lane))) as ended:
            async for messages in ended:
                # Nobody follows them on the bus: whoever called has the stream, and a repeated call what is stored.
                await asyncio.gather(
                    *[
                        self.record.put_trajectory(
                            message, format_trajectory_key(rollout_id, message.task_index, message.sample_index)
                        )
                        for message in messages
                    ]
                )
                for message in messages:
                    yield pb.RolloutResponse(trajectory=message)

    def check(self, request: pb.RolloutRequest) -> None:
        """Raise ``InvalidField`` for an invalid request."""
        protocol = self._choose_protocol(request)
        if not 1 <= len(request.tasks) <= MAX_TASKS:
            raise InvalidField("tasks", f"must be 1 to {MAX_TASKS:,}")
        if not 1 <= request.group_size <= MAX_GROUP:
            raise InvalidField("group_size", f"must be 1 to {MAX_GROUP}")
        if request.tools and protocol.tags:
            raise InvalidField("tools", "are for protocols with tools")
        config = self.config
        cap_limit(request.concurrency, config.concurrent_rollouts, "concurrency")
        validate_budget(request.budget)
        granted = self._grant(request)
        cap_sampling(sampling_from_proto(request.sampling), config.completion_tokens)
        window = settings_from_proto(request.window, config.make_window(granted.limits.window_tokens))
        for place, task in enumerate(request.tasks):
            question = validate_question(task.question, config.max_question_chars, f"tasks[{place}].question")
            read_history(task.history, f"tasks[{place}].history")
            # Tag protocols have no Python session to put a table into, and one instruction before one question.
            for name in ("sheets", "history", "conversation_id"):
                if getattr(task, name) and protocol.tags:
                    raise InvalidField(f"tasks[{place}].{name}", "is for protocols with tools")
            if task.HasField("remembered") and protocol.tags:
                raise InvalidField(f"tasks[{place}].remembered", "is for protocols with tools")
            memory_from_proto(task.remembered, f"tasks[{place}].remembered")
            check_conversation(task, f"tasks[{place}]")
            protocol.prompts(question, request.prompts, window.tokens)

    def longest_s(self, request: pb.RolloutRequest) -> float:
        """Return the seconds that one of its episodes may take."""
        return self._grant(request).limits.max_run_ms / 1000

    async def play(
        self, request: pb.RolloutRequest, rollout_id: str, places: Sequence[Place], lane: Lane
    ) -> AsyncGenerator[list[trajectory.Trajectory], None]:
        """Yield the episodes at these places as they end, some at once, graded but not stored."""
        # One task for the whole group: what differs between siblings is what they sampled.
        planned = await self._plan(request, rollout_id, sorted({index for index, _ in places}))
        tasks = {index: (one.task, one.protocol) for index, one in planned.items()}
        concurrency = cap_limit(request.concurrency, self.config.concurrent_rollouts, "concurrency")
        async for ended in self.engine.play_group(tasks, request.group_size, concurrency, NullObserver(), places, lane):
            played = []
            for index, sample, play in ended:
                message = self._make_trajectory(play, planned[index], lane)
                message.task_index, message.sample_index = index, sample
                played.append((message, play))
            await grade_episodes(self.clients, request, played)
            yield [message for message, _ in played]

    def _choose_protocol(self, request: pb.RolloutRequest) -> AnyProtocol:
        """Return the protocol of a request; of one that is routed, that of the agent."""
        routed = request.protocol == trajectory.PROTOCOL_AUTO
        protocol = self.protocols.get(trajectory.PROTOCOL_RESEARCH if routed else request.protocol)
        own = {name: text for name in TAG_TEXTS if (text := getattr(request, name))}
        if isinstance(protocol, SearchR1) and own:
            return protocol.with_texts(TagTexts(**own))
        if own:
            raise InvalidField(next(iter(own)), "only PROTOCOL_SEARCH_R1 takes texts of the caller's")
        if protocol is None:
            raise InvalidField("protocol", f"{request.protocol} is no protocol of this planner")
        return protocol

    def _grant(self, request: pb.RolloutRequest) -> Granted:
        return self.config.grant(
            asked_from_proto(request.effort, request.budget), request.model or self.config.default_model
        )

    async def _plan(self, request: pb.RolloutRequest, rollout_id: str, indices: Sequence[int]) -> dict[int, Planned]:
        """Return the tasks of a request by index, as runs of the same questions would have them."""
        model = await self._maker.find_model(request.model or self.config.default_model)
        gate, granted = asyncio.Semaphore(PLANNED_AT_ONCE), self._grant(request)

        async def plan(index: int) -> Planned:
            async with gate:
                return await self._plan_task(request, rollout_id, index, model, granted)

        found = await asyncio.gather(*map(plan, indices))
        return dict(zip(indices, found, strict=True))

    async def _plan_task(
        self, request: pb.RolloutRequest, rollout_id: str, index: int, model: Model, granted: Granted
    ) -> Planned:
        config, asked = self.config, request.tasks[index]
        name, question = request.model or config.default_model, asked.question.strip()
        as_of = find_instant(request, asked)
        conversation, words = await load_trained_conversation(self.clients, self.record, asked, f"tasks[{index}]")
        history = conversation.history
        # As a run: routed by the turns' words, read with the tables that are there.
        value = await self._route(request, asked, question, words, as_of)
        protocol = self._choose_protocol(request) if value == request.protocol else self.protocols[value]
        reading = await read_follow_up(self.rewriter, self.clients, question, history, name, protocol, as_of)
        held = memory_from_proto(asked.remembered, f"tasks[{index}].remembered")
        if reading.asks_back:
            # A run would ask its user, whom a rollout does not have: nothing would be sampled.
            reading = Reading(question, STAGE)
        reading = complete(reading, held)
        form = ""
        if self.find_form is not None and not protocol.tags and "answer" not in request.prompts:
            form = (await self.find_form(question)).value
        limits, cost = granted.limits, cap_cost(request.budget.max_cost, config.max_cost, "budget.max_cost")
        wanted = Wanted(
            rollout_id,
            question,
            reading,
            name,
            protocol,
            sampling_from_proto(request.sampling),
            make_limits(limits.max_rounds, limits.max_tokens, limits.max_run_ms, max_cost=cost),
            limits,
            request.window,
            request.prompts,
            form,
            history,
            conversation.given,
            as_of=as_of,
            start_time=time.time(),
            tools=tuple(request.tools),
            memory=held,
        )
        task = replace(
            await self._maker.make(wanted, model),
            policy_version=request.policy_version,
            sheets=tuple(asked.sheets),
            is_rollout=True,
            is_compared=config.rollout_coverage,
            recording=recording_from_proto(request.recording),
        )
        return Planned(task, protocol, value)

    async def _route(
        self,
        request: pb.RolloutRequest,
        asked: pb.RolloutTask,
        question: str,
        history: Sequence[Message],
        as_of: Any,
    ) -> trajectory.Protocol:
        """Return the protocol of a task: the request's, or the one by which a run of its question would be played."""
        if request.protocol != trajectory.PROTOCOL_AUTO:
            return request.protocol
        # Only the agent has a Python session and a choice of tools.
        if self.route is None or asked.sheets or request.tools:
            return trajectory.PROTOCOL_RESEARCH
        if history and self.rewriter is not None:
            question = (await self.rewriter.rewrite(question, history, as_of=as_of)).question
        return PLAYED_BY[(await self.route(question)).mode]

    @staticmethod
    def _make_trajectory(play: Play, planned: Planned, lane: Lane) -> trajectory.Trajectory:
        prompt_hash = planned.protocol.prompt_hash(play.episode.task)
        steps = list(map(partial(step_to_proto, prompt_hash=prompt_hash), play.episode.steps))
        return trajectory_to_proto(play.episode, play.outcome, planned.protocol_value, LANES[lane], steps)


def find_instant(request: pb.RolloutRequest, task: pb.RolloutTask) -> Any:
    """Return the instant as of which a task is played: its own, else the request's; None for none."""
    for message in (task, request):
        if message.HasField("as_of"):
            return message.as_of
    return None


def choose_lane(asked: Lane) -> Lane:
    """Return the lane of a rollout, never the interactive one."""
    return asked if asked is not Lane.INTERACTIVE else Lane.TRAINING


def check_conversation(task: pb.RolloutTask, field: str) -> None:
    """Check what a task says of its conversation; raise ``InvalidField`` naming a part of ``field``."""
    if not task.conversation_id:
        if task.conversation_turns:
            raise InvalidField(f"{field}.conversation_turns", "is for a conversation_id")
        return
    checked_id(f"{field}.conversation_id", task.conversation_id)
    if task.conversation_turns < 1:
        raise InvalidField(f"{field}.conversation_turns", "must be 1 or more")
    # Both would be sheet_1, sheet_2, … in the episode's session.
    if task.sheets:
        raise InvalidField(f"{field}.sheets", "are not for a task with a conversation, which brings its own")

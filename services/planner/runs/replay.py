"""Replay of a run from its record: the loop runs with recorded completions, tool results and ending.

It verifies that the record is complete and that the planner still decides as it did: messages between the rounds, the
calls of each completion, the end and the trajectory's hash must be equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory_pb
from fathom.domain.chat.messages import Completion, Message, Sampling, ToolCall, ToolSpec
from fathom.domain.chat.notices import NOTE
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol, create_player
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.compaction import Compaction
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    Limits,
    Material,
    Outcome,
    Step,
    Task,
    ToolResult,
    rebuild_episode,
)
from fathom.services.planner.model.memory import Memory
from fathom.services.planner.model.todo import Todo
from fathom.services.planner.model.view import FullWindow, View
from fathom.services.planner.proto.effort import asked_from_proto
from fathom.services.planner.proto.episode import STOPS, material_from_proto, step_from_proto
from fathom.services.planner.proto.memory import memory_from_proto
from fathom.services.planner.remembering.remembering import choose_effort
from fathom.services.planner.runs.repository import Header, Leg
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.workflow.protocol import Workflow
from fathom.services.planner.workflow.recorded_inputs import read_inputs

# Characters of a difference that a person reads; a time limit that no replay reaches.
SHOWN_CHARS, YEAR_S = 2_000, 365 * 86_400.0


class RecordEnded(Exception):
    """Raised at the end of the record, where the run was stopped, ran out of time or failed.

    Not a ``FathomError``, because the loop would treat that as an end of the episode.
    """


class RoundDone(Exception):
    """Raised when a round matches the record; the next one starts from the record again."""


class ReplayDiffers(Exception):
    """Raised when the replay deviates from the record; ``where`` is a path in the trajectory."""

    def __init__(self, where: str, recorded: str, replayed: str) -> None:
        super().__init__(f"{where} differs")
        self.where, self.recorded, self.replayed = where, recorded, replayed


@dataclass(frozen=True)
class ReplayScript:
    """The record as policy, tools and ending of a loop, and as an observer that compares."""

    steps: Sequence[Step]
    answer: Answer | None
    nudge: str
    given: tuple[Material, ...] = ()
    """Tables of earlier turns that the run began with."""

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        index = int(request_id.removeprefix(f"{task.run_id}-"))
        if index >= len(self.steps):
            raise RecordEnded
        return self.steps[index].completion

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer | Message:
        index = len(episode.steps)
        if index < len(self.steps):
            return self.steps[index].new_messages[0]
        if self.answer is None:
            raise RecordEnded
        return self.answer

    async def on_sampled(self, step: Step) -> None: ...

    async def on_tool_started(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def on_tool_finished(self, index: int, result: ToolResult) -> None: ...

    async def on_compacted(self, index: int, compaction: Compaction) -> None: ...

    def on_drafted(self, index: int, text: str) -> None: ...

    def on_draft_dropped(self, index: int, why: str) -> None: ...

    async def on_step_finished(self, step: Step) -> None:
        recorded = self.steps[step.index]
        where = f"steps[{step.index}]"
        for place, (was, now) in enumerate(
            zip_longest(strip_notes(recorded, self.nudge), strip_notes(step, self.nudge))
        ):
            if was != now:
                raise ReplayDiffers(f"{where}.new_messages[{place}]", format_message(was), format_message(now))
        for place, (had, has) in enumerate(zip_longest(recorded.results, step.results)):
            if (had and (had.call.id, had.content)) != (has and (has.call.id, has.content)):
                raise ReplayDiffers(f"{where}.tool_results[{place}]", format_result(had), format_result(has))
        raise RoundDone


def format_result(result: ToolResult | None) -> str:
    """Format a result as text; "" for none."""
    return "" if result is None else f"{result.call.name} {result.call.id}: {result.content}"


def strip_notes(step: Step, nudge: str) -> list[Message]:
    """Return the planner's messages before a round, without notes that depend on the clock or the user."""
    kept = []
    for message in step.new_messages:
        lines = message.content.splitlines()
        # What follows the nudge is its list of material.
        told = lines[: lines.index(nudge)] if nudge and nudge in lines else lines
        rest = [line for line in told if not line.startswith(NOTE)]
        if rest or not lines:
            kept.append(message if rest == lines else replace(message, content="\n".join(rest)))
    return kept


def format_message(message: Message | None) -> str:
    """Format a message as text; "" for none."""
    return "" if message is None else f"{message.role.value}: {message.content}"


async def replay(
    header: Header, legs: Sequence[Leg], recorded: trajectory_pb.Trajectory, protocol: AnyProtocol, config: Config
) -> pb.ReplayRunResponse:
    """Compare a finished run with its replay; calls no service and writes nothing."""
    answer = Answer(recorded.answer.markdown) if recorded.HasField("answer") else None
    header = replace(header, question=recorded.understood or header.question)
    if recorded.answer.HasField("clarification"):
        # No policy has played: the question back follows from the conversation, which the record does not hold.
        return pb.ReplayRunResponse(same=True, recorded_hash=recorded.hash, replayed_hash=recorded.hash)
    nudge, held = protocol.nudge(), memory_from_proto(recorded.remembered)
    steps, tables = [step_from_proto(step) for step in recorded.steps], tuple(map(material_from_proto, recorded.given))
    script = ReplayScript(steps, answer, nudge.content if nudge else "", tables)
    response = pb.ReplayRunResponse(recorded_hash=recorded.hash)
    try:
        for index in range(len(script.steps) + 1):
            outcome = await play_round(header, legs, script, index, protocol, config, dict(recorded.prompts), held)
            # How far both agree, also when they differ later.
            response.steps = index
        episode = rebuild_episode(make_task(header, Limits(0, 0, 0.0)), (), script.steps)
        response.replayed_hash = episode.hash()
        compare_ends(recorded, episode, outcome)
        response.same = True
    except ReplayDiffers as difference:
        response.difference = difference.where
        response.recorded, response.replayed = difference.recorded[:SHOWN_CHARS], difference.replayed[:SHOWN_CHARS]
    return response


async def play_round(
    header: Header,
    legs: Sequence[Leg],
    script: ReplayScript,
    index: int,
    protocol: AnyProtocol,
    config: Config,
    prompts: Mapping[str, str],
    held: Memory,
) -> Outcome | None:
    """Play the round after ``index`` recorded ones; return the outcome when the loop ends there, else None."""
    # Each round starts from the record, so that a difference is reported where it begins. Time limits do not apply.
    leg = [leg for leg in legs if leg.steps <= index][-1]
    effort = choose_effort(header.run_request(), held)
    granted = config.grant(asked_from_proto(effort, leg.budget()), header.model).limits
    limits = Limits(granted.max_rounds, granted.max_tokens, time.monotonic() + YEAR_S, since=leg.steps)
    known = script.steps[index].results if index < len(script.steps) else ()
    room = 0
    if isinstance(protocol, Workflow):
        given = read_inputs(script.steps)
        task = replace(make_task(header, limits), date=given.date, prompts=prompts, given=script.given, memory=held)
        opening, tools, protocol = given.opening, given.tools, replace(protocol, enricher=given)
        room = given.room
    else:
        task, tools = replace(make_task(header, limits), given=script.given), []
        opening = script.steps[0].new_messages if script.steps else ()
    episode = rebuild_episode(task, opening, script.steps[:index])
    todo = Todo.from_steps(episode.steps)
    resources = EpisodeResources(Registry(tools, known=known), FullWindow(room), script, todo=todo)
    try:
        outcome = await create_player(episode, protocol, script, resources, script).run()
    except (RoundDone, RecordEnded):
        return None
    if index < len(script.steps):
        raise ReplayDiffers("steps", str(len(script.steps)), f"{outcome.stop.value} after {index}")
    return outcome


def make_task(header: Header, limits: Limits) -> Task:
    return Task(header.run_id, header.question, header.model, Sampling(), limits)


def compare_ends(recorded: trajectory_pb.Trajectory, episode: Episode, outcome: Outcome | None) -> None:
    """Raise ``ReplayDiffers`` when the replay ended differently."""
    # Stops, failures and timeouts come from outside: there the record simply ends.
    was = trajectory_pb.StopReason.Name(recorded.stop_reason)
    if outcome is not None and STOPS[outcome.stop] != recorded.stop_reason:
        raise ReplayDiffers("stop_reason", was, trajectory_pb.StopReason.Name(STOPS[outcome.stop]))
    if outcome is None and recorded.stop_reason == trajectory_pb.STOP_REASON_FINISHED:
        raise ReplayDiffers("stop_reason", was, "the record ends without its answer")
    if episode.hash() != recorded.hash:
        raise ReplayDiffers("hash", recorded.hash, episode.hash())

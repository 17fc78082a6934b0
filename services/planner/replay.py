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
from fathom.protocol.messages import Completion, Message, Sampling, ToolCall, ToolSpec
from fathom.protocol.notices import NOTE
from services.planner.config import Config
from services.planner.convert import STOPS, step_from_proto
from services.planner.engine import tightened
from services.planner.model import Answer, Episode, Limits, Outcome, Step, Task, ToolResult, rebuilt
from services.planner.playing import AnyProtocol, player
from services.planner.record import Header, Leg
from services.planner.stage import Stage
from services.planner.todo import Todo
from services.planner.tools.registry import Registry
from services.planner.window.record import Compaction
from services.planner.window.view import Everything, View
from services.planner.workflow.protocol import Workflow
from services.planner.workflow.replayed import recorded_inputs

SHOWN_CHARS, YEAR_S = 2_000, 365 * 86_400.0


class RecordEnds(Exception):
    """Raised at the end of the record, where the run was stopped, ran out of time or failed.

    Not a ``FathomError``, because the loop would treat that as an end of the episode.
    """


class RoundDone(Exception):
    """Raised when a round matches the record; the next one starts from the record again."""


class Differs(Exception):
    """Raised when the replay deviates from the record; ``where`` is a path in the trajectory."""

    def __init__(self, where: str, recorded: str, replayed: str) -> None:
        super().__init__(f"{where} differs")
        self.where, self.recorded, self.replayed = where, recorded, replayed


@dataclass(frozen=True)
class Script:
    """The record as policy, tools and ending of a loop, and as an observer that compares."""

    steps: Sequence[Step]
    answer: Answer | None
    nudge: str

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
            raise RecordEnds
        return self.steps[index].completion

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer | Message:
        index = len(episode.steps)
        if index < len(self.steps):
            return self.steps[index].new_messages[0]
        if self.answer is None:
            raise RecordEnds
        return self.answer

    async def sampled(self, step: Step) -> None: ...

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None: ...

    async def tool_done(self, index: int, result: ToolResult) -> None: ...

    async def compacted(self, index: int, compaction: Compaction) -> None: ...

    def drafted(self, index: int, text: str) -> None: ...

    def dropped(self, index: int, why: str) -> None: ...

    async def step_done(self, step: Step) -> None:
        recorded = self.steps[step.index]
        where = f"steps[{step.index}]"
        for place, (was, now) in enumerate(zip_longest(spoken(recorded, self.nudge), spoken(step, self.nudge))):
            if was != now:
                raise Differs(f"{where}.new_messages[{place}]", said(was), said(now))
        for place, (had, has) in enumerate(zip_longest(recorded.results, step.results)):
            if (had and (had.call.id, had.content)) != (has and (has.call.id, has.content)):
                raise Differs(f"{where}.tool_results[{place}]", given(had), given(has))
        raise RoundDone


def given(result: ToolResult | None) -> str:
    """Format a result as text; "" for none."""
    return "" if result is None else f"{result.call.name} {result.call.id}: {result.content}"


def spoken(step: Step, nudge: str) -> list[Message]:
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


def said(message: Message | None) -> str:
    """Format a message as text; "" for none."""
    return "" if message is None else f"{message.role.value}: {message.content}"


async def replay(
    header: Header, legs: Sequence[Leg], recorded: trajectory_pb.Trajectory, protocol: AnyProtocol, config: Config
) -> pb.ReplayRunResponse:
    """Compare a finished run with its replay; calls no service and writes nothing."""
    answer = Answer(recorded.answer.markdown) if recorded.HasField("answer") else None
    nudge = protocol.nudge()
    script = Script([step_from_proto(step) for step in recorded.steps], answer, nudge.content if nudge else "")
    response = pb.ReplayRunResponse(recorded_hash=recorded.hash)
    try:
        for index in range(len(script.steps) + 1):
            outcome = await one_round(header, legs, script, index, protocol, config, dict(recorded.prompts))
            response.steps = index
        episode = rebuilt(bare_task(header, Limits(0, 0, 0.0)), (), script.steps)
        response.replayed_hash = episode.hash()
        compare_ends(recorded, episode, outcome)
        response.same = True
    except Differs as difference:
        response.difference = difference.where
        response.recorded, response.replayed = difference.recorded[:SHOWN_CHARS], difference.replayed[:SHOWN_CHARS]
    return response


async def one_round(
    header: Header,
    legs: Sequence[Leg],
    script: Script,
    index: int,
    protocol: AnyProtocol,
    config: Config,
    prompts: Mapping[str, str],
) -> Outcome | None:
    """Play the round after ``index`` recorded ones; return the outcome when the loop ends there, else None."""
    # Each round starts from the record, so that a difference is reported where it begins. Time limits do not apply.
    leg = [leg for leg in legs if leg.steps <= index][-1]
    limits = Limits(
        tightened(leg.max_rounds, config.max_rounds, "budget.max_rounds"),
        tightened(leg.max_tokens, config.max_tokens, "budget.max_tokens"),
        time.monotonic() + YEAR_S,
        since=leg.steps,
    )
    known = script.steps[index].results if index < len(script.steps) else ()
    room = 0
    if isinstance(protocol, Workflow):
        given = recorded_inputs(script.steps)
        task = replace(bare_task(header, limits), date=given.date, prompts=prompts)
        opening, tools, protocol = given.opening, given.tools, replace(protocol, widener=given)
        room = given.room
    else:
        task, opening, tools = bare_task(header, limits), script.steps[0].new_messages if script.steps else (), []
    episode = rebuilt(task, opening, script.steps[:index])
    stage = Stage(Registry(tools, known=known), Everything(room), script, todo=Todo.rebuilt(episode.steps))
    try:
        outcome = await player(episode, protocol, script, stage, script).run()
    except (RoundDone, RecordEnds):
        return None
    if index < len(script.steps):
        raise Differs("steps", str(len(script.steps)), f"{outcome.stop.value} after {index}")
    return outcome


def bare_task(header: Header, limits: Limits) -> Task:
    return Task(header.run_id, header.question, header.model, Sampling(), limits)


def compare_ends(recorded: trajectory_pb.Trajectory, episode: Episode, outcome: Outcome | None) -> None:
    """Raise ``Differs`` when the replay ended differently."""
    # Stops, failures and timeouts come from outside: there the record simply ends.
    was = trajectory_pb.StopReason.Name(recorded.stop_reason)
    if outcome is not None and STOPS[outcome.stop] != recorded.stop_reason:
        raise Differs("stop_reason", was, trajectory_pb.StopReason.Name(STOPS[outcome.stop]))
    if outcome is None and recorded.stop_reason == trajectory_pb.STOP_REASON_FINISHED:
        raise Differs("stop_reason", was, "the record ends without its answer")
    if episode.hash() != recorded.hash:
        raise Differs("hash", recorded.hash, episode.hash())

"""Observer of the loop that publishes a run's events and records its steps."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory_pb
from fathom.protocol.messages import ToolCall
from services.planner.convert import call_to_proto, material_to_proto, result_to_proto, step_from_proto, step_to_proto
from services.planner.events import Events
from services.planner.journal import Journal
from services.planner.model import Step, ToolResult, ToolState
from services.planner.record import Record
from services.planner.todo import TODO, TodoItem, listed_items
from services.planner.window.record import Compaction
from services.planner.workflow.convert import note_to_proto

DRAFT_S = 0.1
"""Seconds between updates of the draft."""
MOST_WAITING = 64
"""Largest number of unsent events at the start of a round."""


class RunObserver:
    """Publisher and recorder of one production run."""

    def __init__(
        self, events: Events, record: Record, journal: Journal, run_id: str, prompt_hash: str, window_tokens: int
    ) -> None:
        """Create the observer; ``window_tokens`` is the window size reported to readers."""
        self._events, self._record, self._journal, self._window_tokens = events, record, journal, window_tokens
        self._run_id, self._prompt_hash = run_id, prompt_hash
        self.steps = 0
        """Number of recorded steps."""
        self._draft, self._draft_step, self._drafted_at = "", -1, -math.inf

    async def retell(self, steps: Sequence[Step]) -> None:
        """Publish the recorded events that a previous worker had not sent."""
        self.steps = len(steps)
        for step in steps:
            if step.compaction is not None:
                await self.compacted(step.index, step.compaction)
            self._tell_sampled(step)
            for result in step.results:
                await self.tool_starts(step.index, result.call, result.intent)
                self._tell_done(step.index, result, None)
        await self._events.flush()

    async def sampled(self, step: Step) -> None:
        """Store the completion before any of its calls; raises ``TakenOver`` when the run was lost."""
        await self._journal.sampled(step)
        self._tell_sampled(step)
        await self._events.flush()

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None:
        """Publish the start of a call with its intent, after all results so far are stored."""
        await self._journal.settled()
        if call.name == "think":
            self._events.publish(thought=thought(call, index))
        else:
            started = pb.ToolCallStarted(call=call_to_proto(call), intent=intent, step=index)
            self._events.publish(tool_started=started)

    async def tool_done(self, index: int, result: ToolResult) -> None:
        """Store a result in the background and publish it once it is stored."""
        self._tell_done(index, result, self._journal.called(index, result))

    async def step_done(self, step: Step) -> None:
        """Record a complete step."""
        # The run waits only for this: a worker that takes it over publishes the missing events again.
        await self._record.put_step(self._run_id, step_to_proto(step, self._prompt_hash), self._events.epoch)
        self.steps = step.index + 1
        self._journal.close(step.index)
        if self._events.waiting > MOST_WAITING:
            await self._events.flush()

    def drafted(self, index: int, text: str) -> None:
        """Publish the draft so far, at most once per ``DRAFT_S`` seconds."""
        if index != self._draft_step:
            self._draft, self._draft_step = "", index
        self._draft += text
        now = asyncio.get_running_loop().time()
        if self._draft and (not text or now - self._drafted_at >= DRAFT_S):
            self._drafted_at = now
            self._events.answer(self._draft, index, draft=True, why="again")

    def dropped(self, index: int, why: str) -> None:
        """Withdraw the draft that readers have seen."""
        self._events.drop(index, why)

    def _tell_sampled(self, step: Step) -> None:
        usage = step.completion.usage
        sampled = pb.Sampled(
            step=step.index,
            prompt_tokens=usage.prompt_tokens or step.context_tokens,
            completion_tokens=usage.completion_tokens,
            window_tokens=self._window_tokens,
        )
        self._events.publish(sampled=sampled)
        if step.stage is not None:
            self._events.publish(staged=pb.Staged(step=step.index, stage=note_to_proto(step.stage)))

    def _tell_done(self, index: int, result: ToolResult, kept: Awaitable[object] | None) -> None:
        if result.call.name != "think":
            material = [material_to_proto(item) for item in result.material]
            finished = pb.ToolCallFinished(result=result_to_proto(result), material=material, step=index)
            self._events.publish(kept, tool_finished=finished)
        if result.call.name == TODO and result.status is ToolState.OK and (items := listed_items(result.content)):
            change = f"{index}-{result.call.id}"
            self._events.publish(todo_changed=todo_changed(items, index, change, by_user=False))

    async def compacted(self, index: int, compaction: Compaction) -> None:
        """Publish a compaction, before the step sampled after it; it is recorded with that step."""
        compacted = pb.Compacted(
            step=index,
            dropped_steps=compaction.dropped_steps,
            tokens_before=compaction.tokens_before,
            tokens_after=compaction.tokens_after,
            policy=compaction.policy.value,
            window_tokens=compaction.window_tokens,
        )
        self._events.publish(compacted=compacted)


async def tell_end(events: Events, trajectory: trajectory_pb.Trajectory, ref: ObjectRef) -> None:
    """Publish the restated question, the missing part of the answer, and the end."""
    if (
        trajectory.HasField("answer")
        and trajectory.steps
        and (understood := restatement(step_from_proto(trajectory.steps[-1])))
    ):
        step = trajectory.steps[-1].index
        events.publish(thought=pb.Thought(text=understood, kind="restatement", step=step))
    last = trajectory.steps[-1].index if trajectory.steps else 0
    if trajectory.HasField("answer"):
        events.answer(trajectory.answer.markdown, last, draft=False)
    else:
        events.drop(last, "dropped")
    finished = pb.RunFinished(
        stop_reason=trajectory.stop_reason,
        error=trajectory.error,
        culprit=trajectory.culprit,
        usage=trajectory.usage,
        trajectory=ref,
        material=[item for step in trajectory.steps for item in step.material],
        leg=trajectory.leg,
    )
    if trajectory.HasField("answer"):
        finished.answer.CopyFrom(trajectory.answer)
        finished.material.extend(trajectory.answer.material)
    events.publish(finished=finished)
    await events.flush()


def thought(call: ToolCall, step: int) -> pb.Thought:
    """Convert a ``think`` call for readers; malformed arguments give an empty thought."""
    message = pb.Thought(step=step, tool_call_id=call.id)
    try:
        arguments = json.loads(call.arguments_json)
        message.text = str(arguments.get("content", ""))
        message.kind = str(arguments.get("kind", "plain"))
    except (ValueError, AttributeError):
        message.text = message.kind = ""
    return message


def restatement(step: Step) -> str:
    """Return the question as restated in the ``finish`` call; "" when it was not."""
    for call in step.completion.tool_calls:
        if call.name == "finish":
            with suppress(ValueError, AttributeError):
                return str(json.loads(call.arguments_json).get("restated_question", "")).strip()
    return ""


def todo_changed(items: Sequence[TodoItem], step: int, change_id: str, *, by_user: bool) -> pb.TodoChanged:
    """Build the event of a changed todo list."""
    listed = [pb.TodoItem(text=item.text, state=item.state) for item in items]
    return pb.TodoChanged(items=listed, by_user=by_user, step=step, change_id=change_id)

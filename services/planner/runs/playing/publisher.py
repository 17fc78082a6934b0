"""Observer of the loop that writes a run's events and steps to its log."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory_pb
from fathom.domain.chat.messages import ToolCall
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.compaction import Compaction
from fathom.services.planner.model.episode import Step, ToolResult, ToolStatus
from fathom.services.planner.model.todo import TODO, TodoItem, read_listed_items
from fathom.services.planner.proto.episode import (
    call_to_proto,
    material_to_proto,
    result_to_proto,
    step_from_proto,
    step_to_proto,
)
from fathom.services.planner.proto.stages import note_to_proto
from fathom.services.planner.runs.log.events import EventLog
from fathom.services.planner.runs.log.fold import make_completion_entry, make_end_entry
from fathom.services.planner.tools.think import Think

DRAFT_S = 0.1
"""Seconds between updates of the draft."""
# The record has all of it. A page that draws hundreds of kilobytes of thoughts per run gets slow.
REASONING_CHARS = 20_000
"""Characters of a model's own thought that readers get."""


class RunPublisher:
    """Publisher and recorder of one production run."""

    def __init__(self, events: EventLog, prompt_hash: str, window_tokens: int) -> None:
        """Create the observer; ``window_tokens`` is the window size reported to readers."""
        self._events, self._prompt_hash, self._window_tokens = events, prompt_hash, window_tokens
        self.recorded: list[trajectory_pb.Step] = []
        """Complete steps, as the trajectory will have them."""
        self.open_step: Step | None = None
        """Sampled step that is not complete, with the results so far."""
        self.todo_version = ""
        """Id of the last change of the todo list."""
        self._has_unsent_result = False
        self._draft, self._draft_step, self._drafted_at = "", -1, -math.inf

    @property
    def steps(self) -> int:
        """Return the number of complete steps."""
        return len(self.recorded)

    async def republish(self, recorded: Sequence[trajectory_pb.Step], open_step: Step | None) -> None:
        """Begin after these steps; publish the events of them that the log does not have."""
        # It has them all, unless it lost them by age before the run was resumed.
        self.recorded, self.open_step = list(recorded), open_step
        for step in map(step_from_proto, recorded):
            if step.compaction is not None:
                await self.on_compacted(step.index, step.compaction)
            self._publish_sampled(step, None)
            for result in step.results:
                await self.on_tool_started(step.index, result.call, result.intent)
                self._publish_finished(step.index, result)
        await self._events.flush()

    async def on_sampled(self, step: Step) -> None:
        """Log the completion before any of its calls; raises ``LeaseLost`` when the run was lost."""
        self.open_step = replace(step, results=())
        self._publish_sampled(step, make_completion_entry(step, self._prompt_hash))
        await self._events.flush()

    async def on_tool_started(self, index: int, call: ToolCall, intent: str) -> None:
        """Publish the start of a call with its intent, after all results so far are in the log."""
        # A call may act on what earlier ones did: another planner must find their results, or it would repeat them.
        if self._has_unsent_result:
            await self._events.flush()
            self._has_unsent_result = False
        if call.name == Think.name:
            self._events.publish(thought=make_thought(call, index))
        else:
            started = pb.ToolCallStarted(call=call_to_proto(call), intent=intent, step=index)
            self._events.publish(tool_started=started)

    async def on_tool_finished(self, index: int, result: ToolResult) -> None:
        """Send a result to the log in the background."""
        if self.open_step is not None:
            self.open_step = replace(self.open_step, results=(*self.open_step.results, result))
        self._publish_finished(index, result)
        self._has_unsent_result = True

    async def on_step_finished(self, step: Step) -> None:
        """End the step in the log; return when all of it is there."""
        recorded = step_to_proto(step, self._prompt_hash)
        self._events.publish(make_end_entry(recorded, self.open_step or step))
        # Before the next request to a model: with other results, its request id would name another request.
        await self._events.flush()
        self.recorded.append(recorded)
        self.open_step, self._has_unsent_result = None, False

    def on_drafted(self, index: int, text: str) -> None:
        """Publish the draft so far, at most once per ``DRAFT_S`` seconds."""
        if index != self._draft_step:
            self._draft, self._draft_step = "", index
        self._draft += text
        now = asyncio.get_running_loop().time()
        # Tokens come faster than a page can draw them; the end of a draft is always sent.
        if self._draft and (not text or now - self._drafted_at >= DRAFT_S):
            self._drafted_at = now
            self._events.publish_answer(self._draft, index, draft=True, why="again")

    def on_draft_dropped(self, index: int, why: str) -> None:
        """Withdraw the draft that readers have seen."""
        self._events.withdraw_answer(index, why)

    def _publish_sampled(self, step: Step, entry: trajectory_pb.Step | None) -> None:
        usage = step.completion.usage
        sampled = pb.Sampled(
            step=step.index,
            prompt_tokens=usage.prompt_tokens or step.context_tokens,
            completion_tokens=usage.completion_tokens,
            window_tokens=self._window_tokens,
        )
        self._events.publish(entry, sampled=sampled)
        if step.completion.reasoning:
            text = shorten(step.completion.reasoning, REASONING_CHARS)
            self._events.publish(thought=pb.Thought(text=text, kind="reasoning", step=step.index))
        if step.stage is not None:
            self._events.publish(staged=pb.Staged(step=step.index, stage=note_to_proto(step.stage)))

    def _publish_finished(self, index: int, result: ToolResult) -> None:
        if result.call.name != Think.name:
            material = [material_to_proto(item) for item in result.material]
            finished = pb.ToolCallFinished(result=result_to_proto(result), material=material, step=index)
            self._events.publish(tool_finished=finished)
        if is_listing(result) and (items := read_listed_items(result.content)):
            self.publish_todo(make_todo_changed(items, index, make_change_id(index, result), by_user=False))

    def publish_todo(self, change: pb.TodoChanged) -> None:
        """Publish a change of the todo list, whose version it is from now on."""
        self.todo_version = change.change_id
        self._events.publish(todo_changed=change)

    async def on_compacted(self, index: int, compaction: Compaction) -> None:
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


async def publish_end(events: EventLog, trajectory: trajectory_pb.Trajectory, ref: ObjectRef) -> None:
    """Publish the restated question, the missing part of the answer, and the end."""
    if (
        trajectory.HasField("answer")
        and trajectory.steps
        and (understood := find_restatement(step_from_proto(trajectory.steps[-1])))
    ):
        step = trajectory.steps[-1].index
        events.publish(thought=pb.Thought(text=understood, kind="restatement", step=step))
    last = trajectory.steps[-1].index if trajectory.steps else 0
    if trajectory.HasField("answer"):
        events.publish_answer(trajectory.answer.markdown, last, draft=False)
    else:
        events.withdraw_answer(last, "dropped")
    finished = pb.RunFinished(
        stop_reason=trajectory.stop_reason,
        error=trajectory.error,
        culprit=trajectory.culprit,
        usage=trajectory.usage,
        trajectory=ref,
        material=[*trajectory.given, *(item for step in trajectory.steps for item in step.material)],
        leg=trajectory.leg,
    )
    if trajectory.HasField("answer"):
        finished.answer.CopyFrom(trajectory.answer)
        finished.material.extend(trajectory.answer.material)
    events.publish(finished=finished)
    await events.flush()


def make_thought(call: ToolCall, step: int) -> pb.Thought:
    """Convert a ``think`` call for readers; malformed arguments give an empty thought."""
    message = pb.Thought(step=step, tool_call_id=call.id)
    try:
        arguments = json.loads(call.arguments_json)
        message.text = str(arguments.get("content", ""))
        message.kind = str(arguments.get("kind", "plain"))
    except (ValueError, AttributeError):
        message.text = message.kind = ""
    return message


def find_restatement(step: Step) -> str:
    """Return the question as restated in the ``finish`` call; "" when it was not."""
    for call in step.completion.tool_calls:
        if call.name == "finish":
            with suppress(ValueError, AttributeError):
                return str(json.loads(call.arguments_json).get("restated_question", "")).strip()
    return ""


def is_listing(result: ToolResult) -> bool:
    """Return whether a call of the model has changed the todo list, which it returns."""
    return result.call.name == TODO and result.status is ToolStatus.OK and bool(read_listed_items(result.content))


def make_change_id(index: int, result: ToolResult) -> str:
    """Return the id of the change that a call of the model made in a step."""
    return f"{index}-{result.call.id}"


def make_todo_changed(items: Sequence[TodoItem], step: int, change_id: str, *, by_user: bool) -> pb.TodoChanged:
    """Build the event of a changed todo list."""
    listed = [pb.TodoItem(text=item.text, state=item.state) for item in items]
    return pb.TodoChanged(items=listed, by_user=by_user, step=step, change_id=change_id)

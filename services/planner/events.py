"""A run's events on the bus. Numbers are a function of the steps, so a resumed run goes on counting rightly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any

from fathom.api.common.v1.common_pb2 import ObjectRef
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.bus.base import Bus
from fathom.bus.streams import events_subject
from fathom.errors import NotReady
from fathom.protocol.messages import ToolCall
from services.planner.convert import (
    STOPS,
    answer_to_proto,
    call_to_proto,
    material_to_proto,
    result_to_proto,
    step_to_proto,
    usage_to_proto,
)
from services.planner.model import Episode, Outcome, Step, ToolResult
from services.planner.record import Record
from services.planner.window.record import Compaction

DELTA_CHARS = 160


class Events:
    """Publishes the events of one run in order, each with its number as message id: duplicates are dropped."""

    def __init__(self, bus: Bus, run_id: str) -> None:
        self._bus, self._run_id = bus, run_id
        self._sequence = 0

    def skip(self, steps: Sequence[Step]) -> None:
        """Counts what an earlier worker has published: the start and whole steps."""
        self._sequence += 1 + sum(count(step) for step in steps)

    async def publish(self, **event: Any) -> None:
        """Publishes one event and waits until the stream has it."""
        self._sequence += 1
        message = pb.RunEvent(sequence=self._sequence, run_id=self._run_id, **event)
        message.time.GetCurrentTime()
        await self._bus.publish(
            events_subject(self._run_id),
            message.SerializeToString(),
            message_id=f"{self._run_id}:{self._sequence}",
        )


def thought(call: ToolCall) -> pb.Thought:
    """A ``think`` call as the reader sees it; malformed arguments give an empty thought."""
    try:
        arguments = json.loads(call.arguments_json)
        return pb.Thought(text=str(arguments.get("content", "")), kind=str(arguments.get("kind", "plain")))
    except (ValueError, AttributeError):
        return pb.Thought()


def restatement(step: Step) -> str:
    """How the model restated the question when it finished; "" when it did not (row L04)."""
    for call in step.completion.tool_calls:
        if call.name == "finish":
            with suppress(ValueError, AttributeError):
                return str(json.loads(call.arguments_json).get("restated_question", "")).strip()
    return ""


def count(step: Step) -> int:
    """How many events a finished step has: one per thought, two per other call."""
    return sum(1 if result.call.name == "think" else 2 for result in step.results)


def deltas(markdown: str) -> list[str]:
    """The answer in pieces that end between words."""
    pieces, rest = [], markdown
    while len(rest) > DELTA_CHARS:
        cut = rest.rfind(" ", 1, DELTA_CHARS) + 1 or DELTA_CHARS
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest] if rest else pieces


class RunObserver:
    """Publishes and records one production run."""

    def __init__(self, events: Events, record: Record, run_id: str, prompt_hash: str) -> None:
        self._events, self._record, self._run_id, self._prompt_hash = events, record, run_id, prompt_hash

    async def tool_starts(self, index: int, call: ToolCall, intent: str) -> None:
        """The intent goes out before the result (row R11)."""
        if call.name == "think":
            await self._events.publish(thought=thought(call))
        else:
            started = pb.ToolCallStarted(call=call_to_proto(call), intent=intent, step=index)
            await self._events.publish(tool_started=started)

    async def tool_done(self, index: int, result: ToolResult) -> None:
        if result.call.name != "think":
            material = [material_to_proto(item) for item in result.material]
            finished = pb.ToolCallFinished(result=result_to_proto(result), material=material)
            await self._events.publish(tool_finished=finished)

    async def compacted(self, index: int, compaction: Compaction) -> None:
        """Part of the recorded step; readers see it in the trajectory."""

    async def step_done(self, step: Step) -> None:
        await self._record.put_step(self._run_id, step_to_proto(step, self._prompt_hash))

    async def ended(self, episode: Episode, outcome: Outcome, trajectory: ObjectRef) -> None:
        """What was understood, the answer in pieces, then the end."""
        if outcome.answer is not None:
            if understood := restatement(episode.steps[-1]):
                await self._events.publish(thought=pb.Thought(text=understood, kind="restatement"))
            for piece in deltas(outcome.answer.markdown):
                await self._events.publish(answer_delta=pb.AnswerDelta(text=piece))
        finished = pb.RunFinished(
            stop_reason=STOPS[outcome.stop],
            error=outcome.error,
            culprit=outcome.culprit,
            usage=usage_to_proto(episode.usage),
            trajectory=trajectory,
            material=[material_to_proto(item) for item in episode.material],
        )
        if outcome.answer is not None:
            finished.answer.CopyFrom(answer_to_proto(outcome.answer))
        await self._events.publish(finished=finished)


async def follow(bus: Bus, run_id: str, after: int) -> AsyncIterator[pb.RunEvent]:
    """Events of a run after a number, in order and once each, until it has finished."""
    last = after
    async with aclosing(bus.follow(events_subject(run_id))) as deliveries:
        async for delivery in deliveries:
            event = pb.RunEvent.FromString(delivery.payload)
            if event.sequence > last:
                last = event.sequence
                yield event
            if event.HasField("finished"):
                return


async def heartbeat(delivery: Any, every_s: float) -> None:
    """Keeps a delivery in progress until cancelled; a server out of reach for a while is the bus' business."""
    while True:
        await asyncio.sleep(every_s)
        with suppress(NotReady):
            await delivery.in_progress()

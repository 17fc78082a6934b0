"""Chat completions over the agent: one request is one run, and its answer is checked before any of it is sent."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import DependencyFailed, FailedPrecondition, FathomError, InvalidField
from fathom.core.ids import checked_id, new_id
from fathom.services.gateway.engine import AGENT, Engine
from fathom.services.gateway.openai.answers import Rendered, render_answer
from fathom.services.gateway.openai.bodies import ROLES, AgentRequest, ChatMessage
from fathom.services.gateway.openai.chunks import make_chunk, make_usage
from fathom.services.gateway.tables import View

# OpenAI's clients know four efforts and the planner three: the two below "medium" are one.
EFFORTS = {
    "minimal": planner.EFFORT_QUICK,
    "low": planner.EFFORT_QUICK,
    "medium": planner.EFFORT_STANDARD,
    "high": planner.EFFORT_DEEP,
}
# What the planner takes of a caller's own conversation; clients send all of it with each request.
MAX_HISTORY, MAX_HISTORY_CHARS = 64, 65_536
# A piece of the answer in a stream: small enough to be drawn at once.
PIECE_CHARS = 400


@dataclass(frozen=True)
class Finished:
    """The end of a run that has an answer."""

    run_id: str
    model: str
    rendered: Rendered
    finish_reason: str
    usage: Mapping[str, Any]


class AgentDoor:
    """Plays chat completions as runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def start(self, request: AgentRequest, request_id: str) -> str:
        """Start the run of a request and return its id; raise ``InvalidField`` for what it cannot be."""
        run = make_run(request)
        # Clients repeat a request whose answer was lost: with a key the second one joins the first.
        run.request_id = checked_id("idempotency-key", request_id) if request_id else new_id("run")
        return str((await self._engine.start_run(run))["run_id"])

    async def complete(self, run_id: str, base_url: str) -> dict[str, Any]:
        """Follow a run to its end and return the whole completion; raise the run's failure."""
        async with aclosing(self._engine.follow(run_id)) as events:
            async for event in events:
                if event.HasField("finished"):
                    return make_completion(await self._finish(run_id, event.finished, base_url))
        # Not an empty answer: a client would take that for what the agent has to say.
        raise DependencyFailed("planner", f"the events of run {run_id} ended without its end")

    async def stream(self, run_id: str, base_url: str, with_usage: bool) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the chunks of a run: what it does as ``reasoning_content``, then its checked answer.

        Raises the run's failure. The answer's draft is not sent: a check may withdraw it, and a chunk cannot be.
        """
        # All chunks of a completion have one moment, as OpenAI's have.
        created, model = int(time.time()), AGENT
        # Before the first event: a run may wait in its queue, and clients give up on a stream that says nothing.
        yield make_chunk(run_id, model, created, {"role": "assistant", "content": ""})
        async with aclosing(self._engine.follow(run_id)) as events:
            async for event in events:
                # Until the run has begun nobody knows which model plays it.
                model = event.started.model or model if event.HasField("started") else model
                if progress := describe_progress(event):
                    yield make_chunk(run_id, model, created, {"reasoning_content": progress})
                if not event.HasField("finished"):
                    continue
                end = await self._finish(run_id, event.finished, base_url)
                text = end.rendered.text
                for start in range(0, len(text), PIECE_CHARS):
                    yield make_chunk(run_id, end.model, created, {"content": text[start : start + PIECE_CHARS]})
                last = {"annotations": list(end.rendered.annotations)} if end.rendered.annotations else {}
                yield make_chunk(run_id, end.model, created, last, end.finish_reason)
                if with_usage:
                    yield {**make_chunk(run_id, end.model, created, {}), "choices": [], "usage": end.usage}
                return
        raise DependencyFailed("planner", f"the events of run {run_id} ended without its end")

    async def stop(self, run_id: str) -> None:
        """End a run that nobody reads any more; a failure to do so is the run's own time limit's affair."""
        try:
            await self._engine.stop_run(run_id)
        except FathomError:
            return

    async def _finish(self, run_id: str, finished: planner.RunFinished, base_url: str) -> Finished:
        if not finished.HasField("answer"):
            raise make_failure(run_id, finished)

        async def read_page(sheet: Sheet, rows: int) -> Mapping[str, Any]:
            return await self._engine.get_table_page(sheet.id, View(limit=rows))

        rendered = await render_answer(finished, f"{base_url}/v1/runs/{run_id}", base_url, read_page)
        is_whole = finished.stop_reason == trajectory.STOP_REASON_FINISHED
        # OpenAI has no word for a run that spent its budget or its time; "length" is the one that means "cut off".
        reason = "stop" if is_whole else "length"
        return Finished(run_id, finished.answer.model or AGENT, rendered, reason, make_usage(finished.usage))


def make_run(request: AgentRequest) -> planner.RunRequest:
    """Convert a request: its last message is the question, earlier ones are history, a system's are instructions."""
    messages = list(enumerate(request.messages))
    place, last = messages[-1]
    if last.role != "user":
        raise InvalidField(f"messages[{place}].role", f"is {last.role!r}: the last message asks, as user")
    instructions, turns = list[str](), list[policy.Message]()
    for place, message in messages[:-1]:
        text = read_text(message, f"messages[{place}]")
        if ROLES[message.role] == policy.ROLE_SYSTEM:
            instructions.append(text)
        # A message without words says nothing to the model, and is no turn.
        elif text.strip():
            turns.append(policy.Message(role=ROLES[message.role], content=text))
    return planner.RunRequest(
        question=last.text(f"messages[{len(messages) - 1}]"),
        model="" if request.model == AGENT else request.model,
        history=keep_newest(turns),
        instructions="\n\n".join(filter(str.strip, instructions)),
        sampling=request.sampling(),
        budget=planner.Budget(max_tokens=request.token_limit),
        effort=EFFORTS.get(request.reasoning_effort or "", planner.EFFORT_UNSPECIFIED),
    )


def read_text(message: ChatMessage, field: str) -> str:
    """Return the text of an earlier message; raise ``InvalidField`` for one of a tool, which the agent has not."""
    if message.role == "tool" or message.tool_calls:
        raise InvalidField(field, "is about a tool call: the agent calls its own tools; see /policy/v1")
    return message.text(field)


def keep_newest(turns: list[policy.Message]) -> list[policy.Message]:
    """Return the newest turns within the planner's limits."""
    size, kept = 0, list[policy.Message]()
    # From the newest on, and none behind a gap: a turn without the one it answers would mislead.
    for turn in reversed(turns[-MAX_HISTORY:]):
        size += len(turn.content)
        if size > MAX_HISTORY_CHARS:
            break
        kept.append(turn)
    return kept[::-1]


def describe_progress(event: planner.RunEvent) -> str:
    """Return a line about what the run does, "" for events that say nothing to a reader."""
    if event.HasField("tool_started") and event.tool_started.intent:
        return f"{event.tool_started.call.name}: {event.tool_started.intent}\n"
    if event.HasField("thought") and event.thought.text:
        return f"{event.thought.text}\n"
    return ""


def make_failure(run_id: str, finished: planner.RunFinished) -> FathomError:
    """Return the error of a run that ended without an answer."""
    reason = trajectory.StopReason.Name(finished.stop_reason).removeprefix("STOP_REASON_").lower()
    if finished.culprit:
        return DependencyFailed(finished.culprit, f"run {run_id} failed: {finished.error}")
    said = f": {finished.error}" if finished.error else ""
    return FailedPrecondition(f"run {run_id} ended without an answer ({reason}){said}")


def make_completion(end: Finished) -> dict[str, Any]:
    """Return a whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": end.rendered.text, "refusal": None}
    if end.rendered.annotations:
        message["annotations"] = list(end.rendered.annotations)
    choice = {"index": 0, "message": message, "finish_reason": end.finish_reason, "logprobs": None}
    return {
        "id": end.run_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": end.model,
        "choices": [choice],
        "usage": end.usage,
    }

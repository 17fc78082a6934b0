"""Conversion of a trajectory to chat conversations, marking the model's messages to train on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.api.planner.v1.trajectory_pb2 import (
    PROTOCOL_SEARCH_R1,
    PROTOCOL_WORKFLOW,
    TOOL_STATUS_FAILED,
    TOOL_STATUS_INVALID,
    Segment,
    Step,
    Trajectory,
)
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import InvalidField
from fathom.domain.chat.hermes import parse_tool_calls

ROLES: Mapping[int, str] = {
    policy.ROLE_SYSTEM: "system",
    policy.ROLE_USER: "user",
    policy.ROLE_ASSISTANT: "assistant",
    policy.ROLE_TOOL: "tool",
}
TOOLLESS = (PROTOCOL_SEARCH_R1, PROTOCOL_WORKFLOW)
BAD = (TOOL_STATUS_FAILED, TOOL_STATUS_INVALID)


@dataclass(frozen=True)
class Said:
    """One message; ``learn`` marks a model's message of this conversation as a training target.

    ``step`` is the index of the step that sampled it, -1 for given messages.
    """

    message: policy.Message
    learn: bool = False
    step: int = -1

    def chat(self) -> dict[str, Any]:
        """Return the message in OpenAI's chat format; a model's message has a loss ``weight`` of 0 or 1."""
        found: dict[str, Any] = {"role": ROLES[self.message.role], "content": self.message.content}
        if self.message.tool_calls:
            # In this format calls have their own field, so their text form is removed from the content.
            found["content"] = parse_tool_calls(self.message.content)[0]
            found["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_json}}
                for c in self.message.tool_calls
            ]
        if self.message.tool_call_id:
            found["tool_call_id"] = self.message.tool_call_id
        if found["role"] == "assistant":
            found["weight"] = int(self.learn)
        return found


@dataclass(frozen=True)
class Conversation:
    """The messages one model saw in sequence, ending with its last message.

    ``part`` counts the conversations of the episode before it. ``tools`` is whether tools were offered; Search-R1's tag
    protocol and the stages of a workflow have none.
    """

    run_id: str
    part: int
    said: tuple[Said, ...]
    steps: tuple[Step, ...]
    tools: bool = True
    segment: Segment | None = None
    """The record of the ids that were in the model's context; None when there is none of exactly these steps."""

    @property
    def messages(self) -> list[policy.Message]:
        return [item.message for item in self.said]

    def before(self, place: int) -> Conversation:
        """Return the conversation up to, and without, one of its messages."""
        return replace(self, said=self.said[:place])

    @property
    def loss_message_count(self) -> int:
        """Return the number of messages that carry loss."""
        return sum(item.learn for item in self.said)


def conversations(trajectory: Trajectory, *, keep_failed: bool = False) -> list[Conversation]:
    """Split a trajectory into its segments; each sampled message is a target in exactly one conversation.

    A segment begins at a compaction, and where a stage of a workflow begins with a prompt of its own, so that each
    target stands behind the messages that the model saw when it was sampled. A completion all of whose calls failed or
    were malformed is shown but not a target, unless ``keep_failed``. Raises ``InvalidField`` for a compaction that
    refers to a missing message.
    """
    everything: list[policy.Message] = []
    parts: list[tuple[list[Said], list[Step]]] = [([], [])]
    stage = ""
    for step in trajectory.steps:
        everything += step.new_messages
        fresh, stage = step.HasField("stage") and step.stage.name != stage, step.stage.name
        # The model saw another beginning from here on: what follows is a conversation of its own.
        if step.HasField("compaction"):
            # Shown again and not learned again: each of these was a target in the conversation before.
            parts.append(([Said(message) for message in view(step, everything)], []))
        elif fresh:
            parts.append(([Said(message) for message in step.new_messages], []))
        else:
            parts[-1][0].extend(Said(message) for message in step.new_messages)
        # Numbered with the given messages: compactions refer to both by their place.
        spoken = own_words(step)
        everything.append(spoken)
        parts[-1][0].append(Said(spoken, keep_failed or worthwhile(step), step.index))
        parts[-1][1].append(step)
    return [
        Conversation(
            trajectory.run_id,
            number,
            tuple(said),
            tuple(steps),
            trajectory.protocol not in TOOLLESS,
            find_segment(trajectory, steps),
        )
        for number, (said, steps) in enumerate(part for part in parts if part[1])
    ]


def find_segment(trajectory: Trajectory, steps: Sequence[Step]) -> Segment | None:
    """Return the segment in which exactly these steps were sampled; None when the record has none."""
    first, last = steps[0].index, steps[-1].index
    if trajectory.segments:
        return next((one for one in trajectory.segments if (one.first_step, one.last_step) == (first, last)), None)
    # Without a compaction or a stage the flat ids are the only segment.
    if len(steps) != len(trajectory.steps):
        return None
    flat = trajectory
    return Segment(first_step=first, last_step=last, token_ids=flat.token_ids, mask=flat.mask, log_probs=flat.log_probs)


def view(step: Step, everything: Sequence[policy.Message]) -> list[policy.Message]:
    """Return the messages that the step's request showed after compaction.

    Raises ``InvalidField`` for a missing one.
    """
    found = []
    for shown in step.compaction.shown:
        if shown.HasField("message"):
            found.append(shown.message)
        elif 0 <= shown.source < len(everything):
            found.append(everything[shown.source])
        else:
            raise InvalidField(f"steps[{step.index}].compaction", f"shows message {shown.source} of {len(everything)}")
    return found


def own_words(step: Step) -> policy.Message:
    """Return the step's completion as an assistant message."""
    completion = step.completion
    return policy.Message(role=policy.ROLE_ASSISTANT, content=completion.text, tool_calls=completion.tool_calls)


def worthwhile(step: Step) -> bool:
    """Return whether the step made no calls or at least one of them worked."""
    statuses = [result.status for result in step.tool_results]
    return not statuses or any(status not in BAD for status in statuses)


def tools_of(specs: Sequence[policy.ToolSpec]) -> list[dict[str, Any]]:
    """Convert tools to OpenAI's function format, sorted by name."""
    return [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": spec.description,
                "parameters": json.loads(spec.parameters_json or "{}"),
            },
        }
        for spec in sorted(specs, key=lambda spec: spec.name)
    ]

"""Conversion of episodes to and from ``planner.v1`` messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from fathom import __version__
from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.domain.chat.messages import ToolCall
from fathom.domain.chat.proto import (
    completion_from_proto,
    completion_to_proto,
    message_from_proto,
    message_to_proto,
    usage_to_proto,
)
from fathom.services.planner.model import episode as model
from fathom.services.planner.model.memory import Memory
from fathom.services.planner.proto.memory import memory_to_proto
from fathom.services.planner.proto.slots import reading_to_proto
from fathom.services.planner.proto.stages import note_from_proto, note_to_proto
from fathom.services.planner.proto.window import compaction_from_proto, compaction_to_proto
from fathom.transport.rpc.contract import proto_hash

STOPS = {
    model.StopReason.FINISHED: pb.STOP_REASON_FINISHED,
    model.StopReason.BUDGET: pb.STOP_REASON_BUDGET,
    model.StopReason.STOPPED: pb.STOP_REASON_STOPPED,
    model.StopReason.FAILED: pb.STOP_REASON_FAILED,
    model.StopReason.UNFINISHED: pb.STOP_REASON_UNFINISHED,
}
STATES = {
    model.ToolStatus.OK: pb.TOOL_STATUS_OK,
    model.ToolStatus.EMPTY: pb.TOOL_STATUS_EMPTY,
    model.ToolStatus.FAILED: pb.TOOL_STATUS_FAILED,
    model.ToolStatus.INVALID: pb.TOOL_STATUS_INVALID,
}


def material_to_proto(material: model.Material) -> pb.Material:
    message = pb.Material(
        number=material.number,
        variable=material.variable,
        computed_by=material.computed_by,
        computed_from=material.computed_from,
    )
    item = material.item
    # Tools report missing items as mappings or as messages of the API.
    if isinstance(item, Mapping):
        item = missing_to_proto(item)
    field = {
        model.MaterialKind.PASSAGE: message.passage,
        model.MaterialKind.SHEET: message.sheet,
        model.MaterialKind.CODE: message.code,
        model.MaterialKind.MISSING: message.missing,
    }[material.kind]
    field.CopyFrom(item)
    return message


def missing_to_proto(item: Mapping[str, Any]) -> common.MissingItem:
    reason = f"MISSING_REASON_{item['reason']}"
    return common.MissingItem(subject=item["subject"], reason=reason, detail=item.get("detail", ""))


def material_from_proto(message: pb.Material) -> model.Material:
    # The names of the oneof's fields are the values of ``MaterialKind``.
    field = message.WhichOneof("item")
    if field is None:
        raise ValueError(f"material {message.number} has no item")
    item: Document | Sheet | pb.CodeRecord | common.MissingItem = getattr(message, field)
    return model.Material(
        message.number,
        model.MaterialKind(field),
        item,
        message.variable,
        message.computed_by,
        tuple(message.computed_from),
    )


def result_to_proto(result: model.ToolResult) -> pb.ToolResult:
    return pb.ToolResult(
        tool_call_id=result.call.id,
        tool=result.call.name,
        intent=result.intent,
        content=result.content,
        status=STATES[result.status],
        duration_ms=result.duration_ms,
        material=[material.number for material in result.material],
        is_cached=result.is_cached,
    )


def call_to_proto(call: ToolCall) -> policy.ToolCall:
    return policy.ToolCall(id=call.id, name=call.name, arguments_json=call.arguments_json)


def step_to_proto(step: model.Step, prompt_hash: str) -> pb.Step:
    message = pb.Step(
        index=step.index,
        new_messages=map(message_to_proto, step.new_messages),
        completion=completion_to_proto(step.completion),
        tool_results=map(result_to_proto, step.results),
        material=[material_to_proto(item) for result in step.results for item in result.material],
        versions=common.VersionStamp(
            fathom=__version__,
            proto_hash=proto_hash(),
            prompt_hash=prompt_hash,
            policy_version=step.completion.version_max,
        ),
    )
    message.context_tokens = step.context_tokens
    if step.compaction is not None:
        message.compaction.CopyFrom(compaction_to_proto(step.compaction))
    if step.stage is not None:
        message.stage.CopyFrom(note_to_proto(step.stage))
    message.end_time.GetCurrentTime()
    return message


def step_from_proto(message: pb.Step) -> model.Step:
    """Convert a recorded step and link its tool results to their calls and materials."""
    states = {value: state for state, value in STATES.items()}
    material = {item.number: material_from_proto(item) for item in message.material}
    completion = completion_from_proto(message.completion)
    calls = {call.id: call for call in completion.tool_calls}
    results = tuple(
        model.ToolResult(
            # Calls that the planner derived, as from search_r1's tags, are not in the completion.
            calls.get(result.tool_call_id, ToolCall(result.tool_call_id, result.tool, "{}")),
            result.intent,
            result.content,
            states[result.status],
            result.duration_ms,
            tuple(material[number] for number in result.material),
            result.is_cached,
        )
        for result in message.tool_results
    )
    new_messages = tuple(message_from_proto(new) for new in message.new_messages)
    compaction = compaction_from_proto(message.compaction) if message.HasField("compaction") else None
    stage = note_from_proto(message.stage) if message.HasField("stage") else None
    return model.Step(message.index, new_messages, completion, results, compaction, message.context_tokens, stage)


def finding_to_proto(mark: model.Finding) -> pb.Finding:
    return pb.Finding(
        start=mark.start,
        end=mark.end,
        kind=f"FINDING_KIND_{mark.kind.name}",
        text=mark.text,
        cited=mark.cited,
        detail=mark.detail,
        found_in=mark.found_in,
    )


def answer_to_proto(answer: model.Answer) -> pb.Answer:
    message = pb.Answer(
        markdown=answer.markdown,
        cited=answer.cited,
        unresolved=answer.unresolved,
        model=answer.model,
        findings=[finding_to_proto(mark) for mark in answer.findings],
        material=[material_to_proto(item) for item in answer.material],
        clarification=None
        if answer.clarification is None
        else pb.Clarification(reference=answer.clarification.reference, options=answer.clarification.options),
    )
    if answer.reading is not None:
        message.reading.CopyFrom(reading_to_proto(answer.reading))
        message.open.extend(answer.reading.open_texts)
    return message


def segments_to_proto(episode: model.Episode) -> list[pb.Segment]:
    """Return the segments of an episode with compactions or stages; [] for any other, whose flat ids are complete."""
    # Readers of trajectories that know no segments find everything in the flat ids, as long as there is one segment.
    if not any(map(attrgetter("compaction"), episode.steps)) and not any(map(attrgetter("stage"), episode.steps)):
        return []
    # A segment ends where the next one begins; only the first steps are stored.
    lasts = [*(part.first_step - 1 for part in episode.segments[1:]), episode.steps[-1].index]
    return [
        pb.Segment(
            first_step=part.first_step,
            last_step=last,
            token_ids=part.token_ids,
            mask=part.mask,
            log_probs=part.log_probs,
        )
        for part, last in zip(episode.segments, lasts, strict=True)
    ]


def trajectory_to_proto(
    episode: model.Episode,
    outcome: model.Outcome | None,
    protocol: pb.Protocol,
    lane: common.Lane,
    steps: Sequence[pb.Step],
) -> pb.Trajectory:
    """Convert an episode; ``outcome`` is None while it runs."""
    # The flat ids are those of the last segment.
    (low, high), flat = episode.versions, episode.segments[-1]
    message = pb.Trajectory(
        run_id=episode.task.run_id,
        question=episode.task.question,
        protocol=protocol,
        steps=steps,
        token_ids=flat.token_ids,
        mask=flat.mask,
        log_probs=flat.log_probs,
        version_min=low,
        version_max=high,
        exact=episode.exact,
        lane=lane,
        usage=usage_to_proto(episode.usage_since(0)),
        hash=episode.hash(),
        segments=segments_to_proto(episode),
        max_context_tokens=episode.max_context_tokens,
        given=map(material_to_proto, episode.task.given),
        prompts=list_prompts(episode.task),
    )
    if episode.task.memory != Memory():
        message.remembered.CopyFrom(memory_to_proto(episode.task.memory))
    if outcome is not None:
        message.stop_reason = STOPS[outcome.stop]
        message.error, message.culprit, message.error_code = outcome.error, outcome.culprit, outcome.error_code
        if outcome.answer is not None:
            message.answer.CopyFrom(answer_to_proto(outcome.answer))
    return message


def list_prompts(task: model.Task) -> dict[str, str]:
    """Return the prompt ids by stage, and the name of the data's summary."""
    return {**task.prompts, **({"data": task.summary_name} if task.data_summary else {})}

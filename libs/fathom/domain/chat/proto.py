"""Conversion of the plain data to and from ``policy.v1`` messages."""

from __future__ import annotations

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import (
    Completion,
    FinishReason,
    Message,
    Role,
    Sampling,
    ToolCall,
    ToolFormat,
    ToolSpec,
    Usage,
)

ROLES = {
    Role.SYSTEM: pb.ROLE_SYSTEM,
    Role.USER: pb.ROLE_USER,
    Role.ASSISTANT: pb.ROLE_ASSISTANT,
    Role.TOOL: pb.ROLE_TOOL,
}
REASONS = {
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.TOOL_CALLS: pb.FINISH_REASON_TOOL_CALLS,
    FinishReason.ABORT: pb.FINISH_REASON_ABORT,
    FinishReason.CONTENT_FILTER: pb.FINISH_REASON_CONTENT_FILTER,
}
ROLES_BACK = {value: role for role, value in ROLES.items()}
REASONS_BACK = {value: reason for reason, value in REASONS.items()}


def tool_call_to_proto(call: ToolCall) -> pb.ToolCall:
    return pb.ToolCall(id=call.id, name=call.name, arguments_json=call.arguments_json)


def tool_call_from_proto(call: pb.ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, call.arguments_json)


def message_to_proto(message: Message) -> pb.Message:
    return pb.Message(
        role=ROLES[message.role],
        content=message.content,
        tool_calls=map(tool_call_to_proto, message.tool_calls),
        tool_call_id=message.tool_call_id,
        opaque_json=message.opaque_json,
    )


def message_from_proto(message: pb.Message) -> Message:
    """Convert a message; raise ``InvalidField("messages.role")`` for an unspecified role."""
    if message.role not in ROLES_BACK:
        raise InvalidField("messages.role", "must be system, user, assistant or tool")
    calls = tuple(map(tool_call_from_proto, message.tool_calls))
    return Message(ROLES_BACK[message.role], message.content, calls, message.tool_call_id, message.opaque_json)


def tool_spec_to_proto(spec: ToolSpec) -> pb.ToolSpec:
    return pb.ToolSpec(name=spec.name, description=spec.description, parameters_json=spec.parameters_json)


def tool_spec_from_proto(spec: pb.ToolSpec) -> ToolSpec:
    return ToolSpec(spec.name, spec.description, spec.parameters_json)


def tool_format_from_proto(value: pb.ToolFormat) -> ToolFormat:
    """Convert a tool format; unspecified means Hermes."""
    return ToolFormat.TAGS if value == pb.TOOL_FORMAT_TAGS else ToolFormat.HERMES


def sampling_to_proto(sampling: Sampling) -> pb.Sampling:
    return pb.Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        max_tokens=sampling.max_tokens,
        stop=sampling.stop,
        seed=sampling.seed,
        reasoning_effort=sampling.reasoning_effort,
    )


def sampling_from_proto(sampling: pb.Sampling) -> Sampling:
    """Convert sampling settings; ``top_p`` 0 means 1, which cuts nothing."""
    return Sampling(
        sampling.temperature,
        sampling.top_p or 1.0,
        sampling.top_k,
        sampling.max_tokens,
        tuple(sampling.stop),
        sampling.seed,
        sampling.reasoning_effort,
    )


def usage_to_proto(usage: Usage) -> common.Usage:
    return common.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        duration_ms=usage.duration_ms,
        reasoning_tokens=usage.reasoning_tokens,
        estimated=usage.estimated,
        cost=usage.cost,
    )


def usage_from_proto(usage: common.Usage) -> Usage:
    return Usage(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cached_tokens,
        usage.duration_ms,
        usage.reasoning_tokens,
        usage.estimated,
        usage.cost,
    )


def completion_to_proto(completion: Completion) -> pb.Completion:
    return pb.Completion(
        prompt_token_ids=completion.prompt_token_ids,
        sampled_token_ids=completion.sampled_token_ids,
        log_probs=completion.log_probs,
        text=completion.text,
        tool_calls=map(tool_call_to_proto, completion.tool_calls),
        finish_reason=REASONS[completion.finish_reason],
        version_min=completion.version_min,
        version_max=completion.version_max,
        usage=usage_to_proto(completion.usage),
        exact=completion.exact,
        model=completion.model,
        boundary_tokens=completion.boundary_tokens,
        reasoning=completion.reasoning,
        opaque_json=completion.opaque_json,
    )


def completion_from_proto(completion: pb.Completion) -> Completion:
    return Completion(
        tuple(completion.prompt_token_ids),
        tuple(completion.sampled_token_ids),
        tuple(completion.log_probs),
        completion.text,
        tuple(map(tool_call_from_proto, completion.tool_calls)),
        REASONS_BACK[completion.finish_reason],
        completion.version_min,
        completion.version_max,
        usage_from_proto(completion.usage),
        completion.exact,
        completion.model,
        completion.boundary_tokens,
        completion.reasoning,
        completion.opaque_json,
    )

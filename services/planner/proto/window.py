"""Conversion of the window's record and settings to and from ``planner.v1`` messages."""

from __future__ import annotations

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.chat.proto import message_from_proto, message_to_proto, usage_from_proto, usage_to_proto
from fathom.services.planner.model.compaction import Compaction, StepPolicy, ViewMessage, WindowSettings

POLICIES = {
    StepPolicy.OFF: pb.STEP_POLICY_OFF,
    StepPolicy.DELETE: pb.STEP_POLICY_DELETE,
    StepPolicy.SUMMARIZE: pb.STEP_POLICY_SUMMARIZE,
    StepPolicy.HYBRID: pb.STEP_POLICY_HYBRID,
}
POLICIES_BACK = {value: policy for policy, value in POLICIES.items()}
# Below this not even the system prompt and the question fit.
MIN_TOKENS = 1_024


def settings_from_proto(message: pb.Window, default: WindowSettings) -> WindowSettings:
    """Apply a request's settings to the defaults; raise ``InvalidField``. A request can only shrink the window."""
    if message.policy and message.policy not in POLICIES_BACK:
        raise InvalidField("window.policy", f"{message.policy} is no step policy")
    # Only to shrink: a request must not make the planner send more than the model can read.
    if message.tokens and not MIN_TOKENS <= message.tokens <= default.tokens:
        raise InvalidField("window.tokens", f"must be {MIN_TOKENS:,} to {default.tokens:,}, or 0 for the latter")
    settings = default.within(message.tokens)
    policy = POLICIES_BACK[message.policy] if message.policy else default.policy
    return WindowSettings(
        policy,
        settings.tokens,
        settings.soft_tokens,
        settings.trigger,
        settings.keep_results,
        settings.keep_steps,
    )


def compaction_to_proto(compaction: Compaction) -> pb.Compaction:
    message = pb.Compaction(
        policy=POLICIES[compaction.policy],
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        dropped=compaction.dropped,
        usage=usage_to_proto(compaction.usage),
        written=compaction.written,
        failures=compaction.failures,
        numbers_left_out=compaction.numbers_left_out,
        window_tokens=compaction.window_tokens,
    )
    for item in compaction.shown:
        text = None if item.message is None else message_to_proto(item.message)
        message.shown.add(source=item.source, message=text)
    return message


def compaction_from_proto(message: pb.Compaction) -> Compaction:
    return Compaction(
        POLICIES_BACK[message.policy],
        tuple(
            ViewMessage(item.source, message_from_proto(item.message) if item.HasField("message") else None)
            for item in message.shown
        ),
        message.tokens_before,
        message.tokens_after,
        tuple(message.dropped),
        usage_from_proto(message.usage),
        message.written,
        message.failures,
        message.numbers_left_out,
        message.window_tokens,
    )

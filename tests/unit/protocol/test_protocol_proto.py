"""Plain data ⇄ messages: nothing is lost on the way."""

import pytest

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
from fathom.domain.chat.proto import (
    completion_from_proto,
    completion_to_proto,
    message_from_proto,
    message_to_proto,
    sampling_from_proto,
    sampling_to_proto,
    tool_format_from_proto,
    tool_spec_from_proto,
    tool_spec_to_proto,
)

CALL = ToolCall("c1", "search", '{"query": "问"}')


@pytest.mark.parametrize("role", Role)
def test_messages(role: Role) -> None:
    message = Message(role, "文", (CALL,), "c0", '{"origin": "far"}')
    assert message_from_proto(message_to_proto(message)) == message


def test_a_message_without_role_is_refused() -> None:
    with pytest.raises(InvalidField, match="role"):
        message_from_proto(pb.Message(content="x"))


def test_tools_and_sampling() -> None:
    spec = ToolSpec("search", "finds", "{}")
    assert tool_spec_from_proto(tool_spec_to_proto(spec)) == spec
    sampling = Sampling(0.5, 0.25, 3, 4, ("</a>",), 2**40)
    assert sampling_from_proto(sampling_to_proto(sampling)) == sampling
    assert sampling_from_proto(pb.Sampling()) == Sampling()


@pytest.mark.parametrize("reason", FinishReason)
def test_completions(reason: FinishReason) -> None:
    usage = Usage(1, 2, 3, 4, 1, True, 0.5)
    completion = Completion((1, 2), (3,), (-0.5,), "t", (CALL,), reason, 1, 2, usage, True, "m", 1, "hm", "{}")
    assert completion_from_proto(completion_to_proto(completion)) == completion


def test_unspecified_format_means_hermes() -> None:
    assert tool_format_from_proto(pb.TOOL_FORMAT_UNSPECIFIED) is ToolFormat.HERMES
    assert tool_format_from_proto(pb.TOOL_FORMAT_TAGS) is ToolFormat.TAGS

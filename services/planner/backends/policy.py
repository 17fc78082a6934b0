"""The policy service as the loop's source of completions."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.errors import DependencyFailed
from fathom.ids import new_id
from fathom.protocol.messages import Completion, Message, Role, Sampling, ToolSpec
from fathom.protocol.proto import completion_from_proto, message_to_proto, sampling_to_proto, tool_spec_to_proto
from services.planner.model import Task
from services.planner.window.view import View


class PolicyService:
    """Generates through ``clients.policy``; earlier ids go verbatim, so nothing is ever tokenised twice."""

    def __init__(self, clients: Clients, *, tags: bool) -> None:
        self._clients = clients
        self._format = pb.TOOL_FORMAT_TAGS if tags else pb.TOOL_FORMAT_HERMES

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
    ) -> Completion:
        """One completion; raises ``DependencyFailed("policy")`` when the stream ends without one."""
        request = pb.GenerateRequest(
            request_id=request_id,
            model=task.model,
            messages=[message_to_proto(message) for message in view.messages],
            context_token_ids=view.token_ids,
            context_messages=view.covered,
            tools=[tool_spec_to_proto(tool) for tool in tools],
            tool_format=self._format,
            sampling=sampling_to_proto(sampling),
            policy_version=task.policy_version,
        )
        async for response in self._clients.policy.generate(request):
            if response.HasField("completion"):
                return completion_from_proto(response.completion)
        raise DependencyFailed("policy", "the stream ended without a completion")


async def complete(clients: Clients, model: str, system: str, text: str, max_tokens: int = 0) -> str:
    """One text from a model or role without tools; raises ``DependencyFailed("policy")`` when there is none."""
    request = pb.GenerateRequest(
        request_id=new_id("complete"),
        model=model,
        messages=[
            message_to_proto(Message(Role.SYSTEM, system)),
            message_to_proto(Message(Role.USER, text)),
        ],
        sampling=sampling_to_proto(Sampling(max_tokens=max_tokens)),
    )
    async for response in clients.policy.generate(request):
        if response.HasField("completion"):
            return completion_from_proto(response.completion).text
    raise DependencyFailed("policy", "the stream ended without a completion")

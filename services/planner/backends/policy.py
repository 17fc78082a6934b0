"""The policy service as the loop's source of completions, and as the window's tokenizer and summariser."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.clients.completions import completed
from fathom.ids import new_id
from fathom.protocol.messages import Completion, Message, Role, Sampling, ToolSpec
from fathom.protocol.proto import completion_from_proto, message_to_proto, sampling_to_proto, tool_spec_to_proto
from services.planner.model import Task
from services.planner.window.view import View

WRITER = "writer"


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
        hear: Callable[[str], None] | None = None,
    ) -> Completion:
        """One completion, whose text ``hear`` is given as it comes.

        Raises ``DependencyFailed("policy")`` when the stream ends without one.
        """
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
        return completion_from_proto(await completed(self._clients, request, hear))


class PolicyTokens:
    """Counts tokens through ``clients.policy``: the planner has no tokenizer of its own."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        """Tokens of messages by the model's chat template; ``InvalidField("model")`` when it tells no ids."""
        request = pb.TokenizeRequest(
            model=model,
            messages=[message_to_proto(message) for message in messages],
            tools=[tool_spec_to_proto(tool) for tool in tools],
            add_generation_prompt=prompt,
        )
        return len((await self._clients.policy.tokenize(request)).token_ids)

    async def count_text(self, model: str, text: str) -> int:
        """Tokens of plain text; an empty one has none."""
        if not text:
            return 0
        return len((await self._clients.policy.tokenize(pb.TokenizeRequest(model=model, text=text))).token_ids)

    async def window(self, model: str) -> int:
        """The model's own window in tokens; 0 when it does not say."""
        return (await self._clients.policy.get_model(pb.GetModelRequest(model=model))).model.window_tokens


class PolicyWriter:
    """Writes notes with the model of the role ``writer``."""

    def __init__(self, clients: Clients, max_tokens: int) -> None:
        self._clients, self._max_tokens = clients, max_tokens

    async def write(self, request_id: str, messages: Sequence[Message]) -> Completion:
        """One completion without tools; raises ``FathomError``."""
        request = pb.GenerateRequest(
            request_id=request_id,
            model=WRITER,
            messages=[message_to_proto(message) for message in messages],
            sampling=pb.Sampling(max_tokens=self._max_tokens),
        )
        return completion_from_proto(await completed(self._clients, request))


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
    return (await completed(clients, request)).text

"""Adapters of the policy service: completions, token counts, notes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from operator import attrgetter
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.clients.client import STREAM_TIMEOUT_S
from fathom.clients.completions import read_completion
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolSpec
from fathom.domain.chat.proto import completion_from_proto, message_to_proto, sampling_to_proto, tool_spec_to_proto
from fathom.services.planner.model.episode import Task
from fathom.services.planner.model.view import View
from fathom.services.planner.model.waits import current_waits

WRITER = "writer"


class PolicyService:
    """Source of completions through ``clients.policy``."""

    def __init__(self, clients: Clients, *, tags: bool, timeout_s: float = STREAM_TIMEOUT_S) -> None:
        """Create the source; ``timeout_s`` is the longest time of one completion."""
        self._clients, self._timeout_s = clients, timeout_s
        self._format = pb.TOOL_FORMAT_TAGS if tags else pb.TOOL_FORMAT_HERMES

    # The reading's own coroutine: whatever arrives from the model passes every coroutine above it.
    def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Callable[[str], None] | None = None,
    ) -> Coroutine[Any, Any, Completion]:
        """Return a completion; ``hear`` is called with its text as it streams, which it does not without.

        Raises ``DependencyFailed("policy")`` when the stream ends without one.
        """
        request = pb.GenerateRequest(
            request_id=request_id,
            model=task.model,
            messages=map(message_to_proto, view.messages),
            # Earlier ids go back verbatim: decoding and tokenizing them again may give other ids than were sampled, and
            # a trainer would learn from those.
            context_token_ids=view.token_ids,
            context_messages=view.covered,
            tools=map(tool_spec_to_proto, tools),
            tool_format=self._format,
            sampling=sampling_to_proto(sampling),
            policy_version=task.policy_version,
            # A delta costs every layer between the two services a call.
            without_deltas=hear is None,
        )
        waiting = current_waits().waiting
        return read_completion(
            self._clients, request, completion_from_proto, hear, timeout_s=self._timeout_s, waiting=waiting
        )


class PolicyTokens:
    """Token counter through ``clients.policy``; the planner has no tokenizer."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        """Return the tokens of messages by the model's chat template.

        Raises ``InvalidField("model")`` when the model exposes no token ids.
        """
        request = pb.TokenizeRequest(
            model=model,
            messages=map(message_to_proto, messages),
            tools=map(tool_spec_to_proto, tools),
            add_generation_prompt=prompt,
        )
        return len((await self._clients.policy.tokenize(request)).token_ids)

    async def count_text(self, model: str, text: str) -> int:
        """Return the tokens of plain text."""
        if not text:
            return 0
        return len((await self._clients.policy.tokenize(pb.TokenizeRequest(model=model, text=text))).token_ids)

    async def window(self, model: str) -> int:
        """Return the model's window in tokens; 0 when unknown."""
        return (await self._clients.policy.get_model(pb.GetModelRequest(model=model))).model.window_tokens


class PolicyWriter:
    """Writer of notes with the model of the role ``writer``."""

    def __init__(self, clients: Clients, max_tokens: int) -> None:
        self._clients, self._max_tokens = clients, max_tokens

    async def write(self, request_id: str, messages: Sequence[Message]) -> Completion:
        """Return one completion without tools; raise ``FathomError``."""
        request = pb.GenerateRequest(
            request_id=request_id,
            # The role, not a model: policy's settings say which model writes.
            model=WRITER,
            messages=map(message_to_proto, messages),
            sampling=pb.Sampling(max_tokens=self._max_tokens),
            without_deltas=True,
        )
        return await read_completion(self._clients, request, completion_from_proto)


async def complete(
    clients: Clients,
    model: str,
    system: str,
    text: str,
    max_tokens: int = 0,
    then: Sequence[Message] = (),
    schema_json: str = "",
) -> str:
    """Return the text of one completion without tools; raise ``DependencyFailed("policy")`` when there is none.

    ``then`` are the messages after ``text``: an earlier completion and what is said of it. ``schema_json`` is the JSON
    schema that the reply is to have; "" leaves its form open.
    """
    request = pb.GenerateRequest(
        request_id=new_id("complete"),
        model=model,
        messages=[
            message_to_proto(Message(Role.SYSTEM, system)),
            message_to_proto(Message(Role.USER, text)),
            *map(message_to_proto, then),
        ],
        sampling=sampling_to_proto(Sampling(max_tokens=max_tokens)),
        without_deltas=True,
        response_schema_json=schema_json,
    )
    return str(await read_completion(clients, request, attrgetter("text")))

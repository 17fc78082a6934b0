"""Chat completions over the models themselves: policy's Generate, without the agent and without its tools."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.clients.completions import read_completion
from fathom.core.errors import DependencyFailed, InvalidField
from fathom.core.ids import new_id
from fathom.services.gateway.openai.bodies import ROLES, ChatMessage, ModelRequest
from fathom.services.gateway.openai.chunks import make_chunk, make_usage

FINISH_REASONS = {
    policy.FINISH_REASON_LENGTH: "length",
    policy.FINISH_REASON_TOOL_CALLS: "tool_calls",
    policy.FINISH_REASON_CONTENT_FILTER: "content_filter",
}
TIMEOUT_S = 600.0


class ModelDoor:
    """Samples completions of one model."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def complete(self, request: ModelRequest) -> dict[str, Any]:
        """Return a whole completion."""
        found = await read_completion(self._clients, make_request(request), lambda one: one, timeout_s=TIMEOUT_S)
        message = {"role": "assistant", "content": found.text or None, "refusal": None, **describe_calls(found)}
        if found.reasoning:
            message["reasoning_content"] = found.reasoning
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": read_finish(found), "logprobs": None}
        ident = new_id("chatcmpl")
        whole = {"id": ident, "object": "chat.completion", "created": int(time.time()), "model": found.model}
        if request.return_token_ids:
            choice["token_ids"] = list(found.sampled_token_ids)
            whole["prompt_token_ids"] = list(found.prompt_token_ids)
        return {**whole, "choices": [choice], "usage": make_usage(found.usage)}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the chunks of a completion; where tools are on offer, text comes once it is known to be no call."""
        ident, created = new_id("chatcmpl"), int(time.time())
        yield make_chunk(ident, request.model, created, {"role": "assistant", "content": ""})
        # A call is text until its end: a client must not be sent the beginning of one as an answer.
        is_open, sent = not offers_tools(request), 0
        async with aclosing(self._clients.policy.generate(make_request(request), timeout_s=TIMEOUT_S)) as responses:
            async for response in responses:
                if response.delta.reasoning:
                    yield make_chunk(ident, request.model, created, {"reasoning_content": response.delta.reasoning})
                elif response.delta.text and is_open:
                    sent += len(response.delta.text)
                    yield make_chunk(ident, request.model, created, {"content": response.delta.text})
                if not response.HasField("completion"):
                    continue
                found = response.completion
                rest: dict[str, Any] = {} if sent or not found.text else {"content": found.text}
                yield make_chunk(ident, found.model, created, {**rest, **describe_calls(found)}, read_finish(found))
                if request.has_usage_at_end:
                    usage = make_usage(found.usage)
                    yield {**make_chunk(ident, found.model, created, {}), "choices": [], "usage": usage}
                return
        raise DependencyFailed("policy", "the stream ended without a completion")


def offers_tools(request: ModelRequest) -> bool:
    return bool(request.tools) and request.tool_choice != "none"


def make_request(request: ModelRequest) -> policy.GenerateRequest:
    """Convert a request; raise ``InvalidField`` for what policy cannot do."""
    sampling = request.sampling() or policy.Sampling(temperature=1.0)
    sampling.max_tokens, sampling.top_k = request.token_limit, request.top_k or 0
    sampling.reasoning_effort = request.reasoning_effort or ""
    sampling.stop.extend([request.stop] if isinstance(request.stop, str) else request.stop or ())
    tools = [
        policy.ToolSpec(
            name=tool.function.name,
            description=tool.function.description,
            parameters_json=json.dumps(tool.function.parameters),
        )
        for tool in (request.tools or () if offers_tools(request) else ())
    ]
    return policy.GenerateRequest(
        request_id=new_id("req"),
        model=request.model,
        messages=[convert_message(message, f"messages[{place}]") for place, message in enumerate(request.messages)],
        tools=tools,
        tool_format=policy.TOOL_FORMAT_HERMES,
        sampling=sampling,
        response_schema_json=read_schema(request),
    )


def convert_message(message: ChatMessage, field: str) -> policy.Message:
    """Convert a message with its calls."""
    calls = [
        policy.ToolCall(id=call.id, name=call.function.name, arguments_json=call.function.arguments)
        for call in message.tool_calls or ()
    ]
    return policy.Message(
        role=ROLES[message.role], content=message.text(field), tool_calls=calls, tool_call_id=message.tool_call_id
    )


def read_schema(request: ModelRequest) -> str:
    """Return the JSON schema that the text must satisfy, "" for none; raise ``InvalidField`` for a missing one."""
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return ""
    if wanted.type == "json_object":
        return json.dumps({"type": "object"})
    schema = (wanted.json_schema or {}).get("schema")
    if not isinstance(schema, dict):
        raise InvalidField("response_format.json_schema.schema", "is no JSON schema")
    return json.dumps(schema)


def describe_calls(found: policy.Completion) -> dict[str, Any]:
    """Return the completion's tool calls as a part of a message; nothing without calls."""
    calls = [
        {
            "index": place,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_json},
        }
        for place, call in enumerate(found.tool_calls)
    ]
    return {"tool_calls": calls} if calls else {}


def read_finish(found: policy.Completion) -> str:
    return FINISH_REASONS.get(found.finish_reason, "stop")

"""Requests as an endpoint wants them: fields, messages, opaque parts of earlier replies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from fathom.core.ids import sha256
from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolCall, ToolFormat
from fathom.services.policy.backends.chat import to_openai_functions
from fathom.services.policy.backends.openai.opaque import read_opaque
from fathom.services.policy.backends.openai.profile import RequestProfile
from fathom.services.policy.model import Request, parse_json_object

NINE = re.compile(r"[A-Za-z0-9]{9}")
IN_JSON = "Answer with one JSON object and nothing else. It satisfies this JSON schema:\n"


def build_body(request: Request, profile: RequestProfile) -> dict[str, Any]:
    """Return the body of a request; raise ``InvalidField`` for a schema that is no object."""
    sampling = request.sampling
    fields: dict[str, Any] = {"max_tokens": sampling.max_tokens or profile.max_tokens}
    # What nobody asked for is not sent: thinking models refuse sampling parameters, and a model's own default suits it.
    if sampling.temperature or profile.greedy:
        fields["temperature"] = sampling.temperature
    if sampling.top_p < 1:
        fields["top_p"] = sampling.top_p
    if sampling.top_k:
        fields["top_k"] = sampling.top_k  # not OpenAI's own, but many others know it
    if sampling.reasoning_effort:
        fields["reasoning_effort"] = sampling.reasoning_effort
    # 0 asks for a seed derived from the request, which only engines of ours do; the endpoint then draws its own.
    if sampling.seed:
        fields["seed"] = sampling.seed
    if sampling.reasoning_effort:
        fields["reasoning_effort"] = sampling.reasoning_effort
    # With tags the tools are described in the prompt; native ones would invite calls of another format.
    if request.tools and request.tool_format is ToolFormat.HERMES:
        fields["tools"] = to_openai_functions(request.tools)
    # Without it, streamed responses have no usage at all.
    fields["stream_options"] = {"include_usage": True}
    messages = [to_openai_message(message, profile) for message in request.messages]
    if request.response_schema_json:
        set_schema(fields, messages, request.response_schema_json, profile)
    body: dict[str, Any] = {"model": profile.model, "messages": messages, "stream": True}
    for name, value in fields.items():
        if name not in profile.omit:
            body[profile.rename.get(name, name)] = value
    added = {name: value for name, value in profile.add.items() if name not in TOOL_FIELDS or "tools" in body}
    return {**body, **deepcopy(added)}


TOOL_FIELDS = frozenset({"tool_choice", "parallel_tool_calls"})
"""Fields that endpoints refuse in requests without tools."""


def set_schema(
    fields: dict[str, Any], messages: list[dict[str, Any]], schema_json: str, profile: RequestProfile
) -> None:
    """Ask for output by a JSON schema in the way that the endpoint knows; raise ``InvalidField`` if it is no object."""
    response_format = build_response_format(schema_json)
    if profile.schema == "schema":
        fields["response_format"] = response_format
        return
    if profile.schema == "json":
        fields["response_format"] = {"type": "json_object"}
    # Behind the last message, so that the beginning stays the same for caches.
    last = messages[-1]
    instruction = f"{IN_JSON}{json.dumps(response_format['json_schema']['schema'], ensure_ascii=False)}"
    if last["role"] == Role.USER.value:
        last["content"] = f"{last['content']}\n\n{instruction}"
    else:
        messages.append({"role": Role.USER.value, "content": instruction})


def build_response_format(schema_json: str) -> dict[str, Any]:
    """Return the parameter for structured output; raise ``InvalidField`` when the schema is not a JSON object."""
    schema = parse_json_object("response_schema_json", "it", schema_json)
    return {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}}


def to_openai_message(message: Message, profile: RequestProfile) -> dict[str, Any]:
    """Return a message in OpenAI's format, with what this model itself had sent beside it.

    Tool calls written in the text become native ones.
    """
    body: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.role is Role.TOOL:
        body["tool_call_id"] = name_call(message.tool_call_id, profile)
    if message.role is not Role.ASSISTANT:
        return body
    fields, call_fields = read_opaque(message.opaque_json, profile.origin)
    if message.tool_calls:
        # Calls become native fields below; left in the text as well, the model would read them twice.
        if "<tool_call>" in message.content:
            body["content"] = parse_tool_calls(message.content)[0]
        body["tool_calls"] = [
            to_openai_call(call, call_fields[place] if place < len(call_fields) else {}, profile)
            for place, call in enumerate(message.tool_calls)
        ]
        fill(body["tool_calls"][0], profile.family.call_default)
        # The message's own fields come later and win.
        fill(body, profile.family.message_default)
    elif not message.content:
        # Endpoints refuse an assistant message with nothing in it, as an empty reply is.
        body["content"] = "-"
    return {**body, **fields}


def to_openai_call(call: ToolCall, extras: Mapping[str, Any], profile: RequestProfile) -> dict[str, Any]:
    function = {"name": call.name, "arguments": make_object(call.arguments_json)}
    return {"id": name_call(call.id, profile), "type": "function", "function": function, **extras}


def make_object(arguments_json: str) -> str:
    """Return the arguments of a call as a JSON object; text that is none, such as a cut call's, as a field of one."""
    # Chat templates and Google's endpoint parse the arguments of earlier calls, and fail on what a model got wrong.
    try:
        is_object = isinstance(json.loads(arguments_json), dict)
    except (ValueError, RecursionError):
        is_object = False
    return arguments_json if is_object else json.dumps({"as_written": arguments_json}, ensure_ascii=False)


def name_call(call_id: str, profile: RequestProfile) -> str:
    """Return the id of a call in the form that the endpoint takes, the same for a call and its result."""
    if not profile.family.nine_character_ids or NINE.fullmatch(call_id):
        return call_id
    return sha256(call_id.encode())[:9]


def fill(body: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Add the fields that are missing."""
    for name, value in defaults.items():
        body.setdefault(name, deepcopy(value))

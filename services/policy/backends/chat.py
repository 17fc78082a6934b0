"""Messages to token ids by the "continuous token" rule: earlier ids stay as they are, only the new suffix is rendered.

A template is append-only when rendering a longer conversation only adds to the rendering of a shorter one.
The suffix is found with a stand-in for the past: ids(template(stand-in + new)) minus ids(template(stand-in)).
What the model did not emit between its last token and the new messages (``<|im_end|>\\n`` when it was cut,
``\\n`` when it ended its turn) belongs to the suffix, hence to the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.errors import Internal, InvalidField
from fathom.protocol.hermes import OPEN, format_tool_call
from fathom.protocol.messages import Message, Role, ToolSpec
from services.policy.model import Request, json_object

STAND_IN = (Message(Role.SYSTEM, "s"), Message(Role.USER, "u"), Message(Role.ASSISTANT, "stand-in"))
TOOL_INSTRUCTION = (
    "# Tools\n\nYou may call these tools. Each is one JSON object per line:\n<tools>\n{tools}\n</tools>\n\n"
    'To call one, write\n<tool_call>\n{{"name": <tool name>, "arguments": <JSON object>}}\n</tool_call>'
)


class Template(Protocol):
    """A tokenizer with a chat template."""

    end_ids: frozenset[int]
    """Ids that end a turn."""

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool) -> str:
        """Text of a conversation; raises ``InvalidField("messages")`` for one that the template refuses."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of rendered text; nothing is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included."""
        ...


@dataclass(frozen=True)
class Rendered:
    """Ids to append to the context before sampling; the first ``boundary`` of them end the turn before."""

    ids: list[int]
    boundary: int = 0


def rendered(template: Template, request: Request) -> Rendered:
    """What has to follow ``request.context_token_ids`` before sampling.

    Raises ``InvalidField("context_token_ids")`` when these do not begin as the messages do, and ``Internal``
    when the template is not append-only.
    """
    covered = request.context_messages
    if covered == 0:
        return Rendered(template.encode(template.render(request.messages, request.tools, True)))
    if request.messages[covered - 1].role is not Role.ASSISTANT:
        raise InvalidField("context_messages", "must cover the conversation up to an assistant message")
    check_beginning(template, request)
    return suffix(template, request)


def check_beginning(template: Template, request: Request) -> None:
    """What precedes the first answer was rendered by this template: it must be how the ids begin."""
    roles = [message.role for message in request.messages[: request.context_messages]]
    opening = request.messages[: roles.index(Role.ASSISTANT)]
    if not opening:
        return
    expected = template.encode(template.render(opening, request.tools, True))
    if list(request.context_token_ids[: len(expected)]) != expected:
        raise InvalidField("context_token_ids", "do not begin with the rendering of the first messages and tools")


def suffix(template: Template, request: Request) -> Rendered:
    """Ids of the new messages, the boundary before them and the generation prompt after them."""
    new = request.messages[request.context_messages :]
    past_text = template.render(STAND_IN, (), False)
    whole_text = template.render((*STAND_IN, *new), (), True)
    past, whole = template.encode(past_text), template.encode(whole_text)
    if not whole_text.startswith(past_text) or whole[: len(past)] != past:
        raise Internal("the chat template is not append-only: a longer conversation does not begin as a shorter one")
    answer = STAND_IN[-1].content
    boundary = template.encode(past_text[past_text.rindex(answer) + len(answer) :])
    if past[len(past) - len(boundary) :] != boundary:
        raise Internal("the chat template does not end a turn with tokens of its own")
    last = request.context_token_ids[-1]
    emitted = 1 if boundary and last in template.end_ids and boundary[0] == last else 0
    return Rendered([*boundary[emitted:], *whole[len(past) :]], len(boundary) - emitted)


def written(message: Message) -> str:
    """Content of a message as text; calls that are only structured are written out in Hermes form."""
    if not message.tool_calls or OPEN in message.content:
        return message.content
    calls = (format_tool_call(call.name, arguments(call.arguments_json)) for call in message.tool_calls)
    return "\n".join(part for part in (message.content, *calls) if part)


def arguments(arguments_json: str) -> dict[str, object]:
    """Arguments of an earlier call; what is no object is shown as it was written."""
    try:
        parsed = json.loads(arguments_json)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"arguments": arguments_json}


def with_tools(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The conversation with the tools written into its system message, for templates that know no tools."""
    if not tools:
        return list(messages)
    text = TOOL_INSTRUCTION.format(tools="\n".join(json.dumps(one, ensure_ascii=False) for one in functions(tools)))
    if messages and messages[0].role is Role.SYSTEM:
        return [Message(Role.SYSTEM, f"{messages[0].content}\n\n{text}"), *messages[1:]]
    return [Message(Role.SYSTEM, text), *messages]


def functions(tools: Sequence[ToolSpec]) -> list[dict[str, object]]:
    """Tools in OpenAI's form by name: in whatever order they come, the prompt begins with the same tokens (row P09)."""
    return [function(tool) for tool in sorted(tools, key=lambda tool: tool.name)]


def function(tool: ToolSpec) -> dict[str, object]:
    """A tool in OpenAI's function form; raises ``InvalidField("tools")`` when its schema is no JSON object."""
    parameters = json_object("tools", f"parameters_json of {tool.name!r}", tool.parameters_json or "{}")
    described = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": described}

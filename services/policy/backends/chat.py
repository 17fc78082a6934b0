r"""Incremental chat templating: earlier token ids stay as they are, and only the new messages are rendered.

A template is append-only when the rendering of a longer conversation starts with that of a shorter one. The suffix
is computed with a stand-in for the past: ids(template(stand-in + new)) minus ids(template(stand-in)).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.core.errors import Internal, InvalidField
from fathom.domain.chat.hermes import OPEN, format_tool_call
from fathom.domain.chat.messages import Message, Role, ToolSpec
from fathom.services.policy.model import Request, parse_json_object

# Templates insist on system, user, assistant in this order. The contents stand for any past, since an append-only
# template renders new messages alike behind all of them.
STAND_IN = (Message(Role.SYSTEM, "s"), Message(Role.USER, "u"), Message(Role.ASSISTANT, "stand-in"))
TOOL_INSTRUCTION = (
    "# Tools\n\nYou may call these tools. Each is one JSON object per line:\n<tools>\n{tools}\n</tools>\n\n"
    'To call one, write\n<tool_call>\n{{"name": <tool name>, "arguments": <JSON object>}}\n</tool_call>'
)


class Template(Protocol):
    """Tokenizer with a chat template."""

    end_ids: frozenset[int]
    """Token ids that end a turn."""

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool) -> str:
        """Return the text of a conversation; raise ``InvalidField("messages")`` when the template rejects it."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the token ids of rendered text, without adding special tokens."""
        ...

    def encode_content(self, text: str) -> list[int]:
        """Return the token ids of a plain text, none of them a special token's."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens included."""
        ...


@dataclass(frozen=True)
class RenderedPrompt:
    """Token ids to append to the context before sampling; the first ``boundary`` of them end the previous turn."""

    ids: list[int]
    boundary: int = 0


def render_prompt(template: Template, request: Request) -> RenderedPrompt:
    """Return the token ids that follow ``request.context_token_ids`` before sampling.

    Raises ``InvalidField`` for context ids or messages that do not match, and ``Internal`` when the template is not
    append-only.
    """
    covered = request.context_messages
    if covered == 0:
        return RenderedPrompt(template.encode(template.render(request.messages, request.tools, True)))
    if request.messages[covered - 1].role is not Role.ASSISTANT:
        raise InvalidField("context_messages", "must cover the conversation up to an assistant message")
    # Ids of another conversation would be continued without a sign that something is wrong.
    check_beginning(template, request)
    return render_suffix(template, request)


def check_beginning(template: Template, request: Request) -> None:
    """Raise ``InvalidField`` unless the context ids begin with the rendered messages before the first answer."""
    roles = [message.role for message in request.messages[: request.context_messages]]
    opening = request.messages[: roles.index(Role.ASSISTANT)]
    if not opening:
        return
    expected = template.encode(template.render(opening, request.tools, True))
    if list(request.context_token_ids[: len(expected)]) != expected:
        raise InvalidField("context_token_ids", "do not begin with the rendering of the first messages and tools")


def render_suffix(template: Template, request: Request) -> RenderedPrompt:
    """Return the ids of the new messages between the end of the last turn and the generation prompt."""
    new = request.messages[request.context_messages :]
    past_text = template.render(STAND_IN, (), False)
    whole_text = template.render((*STAND_IN, *new), (), True)
    past, whole = template.encode(past_text), template.encode(whole_text)
    # Some templates drop reasoning of earlier turns, or move the tools to the last message: then ids of earlier turns
    # cannot be kept as they were sampled, and training on them would be wrong.
    if not whole_text.startswith(past_text) or whole[: len(past)] != past:
        raise Internal("the chat template is not append-only: a longer conversation does not begin as a shorter one")
    answer = STAND_IN[-1].content
    # Not by encoding what stands behind it: some tokenizers put a blank before whatever begins a text.
    answered = template.encode(past_text[: past_text.rindex(answer) + len(answer)])
    if past[: len(answered)] != answered:
        raise Internal("the chat template does not end a turn with its own tokens")
    boundary = past[len(answered) :]
    last = request.context_token_ids[-1]
    # Tokens that the model did not emit at the end of its turn (``<|im_end|>\n`` when it was cut off, ``\n`` when it
    # ended by itself) were not sampled, so they belong to the prompt and get no log-probability.
    emitted = 1 if boundary and last in template.end_ids and boundary[0] == last else 0
    return RenderedPrompt([*boundary[emitted:], *whole[len(past) :]], len(boundary) - emitted)


def write_content(message: Message) -> str:
    """Return a message's content; structured calls that the content lacks are appended in Hermes format."""
    # A model's own calls stand in its content, as sampled: appending them would show each of them twice.
    if not message.tool_calls or OPEN in message.content:
        return message.content
    calls = (format_tool_call(call.name, parse_arguments(call.arguments_json)) for call in message.tool_calls)
    return "\n".join(part for part in (message.content, *calls) if part)


def parse_arguments(arguments_json: str) -> dict[str, object]:
    """Parse the arguments of an earlier call; text that is not a JSON object is returned as ``{"arguments": text}``."""
    try:
        parsed = json.loads(arguments_json)
    except ValueError:
        parsed = None
    # A model may have written broken JSON in an earlier turn; the conversation must go on all the same.
    return parsed if isinstance(parsed, dict) else {"arguments": arguments_json}


def to_conversation(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return messages as chat templates take them."""
    return [{"role": message.role.value, "content": write_content(message)} for message in messages]


def with_tools(
    conversation: Sequence[Mapping[str, str]], functions: Sequence[Mapping[str, object]]
) -> list[Mapping[str, str]]:
    """Return the messages with the tools described in the system message, for templates without tool support."""
    if not functions:
        return list(conversation)
    text = TOOL_INSTRUCTION.format(tools="\n".join(json.dumps(one, ensure_ascii=False) for one in functions))
    # A second system message is refused by many templates.
    if conversation and conversation[0]["role"] == Role.SYSTEM.value:
        first = {**conversation[0], "content": f"{conversation[0]['content']}\n\n{text}"}
        return [first, *conversation[1:]]
    return [{"role": Role.SYSTEM.value, "content": text}, *conversation]


def to_openai_functions(tools: Sequence[ToolSpec]) -> list[dict[str, object]]:
    """Return the tools in OpenAI's function format, sorted by name."""
    # Prompts with the same tools then share their first tokens, whatever the order of the request, and hit the prefix
    # cache.
    return [to_openai_function(tool) for tool in sorted(tools, key=lambda tool: tool.name)]


def to_openai_function(tool: ToolSpec) -> dict[str, object]:
    """Return a tool in OpenAI's function format; raise ``InvalidField("tools")`` for a schema that is not an object."""
    parameters = parse_json_object("tools", f"parameters_json of {tool.name!r}", tool.parameters_json or "{}")
    described = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": described}

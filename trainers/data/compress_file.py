"""``fathom data compress``: compresses the thoughts of a conversation file and renders its token ids anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.replacing import replace_whole
from fathom.trainers.data.compress import Lengths, compress_row
from fathom.trainers.data.export.conversation import ROLES, Conversation, Said
from fathom.trainers.data.export.tokens import PolicyRenderer, render_ids
from fathom.trainers.data.sets import json_lines

NUMBERS = {name: number for number, name in ROLES.items()}


async def compress_file(source: Path, target: Path, budget: int, clients: Clients, model: str) -> Lengths:
    """Write ``target`` atomically; lengths are in tokens of ``model``, counted by the policy service.

    Raises ``NotFound`` for a missing source and ``InvalidField`` naming a line that is not JSON.
    """

    async def count(text: str) -> int:
        request = policy.TokenizeRequest(model=model, text=text)
        return len((await clients.policy.tokenize(request)).token_ids) if text else 0

    lengths = Lengths()
    with replace_whole(target) as part, part.open("w", encoding="utf-8") as lines:
        for row in json_lines(source):
            short = await compress_row(row, budget, count, lengths)
            if "token_ids" in row and "token_ids" not in short:
                short |= await with_ids(short, clients, model)
            lines.write(json.dumps(short, ensure_ascii=False) + "\n")
    return lengths


async def with_ids(row: Mapping[str, Any], clients: Clients, model: str) -> dict[str, Any]:
    """Render the ids and loss mask of a row's messages."""
    said = tuple(Said(message_of(item), bool(item.get("weight"))) for item in row["messages"])
    tools = tool_specs(row["tools"])
    conversation = Conversation(str(row["id"]), 0, said, (), bool(tools))
    tokens = await render_ids(conversation, PolicyRenderer(clients, model, tools))
    return {"token_ids": list(tokens.ids), "loss_mask": list(tokens.mask), "exact": False}


def message_of(chat: Mapping[str, Any]) -> policy.Message:
    """Convert a chat message to the policy service's type; tool calls become part of the text, as models write them."""
    calls = [call["function"] for call in chat.get("tool_calls", ())]
    written = [format_tool_call(call["name"], json.loads(call["arguments"])) for call in calls]
    return policy.Message(
        role=NUMBERS[chat["role"]],  # type: ignore[arg-type]  # the stubs give enum values as plain ints
        content="\n".join([*([chat["content"]] if chat["content"] else []), *written]),
        tool_call_id=chat.get("tool_call_id", ""),
    )


def tool_specs(tools: Sequence[Mapping[str, Any]]) -> list[policy.ToolSpec]:
    """Convert tools from OpenAI's format to the policy service's."""
    return [
        policy.ToolSpec(
            name=tool["function"]["name"],
            description=tool["function"]["description"],
            parameters_json=json.dumps(tool["function"]["parameters"]),
        )
        for tool in tools
    ]

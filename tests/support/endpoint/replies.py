"""Scripted replies, and how each family writes them as chunks of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Indices = Literal["counted", "zero", "missing", "from_one"]
"""Convention for the index of parallel calls: 0, 1, …; always 0; no index at all; 1, 2, …"""
Thoughts = Literal["reasoning_content", "reasoning", "reasoning_details", "think", "unopened", "parts", "hidden"]
"""Place of the thought: a field of the delta, ``<think>`` in the content, the same without the opening tag, parts of
type ``thinking``, or not sent at all."""


@dataclass(frozen=True)
class Call:
    """One tool call; ``arguments`` as text are sent as they are, so that they may be malformed."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""
    """Empty for one made by the endpoint."""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Reply:
    """One reply of the script; without fields an empty one that ends with "stop"."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[Call] = ()
    finish: str = ""
    """Empty for "tool_calls" with calls and "stop" without."""
    usage: Mapping[str, Any] | None = None
    """Usage as the endpoint sends it; None for one made up by the family, {} for none at all."""
    deltas: Sequence[Mapping[str, Any]] = ()
    """Deltas to send literally in place of text, reasoning and calls."""

    status: int = 200
    body: str = ""
    """Body in place of a stream: an error as JSON, or HTML; empty for the family's own form of an error."""
    message: str = "on demand"
    """Message of an error without a body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    break_after: int | None = None
    """Chunks after which the connection is reset; 0 resets it after the status line."""
    end_after: int | None = None
    """Chunks after which the stream ends in an orderly way, without a finish reason."""
    silent_after: int | None = None
    """Chunks after which nothing more is sent, until the client leaves."""
    endless: bool = False
    """Repeat the text until the client leaves."""


@dataclass(frozen=True)
class Wire:
    """Say how an endpoint writes deltas."""

    thoughts: Thoughts = "reasoning_content"
    indices: Indices = "counted"
    whole_calls: bool = False
    """All calls in one delta, each with all its arguments."""
    names_repeated: bool = False
    """The name of a call in every delta of it."""
    arguments_as_object: bool = False
    """Arguments as a JSON object in place of a string, in one delta."""
    signatures: bool = False
    """``extra_content.google.thought_signature`` on the first call of a reply, as Gemini writes it."""
    usage: Literal["openai", "deepseek", "none"] = "openai"
    finish_of_calls: str = "tool_calls"
    """Finish reason of a reply with calls; some servers say "stop"."""


def write_deltas(reply: Reply, wire: Wire, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the deltas of a reply, whose calls have these ids."""
    if reply.deltas:
        yield from (dict(delta) for delta in reply.deltas)
        return
    yield {"role": "assistant", "content": ""}
    yield from write_thoughts(reply.reasoning, wire)
    yield from ({"content": piece} for piece in split(reply.text))
    if reply.calls:
        yield from write_calls(reply, wire, ids)


def write_thoughts(reasoning: str, wire: Wire) -> Iterator[dict[str, Any]]:
    """Yield the deltas of a thought in the place that the endpoint has for it."""
    if not reasoning or wire.thoughts == "hidden":
        return
    if wire.thoughts in ("think", "unopened"):
        opening = "<think>\n" if wire.thoughts == "think" else ""
        yield from ({"content": piece} for piece in split(f"{opening}{reasoning}\n</think>\n\n"))
    elif wire.thoughts == "parts":
        thinking = [{"type": "text", "text": reasoning}]
        yield {"content": [{"type": "thinking", "thinking": thinking}]}
    elif wire.thoughts == "reasoning_details":
        for piece in split(reasoning):
            yield {"reasoning_details": [{"type": "reasoning.text", "id": "reasoning-1", "index": 0, "text": piece}]}
    else:
        name: str = wire.thoughts
        yield from ({name: piece} for piece in split(reasoning))


def write_calls(reply: Reply, wire: Wire, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the deltas of the calls by the endpoint's conventions."""
    wholes = [write_call(call, place, ids[place], wire) for place, call in enumerate(reply.calls)]
    if wire.whole_calls or wire.arguments_as_object:
        yield {"tool_calls": wholes}
        return
    for call, whole in zip(reply.calls, wholes, strict=True):
        index = {"index": whole["index"]} if "index" in whole else {}
        yield {"tool_calls": [{**whole, "function": {"name": call.name, "arguments": ""}}]}
        for piece in split(call.text):
            name = {"name": call.name} if wire.names_repeated else {}
            # Servers without indices have nothing but the id to say which call goes on, or send no pieces.
            known = {"id": whole["id"]} if wire.names_repeated else {}
            yield {"tool_calls": [{**index, **known, "function": {**name, "arguments": piece}}]}


def write_call(call: Call, place: int, call_id: str, wire: Wire) -> dict[str, Any]:
    """Return a call with all its arguments."""
    arguments: Any = json.loads(call.text) if wire.arguments_as_object else call.text
    whole: dict[str, Any] = {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    if wire.indices != "missing":
        whole["index"] = {"counted": place, "zero": 0, "from_one": place + 1}[wire.indices]
    if wire.signatures and place == 0:
        whole["extra_content"] = {"google": {"thought_signature": sign(call_id)}}
    return whole


def sign(call_id: str) -> str:
    """Return the signature of a call, which must come back unchanged."""
    return f"c2lnbmF0dXJl+{call_id}/=="


def write_usage(body: Mapping[str, Any], reply: Reply, wire: Wire) -> dict[str, Any]:
    """Return the usage of a reply in the family's form; {} for none."""
    if reply.usage is not None:
        return dict(reply.usage)
    if wire.usage == "none":
        return {}
    prompt = max(1, len(json.dumps(body.get("messages", ()))) // 4)
    thought = len(reply.reasoning) // 4
    sampled = thought + max(1, len(reply.text) // 4) + sum(len(call.text) // 4 + 8 for call in reply.calls)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }  # fmt: skip
    cached = prompt // 2
    if wire.usage == "deepseek":
        return {**usage, "prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": prompt - cached}
    return {**usage, "prompt_tokens_details": {"cached_tokens": cached}}


def split(text: str, size: int = 12) -> list[str]:
    """Split a text into the pieces of a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]

"""Pieces that the replies of both doors share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathom.api.common.v1.common_pb2 import Usage


def make_chunk(
    ident: str, model: str, created: int, delta: Mapping[str, Any], finish_reason: str | None = None
) -> dict[str, Any]:
    """Return a chunk of a streamed chat completion; ``created`` is in seconds since the epoch."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return {
        "id": ident,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [choice],
    }


def make_usage(usage: Usage) -> dict[str, Any]:
    """Return the tokens of a completion."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
